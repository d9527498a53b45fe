//! Folders and files that the server must not or cannot use.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use plantd_tests::torture::Report;
use plantd_tests::{
    CONFIGURATION, IO, Launch, SmallDisk, TestServer, UNPRIVILEGED, copy_program, is_root,
    is_root_or_skipped,
};
use tempfile::TempDir;

use super::{assert_ends, assert_refused, load};

/// A folder of a user who is subject to file permissions, and a copy of the program for this user.
struct Stage {
    folder: TempDir,
    launch: Launch,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let program = copy_program(folder.path());
        let stage = Self { folder, launch: Launch::new().unprivileged(&program) };
        stage.make("own");
        stage
    }

    /// A path in the user's own folder.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("own").join(name)
    }

    /// Makes a folder that belongs to the user.
    fn make(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir(&path).expect("a folder can be made");
        own(&path);
        path
    }

    /// A data folder in which a server of this user has left a plant.
    fn used(&self, name: &str) -> PathBuf {
        let data = self.path(name);
        let mut server = TestServer::start_at(self.launch.clone(), &data);
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        assert_eq!(server.terminate().code(), Some(0));
        data
    }

    /// Asserts that the plant is there after the obstacle is removed.
    #[track_caller]
    fn assert_unharmed(&self, data: &Path) {
        let mut server = TestServer::start_at(self.launch.clone(), data);
        server.client().read(1).assert_new_plant(1, "Rosa", None);
        assert_eq!(server.terminate().code(), Some(0));
    }
}

