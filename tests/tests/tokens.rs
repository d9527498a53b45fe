//! `plantd token`, and a running server that follows what it does.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use plantd_tests::{
    Answer, Client, Connection, Counts, Format, Launch, Process, SmallDisk, TestServer,
    UNPRIVILEGED, chunk, create_token, is_root, plant_body, program, revoke_token, token_command,
    wait_for, wait_until,
};
use tempfile::TempDir;

const USAGE: i32 = 64;
const IO: i32 = 74;
const CONFIGURATION: i32 = 78;

/// The id of a plant that no test makes.
const NO_PLANT: i64 = -1;

/// What a list begins with.
const LIST_HEAD: &str = "NAME";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A server whose tokens are those of its file alone.
fn server() -> TestServer {
    TestServer::start_with(Launch::new().without_environment("PLANTD_TOKEN"))
}

#[track_caller]
fn ended(launch: &Launch, exit_code: i32) -> Process {
    let mut process = launch.spawn();
    process.assert_exit_code(exit_code);
    process
}

/// The command fails with this exit code, says these words in one line, and prints nothing.
#[track_caller]
fn check_refusal(launch: &Launch, exit_code: i32, words: &[&str]) {
    let process = ended(launch, exit_code);
    let stderr = process.stderr();
    assert_eq!(process.stdout(), "", "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr:?}");
    for word in words {
        assert!(stderr.contains(word), "{stderr:?} does not hold {word:?}");
    }
}

/// The lines of the list behind the first one, each as its words.
#[track_caller]
fn list(data: &Path) -> Vec<Vec<String>> {
    let stdout = ended(&token_command(data, &["list"]), 0).stdout();
    let mut lines = stdout.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with(LIST_HEAD)), "{stdout}");
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn names(data: &Path) -> Vec<String> {
    list(data).into_iter().map(|mut words| words.remove(0)).collect()
}

/// Whether the server takes the token. A token that it does not take is 2002.
#[track_caller]
fn is_taken(client: &Client) -> bool {
    let answer = client.read(NO_PLANT);
    match answer.status {
        404 => true,
        _ => {
            answer.assert_error(401, 2002);
            false
        }
    }
}

#[track_caller]
fn wait_until_taken(server: &TestServer, token: &str) -> Client {
    let client = server.client().with_token(token);
    wait_until("the server to take the token", || is_taken(&client));
    client
}

#[track_caller]
fn wait_until_refused(client: &Client) {
    wait_until("the server to refuse the token", || !is_taken(client));
}

#[test]
fn a_running_server_takes_a_token_that_is_made_and_refuses_one_that_is_revoked() {
    let server = server();
    let reader = create_token(server.data(), &["--name", "reader", "--scope", "read"]);
    let writer = create_token(server.data(), &["--name", "writer", "--scope", "write"]);
    let default = create_token(server.data(), &["--name", "default"]);
    let [reader, writer, default] =
        [reader, writer, default].map(|token| wait_until_taken(&server, &token));

    writer.create(1, "Rosa", None).assert_plant("Rosa", None);
    default.create(2, "Salix", None).assert_plant("Salix", None);
    reader.create(3, "Abies", None).assert_error(403, 2003);
    reader.read(1).assert_new_plant(1, "Rosa", None);

    revoke_token(server.data(), &["writer"]);
    wait_until_refused(&writer);
    writer.create(4, "Acer", None).assert_error(401, 2002);
    default.read(4).assert_error(404, 3002);
}

#[test]
fn a_running_server_refuses_a_token_that_has_expired() {
    let server = server();
    let token = create_token(server.data(), &["--name", "short", "--expires", "2s"]);
    let lasting = create_token(server.data(), &["--name", "long", "--expires", "90d"]);
    let lasting = wait_until_taken(&server, &lasting);
    wait_until_refused(&server.client().with_token(&token));
    assert!(is_taken(&lasting));
    let expired: Vec<bool> =
        list(server.data()).iter().map(|words| words.contains(&"(expired)".to_owned())).collect();
    assert_eq!(expired, [false, true, false], "{:?}", list(server.data()));
}

