//! `plantd backup`, `verify FILE`, `restore` and `archive prune`: what they make, their messages and their exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plantd_tests::{
    DEADLINE, FINDINGS, Format, IO, Launch, NewPlant, Script, TestServer, USAGE,
    assert_cursor_refused, mode, names_in, newest_cursor, pipe_of, raw_head, set_mode, store_of,
    temporary_folder, wait_until, wait_until_archived,
};
use tempfile::TempDir;

/// A server with some plants and an archive, and a folder for its backups and their restores.
struct Garden {
    server: TestServer,
    folder: TempDir,
}

impl Garden {
    fn new() -> Self {
        let folder = temporary_folder();
        let archive = folder.path().join("archive");
        let launch = Launch::new().environment("PLANTD_ARCHIVE", &archive);
        let server = TestServer::start_with(launch);
        let rows: String = (0..1_000)
            .map(|id| format!("{{\"id\":{id},\"name\":\"Rosa {id}\",\"tag\":\"Rosaceae\"}}\n"))
            .collect();
        server.client().import(Format::Ndjson, "", rows);
        Self { server, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn back_up(&self, file: &Path) -> Launch {
        Launch::for_server(self.server.address(), &["backup"]).arguments([file])
    }

    /// Makes a backup with this file name.
    #[track_caller]
    fn backup(&self, name: &str) -> PathBuf {
        let file = self.path(name);
        self.back_up(&file).run(0);
        file
    }

    /// The folder of the archive, once it has every change.
    fn archive(&self) -> PathBuf {
        wait_until_archived(&self.server.client());
        self.path("archive")
    }
}

fn verify(file: &Path) -> Launch {
    Launch::new().arguments(["verify"]).arguments([file])
}

fn restore(file: &Path, data: &Path) -> Launch {
    Launch::new().arguments(["restore", "--data"]).arguments([data, file])
}

fn with_archive(launch: Launch, archive: &Path) -> Launch {
    launch.arguments(["--archive".as_ref(), archive.as_os_str()])
}

/// The server of a restored folder.
fn restored(data: &Path) -> TestServer {
    TestServer::start_at(Launch::new(), data)
}

fn pieces_in(archive: &Path) -> Vec<String> {
    let mut names = names_in(archive);
    names.retain(|name| name.ends_with(".wal"));
    names
}

/// The numbers of the first and the last change in a piece, as its name says.
#[track_caller]
fn changes_in(piece: &str) -> [usize; 2] {
    let mut numbers = piece.trim_end_matches(".wal").rsplit('-');
    let mut number = || numbers.next().and_then(|it| it.parse().ok()).expect("a number");
    let last = number();
    [number(), last]
}

#[test]
fn a_backup_is_verified_and_restored_to_the_same_plants_under_another_log() {
    let garden = Garden::new();
    let client = garden.server.client();
    let (file, data) = (garden.path("plants.backup"), garden.path("restored"));
    let said = garden.back_up(&file).run(0).stderr();
    assert!(said.starts_with("backed up ") && said.contains(": 1,000 plants, up to the change "));
    let before = store_of(&client, "before");
    let (cursor, tag) = (newest_cursor(&client), client.read(7).header("etag").map(str::to_owned));
    let lost = client.put(7, r#"{"name":"Lost"}"#);
    let lost_cursor = newest_cursor(&client);

    let found = "everything agrees: 1,000 plants, 1,000 events\n";
    let said = verify(&file).run(0).stdout();
    assert!(said.starts_with(&format!("{found}whole up to")) && said.contains(&cursor), "{said}");
    let said = restore(&file, &data).run(0).stderr();
    assert!(said.starts_with("restored 1,000 plants in ") && said.contains(&cursor), "{said}");
    assert_eq!(mode(&data), 0o700);
    assert_eq!(names_in(&data), ["plants"]);

    let server = restored(&data);
    let client = server.client();
    assert_eq!(store_of(&client, "after a restore"), before);
    assert_eq!(client.read(7).header("etag").map(str::to_owned), tag, "the plant is the same");
    for cursor in [cursor, lost_cursor] {
        assert_cursor_refused(&client, &cursor);
    }
    let changed = client.put(7, r#"{"name":"Changed"}"#);
    assert!(changed.revision() > lost.revision(), "a revision is given out twice");

    // Through a pipe, too.
    let whole = fs::read(&file).expect("a file can be read");
    let piped = |launch: Launch| launch.run_reading(pipe_of(whole.clone()), 0);
    let said = piped(verify(Path::new("-"))).stdout();
    assert!(said.starts_with(found), "{said}");
    piped(restore(Path::new("-"), &garden.path("piped")));
    assert_eq!(store_of(&restored(&garden.path("piped")).client(), "after a restore"), before);
}

#[test]
fn a_restore_with_an_archive_goes_to_the_end_or_to_a_moment() {
    let garden = Garden::new();
    let client = garden.server.client();
    let file = garden.backup("plants.backup");
    client.create(1_001, "Salix", None);
    let cursor = newest_cursor(&client);
    client.create(1_002, "Quercus", None);
    let archive = garden.archive();

    let restore_to = |name: &str, more: &[&str]| {
        with_archive(restore(&file, &garden.path(name)), &archive).arguments(more)
    };
    for (name, more, plants) in [
        ("end", &[][..], 1_002),
        ("cursor", &["--until", &cursor], 1_001),
        ("late", &["--until", "2999-01-02T03:04:05+02:00"], 1_002),
    ] {
        restore_to(name, more).run(0);
        assert_eq!(store_of(&restored(&garden.path(name)).client(), name).len(), plants, "{name}");
    }
    let verified = with_archive(verify(&file), &archive).run(0).stdout();
    assert!(verified.contains("whole up to the change 1002-"), "{verified}");

    let of_another_log = format!("1002-{:x}", u64::MAX);
    let neither = ["neither a time", "2048-9f3a1c"];
    for (until, words) in [
        ("yesterday", neither),
        ("2027-01-02", neither),
        ("7-", neither),
        ("", neither),
        ("2020-01-02T03:04:05Z", ["take an older backup", ""]),
        ("7-1", ["not of the log", ""]),
        (&of_another_log, ["not of the log", ""]),
        (&format!("{}-1", u64::MAX), ["not of the log", ""]),
        ("9999-12-31T23:59:59Z", ["up to 9999-12-30", ""]),
    ] {
        restore_to("refused", &["--until", until]).assert_refused(USAGE, &words);
    }
    let without = restore(&file, &garden.path("refused")).arguments(["--until", &cursor]);
    without.assert_refused(USAGE, &["--archive"]);
    let beyond = format!("9999999-{}", cursor.split_once('-').expect("a log").1);
    let words = ["the archive ends before the change", "add --until 1002-"];
    restore_to("refused", &["--until", &beyond]).assert_refused(FINDINGS, &words);
    // Without the piece that follows the backup, nothing is restored, and the message offers the backup alone.
    let after_backup = pieces_in(&archive).pop().expect("a piece");
    let piece = archive.join(&after_backup);
    let mut bytes = fs::read(&piece).expect("a file can be read");
    bytes[20] ^= 1;
    fs::write(&piece, bytes).expect("a file can be written");
    restore_to("refused", &[]).assert_refused(FINDINGS, &[&after_backup, "add --until"]);
    assert!(!names_in(garden.folder.path()).iter().any(|name| name.starts_with("refused")));
}

#[test]
fn an_archive_lacks_only_the_changes_of_the_last_second_when_the_disk_is_lost() {
    /// The interval of the archive, and what a busy machine may add to each piece.
    const LOST_AT_MOST: Duration = Duration::from_secs(1 + 5);
    /// What a busy machine may add to the piece that is written soonest.
    const SOONEST: Duration = Duration::from_secs(2);
    const PIECES: usize = 6;
    let mut garden = Garden::new();
    let file = garden.backup("plants.backup");
    let archive_folder = garden.archive();
    let (client, before) = (garden.server.client(), pieces_in(&archive_folder).len());
    let (mut acknowledged, begun) = (Vec::new(), Instant::now());
    while pieces_in(&archive_folder).len() < before + PIECES || begun.elapsed() < 2 * LOST_AT_MOST {
        let id = 1_000 + i64::try_from(acknowledged.len()).expect("small");
        client.create(id, "Salix", None).assert_plant("Salix", None);
        acknowledged.push(SystemTime::now());
        assert!(begun.elapsed() < DEADLINE, "too few pieces in {:?}", begun.elapsed());
    }
    garden.server.kill();
    let killed = SystemTime::now();
    let pieces = pieces_in(&archive_folder).split_off(before);
    // The first thousand changes made the plants of the garden.
    let acknowledged_at = |change: usize| acknowledged.get(change - 1_001);
    let ages = pieces.iter().map(|name| {
        let written = fs::metadata(archive_folder.join(name)).and_then(|it| it.modified());
        let [first, _] = changes_in(name);
        let first = acknowledged_at(first).expect("the change was acknowledged");
        written.expect("a time").duration_since(*first).unwrap_or_default()
    });
    let soonest = ages.min().expect("there are pieces");
    assert!(soonest < SOONEST, "each change was in the archive after {soonest:?} or later");
    fs::remove_dir_all(garden.server.data()).expect("a folder can be removed");

    let data = garden.path("restored");
    with_archive(restore(&file, &data), &archive_folder).run(0);
    let plants = store_of(&restored(&data).client(), "after a restore");
    let [_, archived] = changes_in(pieces.last().expect("a piece"));
    let ids = 0..i64::try_from(archived).expect("small");
    assert!(plants.keys().copied().eq(ids), "{} of {archived} plants", plants.len());
    assert!(plants.len() > 1_000);
    if let Some(first_missing) = acknowledged_at(archived + 1) {
        let age = killed.duration_since(*first_missing).unwrap_or_default();
        assert!(age < LOST_AT_MOST, "a change of {age:?} before the kill is missing");
    }
}

#[test]
fn only_the_owner_may_access_files_with_plants_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let folder = temporary_folder();
        let path = |name: &str| folder.path().join(name);
        let (data, archive) = (path("data"), path("archive"));
        // Folders that plantd did not make stay open to others.
        for folder in [&data, &archive] {
            fs::create_dir(folder).expect("a folder can be made");
            set_mode(folder, 0o755);
        }
        let launch = Launch::new().environment("PLANTD_ARCHIVE", &archive).umask(umask);
        let mut server = TestServer::start_at(launch, &data);
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        for (command, file) in [("backup", "backup"), ("export", "export.csv")] {
            let launch = Launch::for_server(server.address(), &[command]).umask(umask);
            launch.arguments([path(file)]).run(0);
        }
        wait_until_archived(&server.client());
        assert_eq!(server.terminate().code(), Some(0));
        restore(&path("backup"), &path("restored")).umask(umask).run(0);
        let salvage = Launch::new().arguments(["export", "--data"]).umask(umask);
        salvage.arguments([&data, &path("salvaged.csv")]).run(0);
        let mut private = 0;
        assert_private(folder.path(), &mut private);
        assert!(private >= 10, "{private}");
    }
}

/// Asserts that everything in a folder is for its owner alone; a folder may be open to others if its content is not.
/// Counts the entries in `private`.
fn assert_private(folder: &Path, private: &mut u32) {
    for name in names_in(folder) {
        let path = folder.join(name);
        match (path.is_dir(), mode(&path)) {
            (true, 0o755) => assert_private(&path, private),
            (true, mode) => assert_eq!(mode, 0o700, "{}", path.display()),
            (false, mode) => assert_eq!(mode, 0o600, "{}", path.display()),
        }
        *private += 1;
    }
}

#[test]
fn a_restore_fills_an_empty_folder_and_overwrites_nothing() {
    let garden = Garden::new();
    let file = garden.backup("plants.backup");
    let link = garden.path("link");
    std::os::unix::fs::symlink("nowhere", &link).expect("a link can be made");
    for there in [garden.server.data(), &file, &link, &garden.path("missing/data")] {
        restore(&file, there).assert_refused(IO, &["cannot restore into the folder"]);
    }
    // A mounted file system has `lost+found`, and a killed restore leaves the rest.
    let volume = garden.path("volume");
    for name in ["lost+found", "plants.unfinished/tables"] {
        fs::create_dir_all(volume.join(name)).expect("a folder can be made");
    }
    set_mode(&volume, 0o750);
    let other = volume.join("other");
    fs::write(&other, "").expect("a file can be written");
    restore(&file, &volume).assert_refused(IO, &["a restore writes over nothing"]);
    assert!(volume.join("plants.unfinished/tables").exists(), "a refused restore removes");
    fs::remove_file(other).expect("a file can be removed");
    // NFS refuses all flags of renameat2.
    let no_flag = ["-e", "inject=renameat2:error=EINVAL"];
    restore(&file, &volume).under_strace(&garden.path("trace"), &no_flag).run(0);
    assert_eq!(names_in(&volume), ["lost+found", "plants"]);
    assert_eq!(mode(&volume), 0o750, "the folder is another's");
    assert_eq!(store_of(&restored(&volume).client(), "after a restore").len(), 1_000);
    restore(&file, &volume).assert_refused(IO, &["a restore writes over nothing"]);
}

#[test]
fn a_restore_to_a_failing_disk_blames_only_the_restored_folder() {
    let garden = Garden::new();
    let file = garden.backup("plants.backup");
    garden.server.client().create(1_001, "Salix", None);
    let archive = garden.archive();
    let data = garden.path("restored");
    for fault in [
        "mkdir:error=EIO:when=3+",
        "pwrite64:error=ENOSPC",
        "fsync:error=EIO:when=3+",
        "pread64:error=EIO:when=60+",
        "rename:error=EIO",
        "renameat2:error=EIO",
    ] {
        let launch = with_archive(restore(&file, &data), &archive);
        let launch =
            launch.under_strace(&garden.path("trace"), &["-e", &format!("inject={fault}")]);
        let said = launch.assert_refused(IO, &[&data.display().to_string()]);
        for of_another in ["plants.backup", "archive", "damaged", "take another"] {
            assert!(!said.contains(of_another), "{fault}: {said}");
        }
        assert!(!data.exists(), "{fault}");
    }
}

#[test]
fn verify_and_restore_refuse_files_that_are_no_backup() {
    let garden = Garden::new();
    let file = garden.backup("plants.backup");
    let mut whole = fs::read(&file).expect("a file can be read");
    whole.pop();
    for (bytes, words) in [
        (b"id,name,tag\n1,Rosa,Rosaceae\n".to_vec(), "does not begin as a backup does"),
        (whole, "it is cut"),
    ] {
        fs::write(&file, bytes).expect("a file can be written");
        let verification = verify(&file).run(FINDINGS);
        let (found, refusal) = (verification.stdout(), verification.stderr());
        assert!(refusal.contains("take another one"), "{refusal}");
        assert!(found.contains(words) || refusal.contains(words), "{found}{refusal}");
        restore(&file, &garden.path("data")).assert_refused(FINDINGS, &["take another one", words]);
    }
    let (missing, folder) = (garden.path("missing"), garden.folder.path());
    for (file, words) in [(&*missing, "cannot read"), (folder, "is a directory")] {
        verify(file).assert_refused(IO, &[words]);
        restore(file, &garden.path("data")).assert_refused(IO, &[words]);
    }
    assert!(!garden.path("data").exists());
    let without_backup = with_archive(Launch::new().arguments(["verify"]), folder);
    without_backup.assert_refused(USAGE, &["give the backup too"]);
}

#[test]
fn a_backup_that_breaks_off_leaves_the_file_as_it_was() {
    let folder = temporary_folder();
    let file = folder.path().join("plants.backup");
    fs::write(&file, "the last backup").expect("a file can be written");
    let of_backup = "Content-Type: application/octet-stream";
    for (head, body, words) in [
        (&format!("{of_backup}\r\nContent-Length: 9000"), "cut", "is not whole; run it again"),
        (&format!("{of_backup}\r\nContent-Length: 5"), "whole", "sent no whole backup"),
        (&of_backup.to_owned(), "no length", "does not say where its answer ends"),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\n\r\n{body}");
        let script = Script::start(vec![answer]);
        let launch = Launch::for_server(script.address, &["backup"]).arguments([&file]);
        launch.assert_refused(IO, &[words]);
        assert_eq!(fs::read_to_string(&file).expect("a file can be read"), "the last backup");
        assert_eq!(names_in(folder.path()), ["plants.backup"]);
    }
}

#[test]
fn one_backup_is_made_at_a_time_and_the_command_waits_for_another_one_for_at_most_ten_minutes() {
    let garden = Garden::new();
    let client = garden.server.client();
    // A backup takes longer than a few requests.
    let plants = (0..40_000).map(|id| NewPlant::new(id, "Rosa ".repeat(40).trim_end(), None));
    let rows = Format::Ndjson.body(&plants.collect::<Vec<_>>());
    client.import(Format::Ndjson, "on_conflict=replace", rows);
    let mut head = garden.server.connect();
    let mut status_of_head = || {
        head.send(raw_head("HEAD /backup", ""));
        head.receive_head().status
    };
    assert_eq!([(); 3].map(|()| status_of_head()), [200; 3], "HEAD counts as a backup");

    let mut first = garden.server.connect();
    first.send(raw_head("GET /backup", ""));
    assert_eq!(first.receive_head().status, 200);
    // The body is not read, so the first backup does not end.
    assert_eq!(status_of_head(), 503);
    let refused = client.get("/backup").assert_error(503, 5003);
    assert!(refused.contains("another backup"), "{refused}");
    let mut second = garden.back_up(&garden.path("plants.backup")).spawn();
    wait_until("the second one to wait", || {
        second.stderr().contains("trying again") && second.stderr().contains("another backup")
    });
    drop(first);
    second.assert_exit_code(0);
    assert!(second.stderr().contains(": 40,000 plants"), "{}", second.stderr());
    verify(&garden.path("plants.backup")).run(0);

    let busy = "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n";
    for retry_after in ["Retry-After: 601\r\n", ""] {
        let script = Script::start(vec![format!("{busy}{retry_after}\r\n"); 9]);
        Launch::for_server(script.address, &["backup", "-"]).assert_refused(IO, &["503"]);
        assert_eq!(script.targets(), ["/backup"]);
    }
}

#[test]
fn a_prune_says_what_it_has_removed() {
    let garden = Garden::new();
    garden.archive();
    garden.server.client().create(1_001, "Salix", None);
    let archive = garden.archive();
    let pieces = pieces_in(&archive).len();
    assert!(pieces > 1);
    let prune = |keep: &str, archive: &Path| {
        Launch::new().arguments(["archive", "prune", "--keep", keep]).arguments([archive])
    };
    assert_eq!(prune("7d", &archive).printed(), "removed 0 pieces (0 B)\n");
    let said = prune("0s", &archive).printed();
    assert!(said.starts_with(&format!("removed {} pieces (", pieces - 1)), "{said}");
    assert_eq!(pieces_in(&archive).len(), 1);
    prune("7d", &garden.path("nowhere")).assert_refused(IO, &["cannot read the archive"]);
    prune("seven", &archive).assert_refused(USAGE, &["give a duration"]);
}