/// Gives a file to the user who is subject to file permissions.
fn own(path: &Path) {
    if is_root() {
        chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("the owner can be changed");
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions can be set");
}

const OWNER: &[&str] = &["check who owns", "and who owns it"];

#[test]
fn a_folder_without_permission_ends_with_74_and_says_who_to_ask() {
    let stage = Stage::new();
    // No database, and no permission to make one.
    let read_only = stage.make("own/read-only");
    set_mode(&read_only, 0o500);
    assert_refused(&stage.launch, &read_only, OWNER);
    assert_refused(&stage.launch, &read_only.join("missing"), OWNER);
    assert_refused(&stage.launch, &read_only.join("missing/too"), OWNER);
    let closed = stage.make("own/closed");
    set_mode(&closed, 0o000);
    assert_refused(&stage.launch, &closed, OWNER);
    assert_refused(&stage.launch, &closed.join("within"), OWNER);

    // A database that worked before.
    let data = stage.used("data");
    let cases = [
        (".", 0o000),
        ("plants", 0o000),
        ("plants", 0o400),
        ("plants/lock", 0o000),
        ("plants/lock", 0o400),
        ("plants/journal.0", 0o000),
        ("plants/journal.0", 0o400),
        ("plants/journal.1", 0o400),
        ("plants/manifest", 0o000),
        ("plants/tables", 0o000),
        ("plants/tables/000000000001", 0o000),
        ("plants/tables/000000000001/db", 0o000),
    ];
    for (path, mode) in cases {
        let path = data.join(path);
        let before = fs::metadata(&path).expect("a file has metadata").permissions();
        set_mode(&path, mode);
        assert_refused(&stage.launch, &data, OWNER);
        fs::set_permissions(&path, before).expect("permissions can be set");
        stage.assert_unharmed(&data);
    }
    Report {
        test: "disks",
        promise: "Missing permissions are reported and harm nothing",
        disturbances: format!("{} folders and files without permission", cases.len() + 5),
        losses: format!("0 of {} databases", cases.len()),
        details: "each start ended with 74 and said who to ask".to_owned(),
    }
    .print();
}

#[test]
fn a_folder_of_another_user_ends_with_74_and_says_who_to_ask() {
    let stage = Stage::new();
    if is_root_or_skipped("give files away") {
        let folder = stage.make("own/of-someone-else");
        chown(&folder, Some(UNPRIVILEGED - 1), Some(UNPRIVILEGED - 1)).expect("root may do so");
        set_mode(&folder, 0o700);
        assert_refused(&stage.launch, &folder, OWNER);
        set_mode(&folder, 0o755);
        assert_refused(&stage.launch, &folder, OWNER);
        assert_refused(&stage.launch, &folder.join("data"), OWNER);

        let data = stage.used("data");
        let lock = data.join("plants/lock");
        for path in [&lock, &data] {
            chown(path, Some(0), Some(0)).expect("root may do so");
            set_mode(path, 0o700);
            assert_refused(&stage.launch, &data, OWNER);
            own(path);
        }
        stage.assert_unharmed(&data);
    }
    // Only root can give files away, but these belong to root everywhere.
    for folder in ["/root", "/etc"].map(Path::new) {
        assert_eq!(fs::metadata(folder).expect("a file has metadata").uid(), 0);
        assert_refused(&stage.launch, &folder.join("plants-of-a-test"), OWNER);
    }
}

#[test]
fn a_path_that_leads_to_no_folder_ends_with_74_and_names_it() {
    const PATH: &[&str] = &["check the path"];
    let stage = Stage::new();
    let file = stage.path("file");
    fs::write(&file, "no folder").expect("a file can be written");
    assert_refused(&stage.launch, &file, PATH);
    assert_refused(&stage.launch, &file.join("data"), PATH);
    assert_refused(&stage.launch, &file.join("data/within"), PATH);
    assert_eq!(fs::read(&file).expect("a file can be read"), b"no folder");

    let (one, other) = (stage.path("one"), stage.path("other"));
    symlink(&one, &other).expect("a link can be made");
    symlink(&other, &one).expect("a link can be made");
    assert_refused(&stage.launch, &one, PATH);
    assert_refused(&stage.launch, &one.join("data"), PATH);
    let nowhere = stage.path("nowhere");
    symlink(stage.path("missing"), &nowhere).expect("a link can be made");
    assert_refused(&stage.launch, &nowhere, PATH);
    assert_refused(&stage.launch, &stage.path(&"long".repeat(100)), PATH);

    // Folders in place of the database's files.
    let data = stage.used("data");
    for name in ["lock", "journal.0", "manifest", "tables/000000000001/db"] {
        let (path, aside) = (data.join("plants").join(name), stage.path("aside"));
        fs::rename(&path, &aside).expect("a file can be renamed");
        fs::create_dir(&path).expect("a folder can be made");
        assert_refused(&stage.launch, &data, PATH);
        fs::remove_dir(&path).expect("a folder can be removed");
        fs::rename(&aside, &path).expect("a file can be renamed");
        stage.assert_unharmed(&data);
    }
}

#[test]
fn a_folder_in_use_ends_with_74_and_the_one_that_uses_it_goes_on() {
    let stage = Stage::new();
    let data = stage.path("data");
    let server = TestServer::start_at(stage.launch.clone(), &data);
    assert_refused(&stage.launch, &data, &["stop that process first"]);
    let link = stage.path("link");
    symlink(&data, &link).expect("a link can be made");
    assert_refused(&stage.launch, &link, &["stop that process first"]);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn a_tokens_file_that_cannot_be_read_ends_with_74_and_one_that_is_no_file_with_78() {
    let stage = Stage::new();
    let data = stage.used("data");
    let launch = stage.launch.clone().data(&data);
    let tokens = data.join("tokens.json");
    let (one, other) = (stage.path("one"), stage.path("other"));
    symlink(&one, &other).expect("a link can be made");
    symlink(&other, &one).expect("a link can be made");
    symlink(&one, &tokens).expect("a link can be made");
    assert_ends(&launch, IO, &tokens, OWNER);
    fs::remove_file(&tokens).expect("a file can be removed");

    fs::write(&tokens, r#"{"tokens":[]}"#).expect("a file can be written");
    own(&tokens);
    set_mode(&tokens, 0o000);
    assert_ends(&launch, IO, &tokens, OWNER);
    fs::remove_file(&tokens).expect("a file can be removed");

    fs::create_dir(&tokens).expect("a folder can be made");
    assert_ends(&launch, CONFIGURATION, &tokens, &["is not a file"]);
    fs::remove_dir(&tokens).expect("a folder can be removed");

    // A folder in which the first token cannot be saved.
    let closed = stage.make("own/closed");
    set_mode(&closed, 0o500);
    let tokens = closed.join("tokens.json");
    let launch = launch.without_environment("PLANTD_TOKEN").environment("PLANTD_TOKENS", &tokens);
    assert_ends(&launch, IO, &tokens, OWNER);
    stage.assert_unharmed(&data);
}

#[test]
fn a_file_system_that_is_read_only_ends_with_74_and_says_so() {
    const READ_ONLY: &[&str] = &["is read-only"];
    let disk = SmallDisk::new("size=184m");
    let launch = load::launch().within(&disk);
    let mut server = TestServer::start_at(launch.clone(), &disk.data());
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));

    disk.remount("ro");
    assert_refused(&launch, &disk.data(), READ_ONLY);
    assert_refused(&launch, &disk.path().join("missing"), READ_ONLY);
    disk.remount("rw");
    let mut server = TestServer::start_at(launch, &disk.data());
    server.client().read(1).assert_new_plant(1, "Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
}