#[test]
fn tokens_of_one_name_are_in_force_together_until_the_older_ones_are_revoked() {
    let server = server();
    let tokens = ["app", "app", "other", "app"]
        .map(|name| create_token(server.data(), &["--name", name]))
        .map(|token| wait_until_taken(&server, &token));
    let [first, second, other, newest] = &tokens;
    assert!(tokens.iter().all(is_taken));

    revoke_token(server.data(), &["app", "--keep-newest"]);
    wait_until_refused(first);
    wait_until_refused(second);
    assert!(is_taken(newest) && is_taken(other));
    assert_eq!(names(server.data()), ["first-run", "other", "app"]);

    revoke_token(server.data(), &["app", "--keep-newest"]);
    assert_eq!(names(server.data()), ["first-run", "other", "app"]);
    revoke_token(server.data(), &["app"]);
    wait_until_refused(newest);
    assert!(is_taken(other));
}

#[test]
fn a_token_is_recognisable_and_only_its_digest_is_kept() {
    let folder = folder();
    let data = folder.path().join("data");
    let token = create_token(&data, &["--name", "first"]);
    let other = create_token(&data, &["--name", "second"]);
    assert_ne!(token, other);
    assert!(token.starts_with("plantd_"), "{token}");
    // 43 characters of base64 hold 256 bits; the checksum follows.
    assert_eq!(token.len(), "plantd_".len() + 43 + 6, "{token}");

    let file = data.join("tokens.json");
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&token) && !text.contains(&token["plantd_".len()..]), "{text}");
    // Nothing but the file and its lock stays behind.
    let names = fs::read_dir(&data).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["tokens.json", "tokens.json.lock"]);
    let lock = fs::metadata(data.join("tokens.json.lock")).unwrap();
    assert_eq!(lock.permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_list_shows_what_is_kept_of_each_token() {
    let folder = folder();
    let read = ["--name", "reader", "--scope", "read", "--expires", "90d"];
    let token = create_token(folder.path(), &read);
    let _ = create_token(folder.path(), &["--name", "writer"]);
    let lines = list(folder.path());
    let of_reader: Vec<&str> = lines[0].iter().map(String::as_str).collect();
    let of_writer: Vec<&str> = lines[1].iter().map(String::as_str).collect();
    assert_eq!((lines.len(), of_reader.len(), of_writer.len()), (2, 4, 4), "{lines:?}");
    assert_eq!((of_reader[0], of_reader[1]), ("reader", "read"));
    assert_eq!((of_writer[0], of_writer[1], of_writer[3]), ("writer", "write", "never"));
    for time in [of_reader[2], of_reader[3], of_writer[2]] {
        assert!(time.len() == "2026-01-01T00:00:00Z".len() && time.ends_with('Z'), "{time}");
    }
    assert!(of_reader[2] < of_reader[3], "{lines:?}");
    let stdout = ended(&token_command(folder.path(), &["list"]), 0).stdout();
    assert!(!stdout.contains(&token), "{stdout}");
}

#[test]
fn the_tokens_that_are_made_before_the_first_start_are_in_force_and_no_other_is_made() {
    let folder = folder();
    let data = folder.path().join("data");
    let token = create_token(&data, &["--name", "mine"]);
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_at(launch, &data);
    assert!(is_taken(&server.client().with_token(&token)));
    assert!(!data.join("first-run-token").exists());
    assert_eq!(names(&data), ["mine"]);
}

#[test]
fn a_server_whose_last_token_is_revoked_makes_none_when_it_starts_again() {
    let mut server = server();
    let token = fs::read_to_string(server.data().join("first-run-token")).unwrap();
    let client = server.client().with_token(token.trim_end());
    revoke_token(server.data(), &["first-run"]);
    wait_until_refused(&client);
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    assert!(list(server.data()).is_empty());
    server.client().with_token(token.trim_end()).read(1).assert_error(401, 2002);
    assert!(server.stderr().contains("plantd token create"), "{}", server.stderr());
    // It is not locked out for ever.
    let token = create_token(server.data(), &["--name", "again"]);
    wait_until_taken(&server, &token);
}

#[test]
fn the_tokens_file_may_lie_elsewhere_and_come_later() {
    let folder = folder();
    let path = folder.path().join("elsewhere.json");
    let server = TestServer::start_with(Launch::new().environment("PLANTD_TOKENS", &path));
    assert!(!path.exists());
    let flag = path.to_str().expect("UTF-8");
    let token = create_token(folder.path(), &["--name", "mine", "--tokens", flag]);
    wait_until_taken(&server, &token);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn a_link_that_is_changed_is_followed_as_in_a_mounted_secret() {
    let folder = folder();
    let [old, new] = ["old", "new"].map(|name| {
        let token = create_token(&folder.path().join(name), &["--name", name]);
        (folder.path().join(name).join("tokens.json"), token)
    });
    let link = folder.path().join("tokens.json");
    symlink(&old.0, &link).expect("a link can be made");
    let server = TestServer::start_with(Launch::new().environment("PLANTD_TOKENS", &link));
    let client = server.client().with_token(&old.1);
    assert!(is_taken(&client));

    let next = folder.path().join("next");
    symlink(&new.0, &next).expect("a link can be made");
    fs::rename(&next, &link).expect("it is ours");
    wait_until_refused(&client);
    assert!(is_taken(&server.client().with_token(&new.1)));
}

/// What is done to the file changes nothing, and is told in the log. The file is as before in the end.
#[track_caller]
fn check_disturbance(words: &str, disturb: impl FnOnce(&Path)) {
    let server = server();
    let token = create_token(server.data(), &["--name", "mine"]);
    let client = wait_until_taken(&server, &token);
    let path = server.data().join("tokens.json");
    let good = fs::read(&path).expect("reads");

    disturb(&path);
    wait_until("the log to say so", || server.stderr().contains(words));
    assert!(is_taken(&client), "the last good tokens stay in force");
    assert!(server.stderr().contains("stays in force"), "{}", server.stderr());
    assert!(!server.stderr().contains("secret"), "{}", server.stderr());

    let _ = fs::remove_dir(&path);
    fs::write(&path, good).expect("writes");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
    wait_until("the log to say so", || server.stderr().contains("can be used again"));
    let other = create_token(server.data(), &["--name", "other"]);
    wait_until_taken(&server, &other);
    assert!(is_taken(&client));
    let complaints = server.stderr().lines().filter(|line| line.contains(words)).count();
    assert_eq!(complaints, 1, "{}", server.stderr());
}

#[test]
fn a_broken_tokens_file_changes_nothing_for_a_running_server() {
    check_disturbance("is broken at line 1", |path| {
        fs::write(path, r#"{"tokens":["secret"]}"#).unwrap();
    });
}

#[test]
fn an_empty_tokens_file_changes_nothing_for_a_running_server() {
    check_disturbance("is broken at line 1", |path| {
        File::create(path).unwrap();
    });
}

#[test]
fn a_tokens_file_that_is_gone_changes_nothing_for_a_running_server() {
    check_disturbance("is gone", |path| fs::remove_file(path).unwrap());
}

#[test]
fn a_tokens_file_that_is_open_to_others_changes_nothing_for_a_running_server() {
    check_disturbance("chmod 600", |path| {
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    });
}

#[test]
fn a_folder_in_the_place_of_the_tokens_file_changes_nothing_for_a_running_server() {
    check_disturbance("is not a file", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    });
}

#[test]
fn what_a_killed_command_leaves_behind_is_in_nobodys_way() {
    let folder = folder();
    let data = folder.path();
    let _ = create_token(data, &["--name", "mine"]);
    let trace = data.join("trace");
    let mut killed = token_command(data, &["create", "--name", "lost"])
        .under_strace(&trace, &["-e", "inject=rename,renameat,renameat2:signal=KILL"])
        .spawn();
    assert_eq!(killed.wait_for_exit().code(), None, "it was to be killed");
    fs::remove_file(&trace).expect("it was traced");
    assert_eq!(names(data), ["mine"]);
    assert_eq!(killed.stdout(), "");
    let _ = create_token(data, &["--name", "next"]);
    assert_eq!(names(data), ["mine", "next"]);
    assert_eq!(fs::read_dir(data).unwrap().count(), 2);
}

#[test]
fn a_lock_that_another_process_keeps_is_not_waited_for_for_ever() {
    let folder = folder();
    let _ = create_token(folder.path(), &["--name", "mine"]);
    let lock = File::open(folder.path().join("tokens.json.lock")).expect("it is ours");
    lock.lock().expect("a lock");
    let launch = token_command(folder.path(), &["revoke", "mine"]);
    check_refusal(&launch, IO, &["another process"]);
    assert_eq!(names(folder.path()), ["mine"]);
    drop(lock);
    revoke_token(folder.path(), &["mine"]);
}

#[test]
fn those_who_make_tokens_at_the_same_time_lose_none() {
    const EACH: usize = 6;
    let folder = folder();
    thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let data = folder.path();
            scope.spawn(move || {
                for _ in 0..EACH {
                    let _ = create_token(data, &["--name", name]);
                }
            });
        }
    });
    let mut names = names(folder.path());
    names.sort();
    assert_eq!(names.join(""), ["a", "b", "c", "d"].map(|name| name.repeat(EACH)).concat());
}

