//! Files that another user has put in the place of those of the server.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use plantd_tests::{
    CONFIGURATION, IO, Launch, UNPRIVILEGED, create_token, is_root, is_root_or_skipped, make_pipe,
    names_in, set_mode, temporary_folder, token_command,
};
use tempfile::TempDir;

use crate::launch;
use crate::token_command::names;

/// The content of a file to which another user must not redirect the program.
const VICTIM: &str = r#"{"tokens":[]}"#;

/// A file that only the caller can read, and a folder beside it. If the caller is root, the folder and its files
/// belong to another user.
struct Trap {
    folder: TempDir,
    victim: PathBuf,
    data: PathBuf,
}

impl Trap {
    fn new() -> Self {
        let folder = temporary_folder();
        let (victim, data) = (folder.path().join("victim"), folder.path().join("data"));
        fs::write(&victim, VICTIM).expect("a file can be written");
        set_mode(&victim, 0o600);
        let trap = Self { folder, victim, data };
        trap.make_folder("");
        trap
    }

    /// Makes a folder that belongs to the other user.
    fn make_folder(&self, name: &str) {
        let path = self.data.join(name);
        fs::create_dir(&path).expect("a folder can be made");
        Self::give_away(&path);
    }

    fn link(&self, path: &Path) {
        symlink(&self.victim, path).expect("a link can be made");
        Self::give_away(path);
    }

    fn give_away(path: &Path) {
        if is_root() {
            lchown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("the owner can be changed");
        }
    }

    /// Asserts that the program refuses, names the file, and leaves the caller's own file unchanged.
    #[track_caller]
    fn check(&self, launch: &Launch, name: &str, exit_codes: &[i32]) {
        let look = || {
            let metadata = fs::metadata(&self.victim).expect("a file has metadata");
            (fs::read(&self.victim).expect("a file can be read"), metadata.uid(), metadata.ino())
        };
        let before = look();
        let mut process = launch.spawn();
        let code = process.wait_for_exit().code().expect("the program ends by itself");
        let said = process.stderr();
        assert!(exit_codes.contains(&code), "{name}: {code}: {said}");
        for word in [self.data.join(name).to_str().expect("UTF-8"), "remove it"] {
            assert!(said.contains(word), "{name}: {said}");
        }
        assert_eq!(look(), before, "{name}: {said}");
        let beside = names_in(self.folder.path());
        assert_eq!(beside, ["data", "victim"], "{name}: something was made beside the file");
    }
}

#[test]
fn a_file_substituted_by_another_user_does_not_redirect_root() {
    const LOCK: &str = "tokens.json.lock";
    let create =
        |trap: &Trap| token_command(&trap.data, &["create", "--scope", "write", "--name", "mine"]);
    let serve = |trap: &Trap| launch().data(&trap.data);

    // The caller's own links are followed.
    if is_root_or_skipped("have a folder of another user") {
        let trap = Trap::new();
        trap.link(&trap.data.join("tokens.json"));
        trap.check(&create(&trap), "tokens.json", &[CONFIGURATION]);
        let trap = Trap::new();
        trap.link(&trap.data.join("first-run-token"));
        trap.check(&serve(&trap), "first-run-token", &[IO]);
    }
    // The lock may also be a file of the caller that another user now owns.
    let baits: [fn(&Trap, &Path); 3] = [
        Trap::link,
        |trap, path| fs::hard_link(&trap.victim, path).expect("on one file system"),
        |_, path| make_pipe(path),
    ];
    for run in [create, serve] {
        for lay in baits {
            let trap = Trap::new();
            lay(&trap, &trap.data.join(LOCK));
            trap.check(&run(&trap), LOCK, &[IO, CONFIGURATION]);
        }
    }
    // Files of a database that does not exist yet.
    for name in ["plants/lock", "plants/journal.0", "plants/journal.1"] {
        for (lay, is_refused) in [(baits[0], true), (baits[1], false)] {
            let trap = Trap::new();
            trap.make_folder("plants");
            let path = trap.data.join(name);
            lay(&trap, &path);
            let mut server = serve(&trap).spawn();
            if is_refused {
                server.assert_exit_code(IO);
                assert!(server.stderr().contains(path.to_str().expect("UTF-8")));
            } else {
                assert!(server.first_line().starts_with("plantd listening"), "{name}");
            }
            assert_eq!(
                fs::read(&trap.victim).expect("a file can be read"),
                VICTIM.as_bytes(),
                "{name}"
            );
        }
    }
}

#[test]
fn a_file_that_root_makes_in_the_folder_of_another_user_belongs_to_that_user() {
    if !is_root_or_skipped("have a folder of another user") {
        return;
    }
    let trap = Trap::new();
    let _ = create_token(&trap.data, &["--name", "mine"]);
    for name in ["tokens.json", "tokens.json.lock"] {
        let metadata = fs::metadata(trap.data.join(name)).expect("a file has metadata");
        assert_eq!((metadata.uid(), metadata.gid()), (UNPRIVILEGED, UNPRIVILEGED), "{name}");
        assert_eq!(metadata.mode() & 0o777, 0o600, "{name}");
    }
    // The second time, that user's files exist.
    let _ = create_token(&trap.data, &["--name", "other"]);
    assert_eq!(names(&trap.data), ["mine", "other"]);
}
