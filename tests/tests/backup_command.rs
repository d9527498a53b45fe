//! `plantd backup`, `verify FILE`, `restore` and `archive prune`: what they make, their messages and their exit codes.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plantd_tests::{
    CONFIGURATION, DEADLINE, FakeServer, Format, IO, Launch, Process, Script, TestServer, USAGE,
    assert_cursor_refused, create_token, mode, newest_cursor, raw_head, store_of, wait_until,
    wait_until_archived,
};
use tempfile::TempDir;

const FINDINGS: i32 = 1;

const BACKUP: &str = "application/octet-stream";

/// A server with some plants and an archive, and a folder for its backups and their restores.
struct Garden {
    server: TestServer,
    folder: TempDir,
}

impl Garden {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
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
        let url = format!("http://{}", self.server.address());
        Launch::new().arguments(["backup", "--url", &url]).arguments([file])
    }

    /// Makes a backup with this file name.
    #[track_caller]
    fn backup(&self, name: &str) -> PathBuf {
        let file = self.path(name);
        self.back_up(&file).spawn().assert_exit_code(0);
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

#[track_caller]
fn run(launch: &Launch) -> Process {
    let mut process = launch.spawn();
    process.assert_exit_code(0);
    process
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder)
        .expect("a folder can be read")
        .map(|entry| entry.expect("reads").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort();
    names
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
    let said = run(&garden.back_up(&file)).stderr();
    assert!(said.starts_with("backed up ") && said.contains(": 1,000 plants, up to the change "));
    let before = store_of(&client, "before");
    let (cursor, tag) = (newest_cursor(&client), client.read(7).header("etag").map(str::to_owned));
    let lost = client.put(7, r#"{"name":"Lost"}"#);
    let lost_cursor = newest_cursor(&client);

    let said = run(&verify(&file)).stdout();
    assert!(
        said.starts_with("everything agrees: 1,000 plants, 1,000 events\nwhole up to"),
        "{said}"
    );
    assert!(said.contains(&cursor), "{said}");
    let said = run(&restore(&file, &data)).stderr();
    assert!(said.starts_with("restored 1,000 plants in ") && said.contains(&cursor), "{said}");
    assert_eq!(mode(&data), 0o700);
    assert_eq!(names_in(&data), ["plants"]);

    let restored = TestServer::start_at(Launch::new(), &data);
    let client = restored.client();
    assert_eq!(store_of(&client, "after a restore"), before);
    assert_eq!(client.read(7).header("etag").map(str::to_owned), tag, "the plant is the same");
    for cursor in [cursor, lost_cursor] {
        assert_cursor_refused(&client, &cursor);
    }
    let changed = client.put(7, r#"{"name":"Changed"}"#);
    assert!(changed.revision() > lost.revision(), "a revision is given out twice");
    let if_match = [("if-match", lost.header("etag").expect("a tag"))];
    let json = [("content-type", "application/json"), if_match[0]];
    client.send("PUT", "/plants/7", &json, r#"{"name":"Late"}"#).assert_error(412, 3003);
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

    let count = |name: &str, more: &[&str]| {
        let data = garden.path(name);
        run(&restore(&file, &data)
            .arguments(["--archive".as_ref(), archive.as_os_str()])
            .arguments(more));
        let restored = TestServer::start_at(Launch::new(), &data);
        store_of(&restored.client(), name).len()
    };
    assert_eq!(count("end", &[]), 1_002);
    assert_eq!(count("cursor", &["--until", &cursor]), 1_001);
    assert_eq!(count("late", &["--until", "2999-01-02T03:04:05+02:00"]), 1_002);
    let verified = run(&verify(&file).arguments(["--archive".as_ref(), archive.as_os_str()]));
    assert!(verified.stdout().contains("whole up to the change 1002-"), "{}", verified.stdout());

    // Without the piece that follows the backup, nothing is restored, and the message offers the backup alone.
    let refuse = |words: &[&str], more: &[&str]| {
        let data = garden.path("refused");
        let launch = restore(&file, &data).arguments(["--archive".as_ref(), archive.as_os_str()]);
        launch.arguments(more).assert_refused(FINDINGS, words);
        assert!(!names_in(garden.folder.path()).iter().any(|name| name.starts_with("refused")));
    };
    let after_backup = pieces_in(&archive).pop().expect("a piece");
    let beyond = format!("9999999-{}", cursor.split_once('-').expect("a log").1);
    refuse(&["the archive ends before the change", "add --until 1002-"], &["--until", &beyond]);
    let piece = archive.join(&after_backup);
    let mut bytes = fs::read(&piece).expect("a file can be read");
    bytes[20] ^= 1;
    fs::write(&piece, bytes).expect("a file can be written");
    refuse(&[&after_backup, "add --until"], &[]);
    for wrong in ["yesterday", "2027-01-02", "7-", ""] {
        let launch = restore(&file, &garden.path("refused"));
        let launch = launch.arguments(["--archive".as_ref(), archive.as_os_str()]);
        launch
            .arguments(["--until", wrong])
            .assert_refused(USAGE, &["neither a time", "2048-9f3a1c"]);
    }
    let of_another_log = format!("1002-{:x}", u64::MAX);
    for (early, words) in [
        ("2020-01-02T03:04:05Z", "take an older backup"),
        ("7-1", "not of the log"),
        (&of_another_log, "not of the log"),
        (&format!("{}-1", u64::MAX), "not of the log"),
        ("9999-12-31T23:59:59Z", "up to 9999-12-30"),
    ] {
        let launch = restore(&file, &garden.path("refused"));
        let launch = launch.arguments(["--archive".as_ref(), archive.as_os_str()]);
        launch.arguments(["--until", early]).assert_refused(USAGE, &[words]);
    }
    restore(&file, &garden.path("refused"))
        .arguments(["--until", &cursor])
        .assert_refused(USAGE, &["--archive"]);
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
    run(&restore(&file, &data).arguments(["--archive".as_ref(), archive_folder.as_os_str()]));
    let restored = TestServer::start_at(Launch::new(), &data);
    let plants = store_of(&restored.client(), "after a restore");
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
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = |name: &str| folder.path().join(name);
        let (data, archive) = (path("data"), path("archive"));
        // Folders that plantd did not make stay open to others.
        for folder in [&data, &archive] {
            fs::create_dir(folder).expect("a folder can be made");
            fs::set_permissions(folder, Permissions::from_mode(0o755))
                .expect("permissions can be set");
        }
        let launch = Launch::new().environment("PLANTD_ARCHIVE", &archive).umask(umask);
        let mut server = TestServer::start_at(launch, &data);
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        let url = format!("http://{}", server.address());
        for (command, file) in [("backup", "backup"), ("export", "export.csv")] {
            let launch = Launch::new().arguments([command, "--url", &url]).umask(umask);
            run(&launch.arguments([path(file)]));
        }
        wait_until_archived(&server.client());
        assert_eq!(server.terminate().code(), Some(0));
        run(&restore(&path("backup"), &path("restored")).umask(umask));
        let salvage = Launch::new().arguments(["export", "--data"]).umask(umask);
        run(&salvage.arguments([&data, &path("salvaged.csv")]));
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
    fs::set_permissions(&volume, Permissions::from_mode(0o750)).expect("permissions can be set");
    let other = volume.join("other");
    fs::write(&other, "").expect("a file can be written");
    restore(&file, &volume).assert_refused(IO, &["a restore writes over nothing"]);
    assert!(volume.join("plants.unfinished/tables").exists(), "a refused restore removes");
    fs::remove_file(other).expect("a file can be removed");
    // NFS refuses all flags of renameat2.
    let no_flag = ["-e", "inject=renameat2:error=EINVAL"];
    run(&restore(&file, &volume).under_strace(&garden.path("trace"), &no_flag));
    assert_eq!(names_in(&volume), ["lost+found", "plants"]);
    assert_eq!(mode(&volume), 0o750, "the folder is another's");
    let restored = TestServer::start_at(Launch::new(), &volume);
    assert_eq!(store_of(&restored.client(), "after a restore").len(), 1_000);
    restore(&file, &volume).assert_refused(IO, &["a restore writes over nothing"]);
}

#[test]
fn a_backup_goes_through_a_pipe_to_verify_and_restore() {
    let garden = Garden::new();
    let file = garden.backup("plants.backup");
    let piped = |launch: &Launch| {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let whole = fs::read(&file).expect("a file can be read");
        let mut process = launch.spawn_reading(reader);
        let written = std::thread::spawn(move || writer.write_all(&whole));
        process.assert_exit_code(0);
        written.join().expect("no panic").expect("everything is read");
        process
    };
    let said = piped(&verify(Path::new("-"))).stdout();
    assert!(said.starts_with("everything agrees: 1,000 plants, 1,000 events\n"), "{said}");
    let data = garden.path("restored");
    let said = piped(&restore(Path::new("-"), &data)).stderr();
    assert!(said.starts_with("restored 1,000 plants in "), "{said}");
    let restored = TestServer::start_at(Launch::new(), &data);
    assert_eq!(
        store_of(&restored.client(), "after a restore"),
        store_of(&garden.server.client(), "before")
    );
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
        let launch = restore(&file, &data).arguments(["--archive".as_ref(), archive.as_os_str()]);
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
    let whole = fs::read(&file).expect("a file can be read");
    let cut = |length: usize| whole[..length].to_vec();
    for (bytes, words) in [
        (Vec::new(), "it is cut"),
        (b"id,name,tag\n1,Rosa,Rosaceae\n".to_vec(), "does not begin as a backup does"),
        (cut(30), "its head"),
        (cut(whole.len() / 2), "it is cut"),
        (cut(whole.len() - 1), "it is cut"),
        ([&whole[..], b"\n"].concat(), "something follows the end"),
    ] {
        fs::write(&file, bytes).expect("a file can be written");
        let mut verification = verify(&file).spawn();
        verification.assert_exit_code(FINDINGS);
        let (found, refusal) = (verification.stdout(), verification.stderr());
        assert!(refusal.contains("take another one"), "{refusal}");
        assert!(found.contains(words) || refusal.contains(words), "{found}{refusal}");
        assert!(found.lines().count() <= 1, "{found}");
        restore(&file, &garden.path("data")).assert_refused(FINDINGS, &["take another one", words]);
    }
    let missing = garden.path("missing");
    verify(&missing).assert_refused(IO, &["cannot read"]);
    restore(&missing, &garden.path("data")).assert_refused(IO, &["cannot read"]);
    for command in
        [verify(garden.folder.path()), restore(garden.folder.path(), &garden.path("data"))]
    {
        command.assert_refused(IO, &["something else is in the way", "is a directory"]);
    }
    assert!(!garden.path("data").exists());
    Launch::new()
        .arguments(["verify", "--archive"])
        .arguments([garden.folder.path()])
        .assert_refused(USAGE, &["give the backup too"]);
}

#[test]
fn a_backup_that_breaks_off_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("plants.backup");
    fs::write(&file, "the last backup").expect("a file can be written");
    let of_backup = format!("Content-Type: {BACKUP}");
    for (head, body, words) in [
        (format!("{of_backup}\r\nContent-Length: 9000"), "cut", "is not whole; run it again"),
        (format!("{of_backup}\r\nContent-Length: 5"), "whole", "sent no whole backup"),
        ("Content-Type: text/html\r\nContent-Length: 5".to_owned(), "whole", "\"text/html\""),
        (of_backup, "no length", "does not say where its answer ends"),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\n\r\n{body}");
        let server = FakeServer::start(move |_, stream| {
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        let url = format!("http://{}", server.address);
        let launch = Launch::new().arguments(["backup", "--url", &url]).arguments([&file]);
        launch.assert_refused(IO, &[words]);
        assert_eq!(fs::read_to_string(&file).expect("a file can be read"), "the last backup");
        assert_eq!(names_in(folder.path()), ["plants.backup"]);
    }
}

#[test]
fn a_backup_needs_its_scope_and_a_token_with_that_scope_does_nothing_else() {
    let server = TestServer::start();
    let token = |scope| create_token(server.data(), &["--name", scope, "--scope", scope]);
    let [backup, read, metrics] = ["backup", "read", "metrics"].map(token);
    let client = server.client();
    wait_until("the tokens", || client.with_token(&metrics).get("/metrics").status == 200);
    let of_backup = client.with_token(&backup);
    let answer = of_backup.get("/backup");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(BACKUP)));
    of_backup.list("").assert_error(403, 2003);
    of_backup.create(1, "Rosa", None).assert_error(403, 2003);
    for token in [&read, &metrics] {
        client.with_token(token).get("/backup").assert_error(403, 2003);
    }
    client.get("/backup?x=1").assert_error(400, 1006);

    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let url = format!("http://{}", server.address());
    let launch =
        Launch::new().arguments(["backup", "--url", &url]).environment("PLANTD_TOKEN", &read);
    launch
        .arguments([folder.path().join("file")])
        .assert_refused(CONFIGURATION, &["use a token with the scope `backup`"]);
}

/// A garden so large that its backup takes longer than a few requests.
fn large_garden() -> Garden {
    let garden = Garden::new();
    let rows: String = (0..40_000)
        .map(|id| format!("{{\"id\":{id},\"name\":\"{}\"}}\n", "Rosa ".repeat(40)))
        .collect();
    garden.server.client().import(Format::Ndjson, "on_conflict=replace", rows);
    garden
}

#[test]
fn head_does_not_count_as_a_backup_and_answers_503_while_one_is_made() {
    let garden = large_garden();
    let mut connection = garden.server.connect();
    for _ in 0..3 {
        connection.send(raw_head("HEAD /backup", ""));
    }
    for _ in 0..3 {
        assert_eq!(connection.receive_head().status, 200);
    }
    let mut backup = garden.server.connect();
    backup.send(raw_head("GET /backup", ""));
    assert_eq!(backup.receive_head().status, 200);
    connection.send(raw_head("HEAD /backup", ""));
    assert_eq!(connection.receive_head().status, 503, "another backup is being made");
}

#[test]
fn a_second_backup_is_refused_while_one_is_made() {
    let garden = large_garden();
    let mut first = garden.server.connect();
    // The answer is not read, so it fills the socket's buffers.
    first.send(raw_head("GET /backup", ""));
    wait_until("the second one to be refused", || {
        let answer = garden.server.client().get("/backup");
        answer.status == 503 && answer.assert_error(503, 5003).contains("another backup")
    });
    drop(first);
    wait_until("a backup after the first has ended", || {
        garden.server.client().get("/backup").status == 200
    });
}

#[test]
fn a_backup_waits_for_another_one_for_at_most_ten_minutes() {
    let garden = large_garden();
    let mut first = garden.server.connect();
    // The answer is not read, so the first backup does not end.
    first.send(raw_head("GET /backup", ""));
    wait_until("the first backup to begin", || garden.server.client().get("/backup").status == 503);
    let mut second = garden.back_up(&garden.path("plants.backup")).spawn();
    wait_until("the second one to wait", || {
        second.stderr().contains("trying again") && second.stderr().contains("another backup")
    });
    drop(first);
    second.assert_exit_code(0);
    assert!(second.stderr().contains(": 40,000 plants"), "{}", second.stderr());
    run(&verify(&garden.path("plants.backup")));

    let busy = "HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n";
    for retry_after in ["Retry-After: 601\r\n", ""] {
        let script = Script::start(vec![format!("{busy}{retry_after}\r\n"); 9]);
        let url = format!("http://{}", script.address);
        let launch = Launch::new().arguments(["backup", "-", "--url", &url]);
        launch.assert_refused(IO, &["503"]);
        assert_eq!(script.targets(), ["/backup"]);
    }
}

#[test]
fn a_prune_says_what_it_has_removed() {
    let garden = Garden::new();
    let archive = garden.archive();
    garden.server.client().create(1_001, "Salix", None);
    drop(garden.archive());
    let prune = |keep: &str| Launch::new().arguments(["archive", "prune", "--keep", keep]);
    let said = run(&prune("7d").arguments([&archive])).stdout();
    assert_eq!(said, "removed 0 pieces (0 B)\n");
    let pieces = pieces_in(&archive).len();
    assert!(pieces > 1);
    let said = run(&prune("0s").arguments([&archive])).stdout();
    assert!(said.starts_with(&format!("removed {} pieces (", pieces - 1)), "{said}");
    assert_eq!(pieces_in(&archive).len(), 1);
    prune("7d")
        .arguments([garden.path("nowhere")])
        .assert_refused(IO, &["cannot read the archive"]);
    prune("seven").arguments([&archive]).assert_refused(USAGE, &["give a duration"]);
}