/// Calls the program with this as its standard output, and claims that it ends with 74.
#[track_caller]
fn create_onto(data: &Path, stdout: impl Into<Stdio>) {
    let output = Command::new(program())
        .args(["token", "create", "--name", "lost", "--data"])
        .arg(data)
        .stdout(stdout)
        .output()
        .expect("the program can be started");
    assert_eq!(output.status.code(), Some(IO), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no token was made"), "{stderr}");
}

#[test]
fn a_token_that_cannot_be_shown_is_not_made() {
    let folder = folder();
    let _ = create_token(folder.path(), &["--name", "mine"]);
    create_onto(folder.path(), File::options().write(true).open("/dev/full").unwrap());
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    create_onto(folder.path(), writer);
    assert_eq!(names(folder.path()), ["mine"]);
}

#[test]
fn a_full_disk_leaves_the_tokens_as_they_were() {
    let disk = SmallDisk::new("size=1m");
    let data = disk.data();
    let launch = |arguments: &[&str]| token_command(&data, arguments).within(&disk);
    ended(&launch(&["create", "--name", "mine"]), 0);
    disk.fill("filler");
    check_refusal(&launch(&["create", "--name", "other"]), IO, &["cannot write", "room"]);
    check_refusal(&launch(&["revoke", "mine"]), IO, &["cannot write", "room"]);
    let listed = ended(&launch(&["list"]), 0).stdout();
    assert!(listed.contains("mine") && !listed.contains("other"), "{listed}");
}

#[test]
fn what_cannot_be_done_is_refused_and_a_token_is_not_told() {
    let folder = folder();
    let data = folder.path();
    let token = create_token(data, &["--name", "mine"]);
    let before = fs::read(data.join("tokens.json")).unwrap();
    let long = "x".repeat(65);
    for (arguments, words) in [
        (&["create", "--name", ""][..], "1 to 64"),
        (&["create", "--name", "a b"], "1 to 64"),
        (&["create", "--name", &long], "1 to 64"),
        (&["create", "--name", &token], "looks like a token"),
        (&["create", "--name", "PLANTD_TOKEN"], "PLANTD_TOKEN"),
        (&["create", &token], "not shown"),
        (&["revoke", "mine", &token], "not shown"),
        (&["create", "--name", "x", "--expires", "0s"], "never be valid"),
        (&["create", "--name", "x", "--expires", "9000y"], "9999"),
        (&["revoke", &token], "looks like a token"),
        (&["revoke", "nobody"], "token list"),
    ] {
        let launch = token_command(data, arguments);
        check_refusal(&launch, USAGE, &[words]);
        assert!(!ended(&launch, USAGE).stderr().contains(&token), "the token is told");
    }
    for arguments in [
        &["create"][..],
        &["create", "--name", "x", "--scope", "all"],
        &["create", "--name", "x", "--expires", "soon"],
        &["create", "--name", "x", "--expires", "-1s"],
        &["revoke"],
        &["other"],
        &[],
    ] {
        assert_eq!(ended(&token_command(data, arguments), USAGE).stdout(), "", "{arguments:?}");
    }
    assert_eq!(fs::read(data.join("tokens.json")).unwrap(), before);
}

#[test]
fn a_tokens_file_that_cannot_be_used_is_refused_and_left_as_it_is() {
    let folder = folder();
    let data = folder.path().join("data");
    for arguments in [&["list"][..], &["revoke", "mine"]] {
        check_refusal(&token_command(&data, arguments), IO, &["tokens.json", "--data"]);
    }
    let _ = create_token(&data, &["--name", "mine"]);
    let path = data.join("tokens.json");
    let all = [&["list"][..], &["revoke", "mine"], &["create", "--name", "other"]];
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    for arguments in all {
        check_refusal(&token_command(&data, arguments), CONFIGURATION, &["chmod 600"]);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "{").unwrap();
    for arguments in all {
        check_refusal(&token_command(&data, arguments), CONFIGURATION, &["broken at line 1"]);
    }
    assert_eq!(fs::read(&path).unwrap(), b"{");
}

#[test]
fn a_client_is_told_of_a_token_that_was_mistyped_or_cut() {
    let server = server();
    let token = create_token(server.data(), &["--name", "mine"]);
    let last = token.len() - 1;
    let folder = folder();
    for wrong in [&token[..last], &format!("{token}x"), &token.replacen("plantd_", "plantd_x", 1)] {
        let message = server.client().with_token(wrong).read(1).assert_error(401, 2002);
        assert!(message.contains("mistyped"), "{message}");
        let path = folder.path().join("token");
        fs::write(&path, wrong).unwrap();
        let mut export = Launch::new()
            .arguments(["export", "--url", &format!("http://{}", server.address())])
            .arguments(["--token-file".into(), path.into_os_string()])
            .spawn();
        export.assert_exit_code(CONFIGURATION);
        assert!(export.stderr().contains("mistyped") && !export.stderr().contains(wrong));
    }
    let message = server.client().with_token("unknown").read(1).assert_error(401, 2002);
    assert!(!message.contains("mistyped"), "{message}");
}

/// Sends rows of an import whose token is revoked meanwhile, and returns its answer.
#[track_caller]
fn import_while_revoked(server: &TestServer, token: &str) -> Answer {
    let mut connection: Connection = server.connect();
    connection.send(format!(
        "POST /plants/import HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    let row = |id| chunk(plant_body(id, "Rosa", None) + "\n");
    connection.send(row(1));
    let reader = wait_until_taken(server, &create_token(server.data(), &["--name", "reader"]));
    wait_until("the first row", || reader.read(1).status == 200);
    revoke_token(server.data(), &["importer"]);
    wait_until_refused(&server.client().with_token(token));
    connection.send(row(2));
    connection.send(chunk(""));
    let answer = connection.receive();
    reader.read(2).assert_error(404, 3002);
    answer
}

#[test]
fn an_import_ends_when_its_token_is_revoked_and_says_what_it_has_taken() {
    let server = server();
    let token = create_token(server.data(), &["--name", "importer"]);
    wait_until_taken(&server, &token);
    let message = import_while_revoked(&server, &token).assert_error(401, 2002);
    assert!(message.contains("1 plants were created"), "{message}");
}

#[test]
fn a_create_whose_body_comes_after_its_token_was_revoked_is_refused() {
    let server = server();
    let token = create_token(server.data(), &["--name", "slow"]);
    let client = wait_until_taken(&server, &token);
    let body = plant_body(1, "Rosa", None);
    let mut connection = server.connect();
    connection.send(format!(
        "POST /plants HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    assert_eq!(connection.receive().status, 100);
    revoke_token(server.data(), &["slow"]);
    wait_until_refused(&client);
    connection.send(&body);
    connection.receive().assert_error(401, 2002);
    let reader = wait_until_taken(&server, &create_token(server.data(), &["--name", "reader"]));
    reader.read(1).assert_error(404, 3002);
}

#[test]
fn an_import_without_rows_ends_when_its_token_is_revoked() {
    let server = server();
    let token = create_token(server.data(), &["--name", "idle"]);
    let client = wait_until_taken(&server, &token);
    let mut connection = server.connect();
    connection.send(format!(
        "POST /plants/import HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    connection.send(chunk("\n"));
    revoke_token(server.data(), &["idle"]);
    wait_until_refused(&client);
    connection.send(chunk("\n"));
    connection.send(chunk(""));
    connection.receive().assert_error(401, 2002);
}

#[test]
fn an_export_breaks_off_when_its_token_is_revoked() {
    // More than the sockets' buffers take.
    const PLANTS: i64 = 10_000;
    let server = server();
    let writer = wait_until_taken(&server, &create_token(server.data(), &["--name", "writer"]));
    let long = "𝒑".repeat(255);
    let rows: String = (0..PLANTS).map(|id| plant_body(id, &long, Some(&long)) + "\n").collect();
    let created = u64::try_from(PLANTS).expect("positive");
    writer.import(Format::Ndjson, "", &rows).assert_report(Counts { created, ..Counts::default() });

    let token = create_token(server.data(), &["--name", "exporter", "--scope", "read"]);
    let exporter = wait_until_taken(&server, &token);
    let mut connection = server.connect();
    connection.send(format!(
        "GET /plants/export HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {token}\r\n\r\n"
    ));
    connection.wait_for_bytes();
    revoke_token(server.data(), &["exporter"]);
    wait_until_refused(&exporter);
    let taken = connection.receive_to_the_end();
    assert_eq!(taken.status, 200);
    assert!(!taken.body.ends_with(b"\r\n0\r\n\r\n"), "the body ends as if it were whole");
    let line = wait_for("the log to tell of it", || {
        let stderr = server.stderr();
        stderr.lines().find(|line| line.contains("broke off")).map(str::to_owned)
    });
    assert!(line.contains("token=exporter") && line.contains("revoked"), "{line}");
}

/// What is in the file that nobody else may lead the program to.
const VICTIM: &str = r#"{"tokens":[]}"#;

/// A file that is the caller's alone, and beside it a folder. Where root is the caller, the folder and what is
/// put into it are another user's.
struct Trap {
    folder: TempDir,
}

impl Trap {
    fn new() -> Self {
        let trap = Self { folder: folder() };
        fs::write(trap.victim(), VICTIM).expect("writes");
        fs::set_permissions(trap.victim(), Permissions::from_mode(0o600)).expect("it is ours");
        fs::create_dir(trap.data()).expect("a folder can be made");
        Self::give_away(&trap.data());
        trap
    }

    fn victim(&self) -> PathBuf {
        self.folder.path().join("victim")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn link(&self, name: &str) {
        let link = self.data().join(name);
        symlink(self.victim(), &link).expect("a link can be made");
        Self::give_away(&link);
    }

    fn give_away(path: &Path) {
        if is_root() {
            lchown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("root may give files away");
        }
    }

    /// The program refuses, and names the file. The one that is the caller's alone is as it was.
    #[track_caller]
    fn check(&self, launch: &Launch, exit_code: i32, name: &str) {
        let look = || {
            let metadata = fs::metadata(self.victim()).expect("it is there");
            (fs::read(self.victim()).expect("reads"), metadata.uid(), metadata.ino())
        };
        let before = look();
        let stderr = ended(launch, exit_code).stderr();
        let path = self.data().join(name);
        assert!(stderr.contains(path.to_str().expect("UTF-8")), "{stderr}");
        assert!(stderr.contains("remove it"), "{stderr}");
        assert_eq!(look(), before, "{name}: {stderr}");
        let beside = fs::read_dir(self.folder.path()).expect("reads").count();
        assert_eq!(beside, 2, "{name}: something was made beside the file");
    }
}

#[test]
fn what_another_user_puts_in_the_place_of_a_file_leads_root_nowhere() {
    const LOCK: &str = "tokens.json.lock";
    let create = |trap: &Trap| token_command(&trap.data(), &["create", "--name", "mine"]);
    let serve = |trap: &Trap| Launch::new().without_environment("PLANTD_TOKEN").data(&trap.data());

    // The caller's own links are followed.
    if is_root() {
        let trap = Trap::new();
        trap.link("tokens.json");
        trap.check(&create(&trap), CONFIGURATION, "tokens.json");
        let trap = Trap::new();
        trap.link("first-run-token");
        trap.check(&serve(&trap), IO, "first-run-token");
    }
    // The files of a database that is not there yet.
    for name in ["lock", "journal.0", "journal.1"] {
        for is_hard in [false, true] {
            let trap = Trap::new();
            let plants = trap.data().join("plants");
            fs::create_dir(&plants).expect("a folder can be made");
            Trap::give_away(&plants);
            let path = plants.join(name);
            if is_hard {
                fs::hard_link(trap.victim(), &path).expect("on one file system");
            } else {
                trap.link(&format!("plants/{name}"));
            }
            let mut server = serve(&trap).spawn();
            let is_refused = name == "lock" && !is_hard;
            if is_refused {
                server.assert_exit_code(IO);
                assert!(server.stderr().contains(path.to_str().expect("UTF-8")));
            } else {
                assert!(server.first_line().starts_with("plantd listening"), "{name}");
            }
            assert_eq!(fs::read(trap.victim()).expect("reads"), VICTIM.as_bytes(), "{name}");
        }
    }
    for run in [create, serve] {
        let exit_code = |trap: &Trap| match run(trap).spawn().wait_for_exit().code() {
            Some(code @ (IO | CONFIGURATION)) => code,
            code => panic!("it ended with {code:?}"),
        };
        let trap = Trap::new();
        trap.link(LOCK);
        trap.check(&run(&trap), exit_code(&trap), LOCK);

        // Once the lock of root was made it was given away.
        let trap = Trap::new();
        fs::hard_link(trap.victim(), trap.data().join(LOCK)).expect("on one file system");
        trap.check(&run(&trap), exit_code(&trap), LOCK);

        let trap = Trap::new();
        let pipe = Command::new("mkfifo").arg(trap.data().join(LOCK)).status();
        assert!(pipe.expect("it can be started").success());
        trap.check(&run(&trap), exit_code(&trap), LOCK);
    }
}

#[test]
fn what_root_makes_in_the_folder_of_another_user_is_that_user_s() {
    if !is_root() {
        return;
    }
    let trap = Trap::new();
    let _ = create_token(&trap.data(), &["--name", "mine"]);
    for name in ["tokens.json", "tokens.json.lock"] {
        let metadata = fs::metadata(trap.data().join(name)).expect("it is there");
        assert_eq!((metadata.uid(), metadata.gid()), (UNPRIVILEGED, UNPRIVILEGED), "{name}");
        assert_eq!(metadata.mode() & 0o777, 0o600, "{name}");
    }
    // The second time, files of that user are there.
    let _ = create_token(&trap.data(), &["--name", "other"]);
    assert_eq!(names(&trap.data()), ["mine", "other"]);
}
