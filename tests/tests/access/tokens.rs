//! `plantd token`, and a running server that follows the tokens file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use jiff::Timestamp;
use plantd_tests::{
    CONFIGURATION, Client, Counts, Format, IO, Launch, SmallDisk, TestServer, UNPRIVILEGED, USAGE,
    at_once, chunk, create_token, is_root, is_root_or_skipped, make_pipe, mode, names_in,
    plant_body, program, revoke_token, set_mode, temporary_folder, token_command, wait_for,
    wait_until,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The id of a plant that no test creates.
const NO_PLANT: i64 = -1;

const LIST_HEAD: &str = "NAME";

/// A launch that accepts only the tokens of its file.
fn launch() -> Launch {
    Launch::new().without_environment("PLANTD_TOKEN")
}

fn server() -> TestServer {
    TestServer::start_with(launch())
}

/// The words of each line of `plantd token list`, without the header.
#[track_caller]
fn list(data: &Path) -> Vec<Vec<String>> {
    let stdout = token_command(data, &["list"]).run(0).stdout();
    let mut lines = stdout.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with(LIST_HEAD)), "{stdout}");
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn names(data: &Path) -> Vec<String> {
    list(data).into_iter().map(|mut words| words.remove(0)).collect()
}

/// Whether the server accepts the token. If not, asserts error 2002.
#[track_caller]
fn is_taken(client: &Client) -> bool {
    let answer = client.read(NO_PLANT);
    if answer.status != 404 {
        answer.assert_error(401, 2002);
    }
    answer.status == 404
}

/// Makes a token, and waits until the server accepts it.
#[track_caller]
fn client_of(server: &TestServer, name: &str) -> (Client, String) {
    let token = create_token(server.data(), &["--name", name]);
    (wait_until_taken(server, &token), token)
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

// A running server.

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

    create_token(server.data(), &["--name", "new"]);
    assert_eq!(names(server.data()), ["first-run", "long", "new"]);
}

#[test]
fn a_token_of_the_file_keeps_its_scope_in_a_server_that_has_the_same_token_in_its_environment() {
    let mut server = server();
    let token = create_token(server.data(), &["--name", "reader", "--scope", "read"]);
    server.kill();
    server.restart_with(Launch::new().environment("PLANTD_TOKEN", &token));
    let client = server.client().with_token(&token);
    let whose = client.send("GET", "/token", &[], "").json();
    assert_eq!((&whose["name"], &whose["scope"]), (&"reader".into(), &"read".into()));
    client.create(1, "Rosa", None).assert_error(403, 2003);
}

#[test]
fn a_name_is_of_one_token_until_that_token_is_revoked_or_has_expired() {
    let server = server();
    let (client, _) = client_of(&server, "app");
    let again = ["create", "--scope", "read", "--name", "app"];
    let said =
        token_command(server.data(), &again).assert_refused_in_a_line(USAGE, &["app already"]);
    assert!(said.contains("plantd token revoke app"), "{said}");
    assert_eq!(names(server.data()), ["first-run", "app"]);
    assert!(is_taken(&client));

    revoke_token(server.data(), &["app"]);
    wait_until_refused(&client);
    let short = create_token(server.data(), &["--name", "app", "--expires", "1s"]);
    let short = server.client().with_token(&short);
    wait_until("the token to expire", || list(server.data())[1].contains(&"(expired)".to_owned()));
    wait_until_refused(&short);
    let _ = client_of(&server, "app");
    assert_eq!(names(server.data()), ["first-run", "app"]);
}

#[test]
fn a_tokens_file_in_which_two_tokens_have_one_name_is_refused_until_they_are_revoked() {
    let folder = temporary_folder();
    let (data, path) = (folder.path(), folder.path().join("tokens.json"));
    let _ = create_token(data, &["--name", "mine"]);
    let _ = create_token(data, &["--name", "other"]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"other\"", "\"mine\"")).unwrap();
    let words = ["tokens.json", "several tokens with the name mine", "plantd token revoke mine"];
    token_command(data, &["list"]).assert_refused_in_a_line(CONFIGURATION, &words);
    Launch::new().data(data).assert_refused(CONFIGURATION, &words);
    revoke_token(data, &["mine"]);
    assert!(names(data).is_empty());
}

#[test]
fn create_says_until_when_the_token_is_valid_and_which_scopes_there_are() {
    let folder = temporary_folder();
    let create = |arguments: &[&str]| {
        token_command(
            folder.path(),
            &[&["create", "--scope", "read", "--name"], arguments].concat(),
        )
    };
    assert_eq!(create(&["lasting"]).run(0).stderr(), "never expires\n");
    let said = create(&["short", "--expires", "90d"]).run(0).stderr();
    let until = said.strip_prefix("valid until ").and_then(|time| time.strip_suffix('\n'));
    assert_eq!(until, Some(list(folder.path())[1][3].as_str()), "{said}");

    let scopes = ["--scope metrics", "--scope backup", "--scope read", "--scope write"];
    let missing = token_command(folder.path(), &["create", "--name", "x"]);
    let said = missing.assert_refused(USAGE, &scopes);
    assert!(said.contains("read plants, events and the metrics"), "{said}");
    let wrong = token_command(folder.path(), &["create", "--name", "x", "--scope", "all"]);
    wrong.assert_refused(USAGE, &["metrics, backup, read, write"]);
    assert_eq!(names(folder.path()), ["lasting", "short"]);
}

#[test]
fn the_tokens_file_may_be_elsewhere_and_appear_later() {
    let folder = temporary_folder();
    let path = folder.path().join("elsewhere.json");
    let server = TestServer::start_with(Launch::new().environment("PLANTD_TOKENS", &path));
    assert!(!path.exists());
    let flag = path.to_str().expect("UTF-8");
    let token = create_token(folder.path(), &["--name", "mine", "--tokens", flag]);
    wait_until_taken(&server, &token);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn a_tokens_file_that_is_a_link_is_followed_when_the_link_changes() {
    let folder = temporary_folder();
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
    fs::rename(&next, &link).expect("a file can be renamed");
    wait_until_refused(&client);
    assert!(is_taken(&server.client().with_token(&new.1)));

    let flag = link.to_str().expect("UTF-8");
    create_token(folder.path(), &["--name", "newer", "--tokens", flag]);
    assert!(link.is_symlink());
    assert_eq!(names(&folder.path().join("new")), ["new", "newer"]);
}

#[test]
fn a_running_server_keeps_its_tokens_when_the_file_breaks_and_says_so_once() {
    type Disturbance = fn(&Path) -> io::Result<()>;
    let disturbances: [(&str, &str, Disturbance); 5] = [
        ("a broken file", "is broken at line 1", |path| {
            fs::write(path, r#"{"tokens":["secret"]}"#)
        }),
        ("an empty file", "is broken at line 1", |path| fs::write(path, "")),
        ("no file", "is gone", |path| fs::remove_file(path)),
        ("a file that is open to others", "chmod 600", |path| {
            set_mode(path, 0o644);
            Ok(())
        }),
        ("a folder", "is not a file", |path| {
            fs::remove_file(path)?;
            fs::create_dir(path)
        }),
    ];
    at_once(&disturbances, |(_, words, disturb)| {
        let server = server();
        let (client, _) = client_of(&server, "mine");
        let path = server.data().join("tokens.json");
        let good = fs::read(&path).expect("a file can be read");

        disturb(&path).expect("the file can be disturbed");
        wait_until("the log line", || server.stderr().contains(words));
        assert!(is_taken(&client), "the last good tokens stay in force");
        assert!(server.stderr().contains("stays in force"), "{}", server.stderr());
        assert!(!server.stderr().contains("secret"), "{}", server.stderr());

        let _ = fs::remove_dir(&path);
        fs::write(&path, good).expect("a file can be written");
        set_mode(&path, 0o600);
        wait_until("the log line", || server.stderr().contains("can be used again"));
        client_of(&server, "other");
        assert!(is_taken(&client));
        let complaints = server.stderr().lines().filter(|line| line.contains(words)).count();
        assert_eq!(complaints, 1, "{}", server.stderr());
    });
}

#[test]
fn a_mistyped_or_truncated_token_is_reported_as_such() {
    let server = server();
    let token = create_token(server.data(), &["--name", "mine"]);
    let is_said_to_be_mistyped = |token: &str| {
        let message = server.client().with_token(token).read(1).assert_error(401, 2002);
        message.contains("mistyped")
    };
    for at in "plantd_".len()..token.len() {
        let mut mistyped = token.clone();
        mistyped.replace_range(at..=at, if token[at..].starts_with('x') { "y" } else { "x" });
        for wrong in [mistyped.as_str(), &token[..at]] {
            assert!(is_said_to_be_mistyped(wrong), "{wrong}");
        }
    }
    assert!(is_said_to_be_mistyped(&format!("{token}x")));
    assert!(!is_said_to_be_mistyped("unknown"));
}

// A token that is revoked during a request.

#[test]
fn a_write_whose_token_is_revoked_before_its_body_arrives_is_refused_and_says_what_was_done() {
    let server = server();
    let (reader, _) = client_of(&server, "reader");
    let row = |id| chunk(plant_body(id, "Rosa", None) + "\n");
    for (name, target, media_type, before, after, words) in [
        ("importer", "/plants/import", "x-ndjson", row(1), row(2), "1 plants were created"),
        ("idle", "/plants/import", "x-ndjson", chunk("\n"), chunk("\n"), ""),
        ("creator", "/plants", "json", vec![], row(2), ""),
    ] {
        let (client, token) = client_of(&server, name);
        let mut connection = server.connect();
        connection.send(format!(
            "POST {target} HTTP/1.1\r\nHost: plants\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/{media_type}\r\nExpect: 100-continue\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        ));
        assert_eq!(connection.receive().status, 100, "{name}");
        connection.send(&before);
        wait_until("the first row", || reader.read(1).status == 200);
        revoke_token(server.data(), &[name]);
        wait_until_refused(&client);
        connection.send(&after);
        connection.send(chunk(""));
        let message = connection.receive().assert_error(401, 2002);
        assert!(message.contains(words), "{name}: {message}");
        reader.read(2).assert_error(404, 3002);
    }
}

#[test]
fn an_export_breaks_off_when_its_token_is_revoked() {
    // More than the buffers of the sockets hold.
    const PLANTS: i64 = 10_000;
    let server = server();
    let (writer, _) = client_of(&server, "writer");
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
    assert!(!taken.body.ends_with(b"\r\n0\r\n\r\n"), "the body looks complete");
    let line = wait_for("the log line", || {
        let stderr = server.stderr();
        stderr.lines().find(|line| line.contains("broke off")).map(str::to_owned)
    });
    assert!(line.contains("token=exporter") && line.contains("revoked"), "{line}");
}

// The command.

#[test]
fn a_token_is_recognizable_and_only_its_digest_is_kept() {
    let folder = temporary_folder();
    let data = folder.path().join("data");
    let token = create_token(&data, &["--name", "first"]);
    let other = create_token(&data, &["--name", "second"]);
    assert_ne!(token, other);
    assert!(token.starts_with("plantd_"), "{token}");
    // 43 characters of base64 hold 256 bits; the checksum follows.
    assert_eq!(token.len(), "plantd_".len() + 43 + 6, "{token}");

    let file = data.join("tokens.json");
    assert_eq!(mode(&data), 0o700);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&token) && !text.contains(&token["plantd_".len()..]), "{text}");
    // Only the file and its lock remain.
    assert_eq!(names_in(&data), ["tokens.json", "tokens.json.lock"]);
    for name in names_in(&data) {
        assert_eq!(mode(&data.join(name)), 0o600);
    }
}

#[test]
fn get_token_describes_the_token_of_the_request() {
    let server = server();
    let describe = |arguments: &[&str]| {
        let client = wait_until_taken(&server, &create_token(server.data(), arguments));
        client.get("/token?all=1").assert_error(400, 1006);
        client.get("/token").json()
    };
    let reader = describe(&["--name", "reader", "--scope", "read"]);
    assert_eq!(reader, json!({"name": "reader", "scope": "read"}));
    let mut writer = describe(&["--name", "writer", "--expires", "1h"]);
    let expires = writer.as_object_mut().and_then(|writer| writer.remove("expires"));
    let expires: Timestamp = expires.unwrap_or_default().as_str().unwrap_or("").parse().unwrap();
    let left = expires.duration_since(Timestamp::now());
    assert!(left.as_mins() > 30 && left.as_mins() <= 60, "{left:?}");
    assert_eq!(writer, json!({"name": "writer", "scope": "write"}));
}

#[test]
fn the_list_shows_what_is_kept_of_each_token() {
    let folder = temporary_folder();
    let read = ["--name", "reader", "--scope", "read", "--expires", "90d"];
    let token = create_token(folder.path(), &read);
    let _ = create_token(folder.path(), &["--name", "writer"]);
    let lines = list(folder.path());
    let lines: Vec<Vec<&str>> =
        lines.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let [[reader, read, created, expires], [writer, write, later, never]] =
        [0, 1].map(|line| <[&str; 4]>::try_from(&*lines[line]).expect("four words"));
    assert_eq!(
        [reader, read, writer, write, never],
        ["reader", "read", "writer", "write", "never"]
    );
    for time in [created, expires, later] {
        assert!(time.len() == "2026-01-01T00:00:00Z".len() && time.ends_with('Z'), "{time}");
    }
    assert!(created < expires, "{lines:?}");
    let stdout = token_command(folder.path(), &["list"]).run(0).stdout();
    assert!(!stdout.contains(&token), "{stdout}");
}

#[test]
fn a_killed_command_does_not_block_the_next_one() {
    let folder = temporary_folder();
    let data = folder.path();
    let _ = create_token(data, &["--name", "mine"]);
    let trace = data.join("trace");
    let mut killed = token_command(data, &["create", "--scope", "write", "--name", "lost"])
        .under_strace(&trace, &["-e", "inject=rename,renameat,renameat2:signal=KILL"])
        .spawn();
    assert_eq!(killed.wait_for_exit().code(), None, "strace did not kill the command");
    fs::remove_file(&trace).expect("the trace exists");
    assert_eq!(names(data), ["mine"]);
    assert_eq!(killed.stdout(), "");
    let _ = create_token(data, &["--name", "next"]);
    assert_eq!(names(data), ["mine", "next"]);
    assert_eq!(fs::read_dir(data).unwrap().count(), 2);
}

#[test]
fn waiting_for_the_lock_of_another_process_has_a_deadline() {
    let folder = temporary_folder();
    let _ = create_token(folder.path(), &["--name", "mine"]);
    let lock = File::open(folder.path().join("tokens.json.lock")).expect("a file can be opened");
    lock.lock().expect("a lock");
    let launch = token_command(folder.path(), &["revoke", "mine"]);
    launch.assert_refused_in_a_line(IO, &["another process"]);
    assert_eq!(names(folder.path()), ["mine"]);
    drop(lock);
    revoke_token(folder.path(), &["mine"]);
}

#[test]
fn tokens_that_are_made_at_the_same_time_are_all_kept() {
    const EACH: usize = 6;
    let folder = temporary_folder();
    let long = "x".repeat(63);
    let owners = ["a", "ci.2@example", "first-run", &long];
    thread::scope(|scope| {
        for name in owners {
            let data = folder.path();
            scope.spawn(move || {
                for number in 0..EACH {
                    let _ = create_token(data, &["--name", &format!("{name}{number}")]);
                }
            });
        }
    });
    let mut names = names(folder.path());
    names.sort();
    let expected =
        owners.iter().flat_map(|name| (0..EACH).map(move |number| format!("{name}{number}")));
    assert_eq!(names, expected.collect::<Vec<String>>());
}

#[test]
fn a_token_that_cannot_be_printed_is_not_kept() {
    let folder = temporary_folder();
    let _ = create_token(folder.path(), &["--name", "mine"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    for stdout in [Stdio::from(full), Stdio::from(writer)] {
        let output = Command::new(program())
            .args(["token", "create", "--scope", "write", "--name", "lost", "--data"])
            .arg(folder.path())
            .stdout(stdout)
            .output()
            .expect("the program can be started");
        assert_eq!(output.status.code(), Some(IO), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("no token was made"), "{stderr}");
    }
    assert_eq!(names(folder.path()), ["mine"]);
}

#[test]
fn a_full_disk_leaves_the_tokens_as_they_were() {
    let disk = SmallDisk::new("size=1m");
    let data = disk.data();
    let launch = |arguments: &[&str]| token_command(&data, arguments).within(&disk);
    launch(&["create", "--scope", "write", "--name", "mine"]).spawn().assert_exit_code(0);
    disk.fill("filler");
    launch(&["create", "--scope", "write", "--name", "other"])
        .assert_refused_in_a_line(IO, &["cannot write", "room"]);
    launch(&["revoke", "mine"]).assert_refused_in_a_line(IO, &["cannot write", "room"]);
    let listed = launch(&["list"]).run(0).stdout();
    assert!(listed.contains("mine") && !listed.contains("other"), "{listed}");
}

#[test]
fn an_invalid_command_is_refused_and_reveals_no_token() {
    let folder = temporary_folder();
    let data = folder.path();
    let token = create_token(data, &["--name", "mine"]);
    let before = fs::read(data.join("tokens.json")).unwrap();
    let create = |arguments: &[&str], words: &str| {
        let arguments = [&["create", "--scope", "write"], arguments].concat();
        token_command(data, &arguments).assert_refused_in_a_line(USAGE, &[words])
    };
    let mut said = String::new();
    for name in ["", "a b", "a\nb", "a=b", "é", "-a", &"x".repeat(65)] {
        said += &create(&[&format!("--name={name}")], "1 to 64");
    }
    said += &create(&["--name", &token], "looks like a token");
    said += &create(&["--name", "PLANTD_TOKEN"], "PLANTD_TOKEN");
    said += &create(&["--name", "x", "--expires", "0s"], "never be valid");
    said += &create(&["--name", "x", "--expires", "9000y"], "9999");
    for (arguments, words) in [
        (&["create", &token][..], "not shown"),
        (&["revoke", "mine", &token], "not shown"),
        (&["revoke", &token], "looks like a token"),
        (&["revoke", "nobody"], "token list"),
    ] {
        said += &token_command(data, arguments).assert_refused_in_a_line(USAGE, &[words]);
    }
    assert!(!said.contains(&token), "a message shows the token: {said}");
    assert_eq!(fs::read(data.join("tokens.json")).unwrap(), before);
}

#[test]
fn an_unusable_tokens_file_ends_every_command_and_stays_unchanged() {
    let folder = temporary_folder();
    let data = folder.path().join("data");
    for arguments in [&["list"][..], &["revoke", "mine"]] {
        token_command(&data, arguments).assert_refused_in_a_line(IO, &["tokens.json", "--data"]);
    }
    let _ = create_token(&data, &["--name", "mine"]);
    let path = data.join("tokens.json");
    let commands = [
        launch().data(&data),
        token_command(&data, &["list"]),
        token_command(&data, &["revoke", "mine"]),
        token_command(&data, &["create", "--scope", "write", "--name", "other"]),
    ];
    for mode in [0o640, 0o604, 0o620, 0o666] {
        for command in &commands {
            set_mode(&path, mode);
            let said = command.assert_refused(CONFIGURATION, &["chmod 600"]);
            // The command in the message solves the problem.
            let shown = said.split_once("chmod 600").map(|(_, path)| format!("chmod 600{path}"));
            let status = Command::new("sh").args(["-c", &shown.unwrap()]).status();
            assert!(status.unwrap().success(), "{said}");
            assert_eq!(names(&data), ["mine"]);
        }
    }
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"tokens":1}"#,
        r#"{"tokens":[{}]}"#,
        r#"{"tokens":["secret"]}"#,
        r#"{"tokens":[{"name":"x"}]}"#,
        r#"{"tokens":[],"secret":1}"#,
        r#"{"tokens":[{"name":"x","scope":"secret"}]}"#,
        r#"{"tokens":[{"name":"secret "}]}"#,
        r#"{"tokens":[{"sha256":"secret"}]}"#,
        &format!(r#"{{"tokens":[{{"sha256":"{}"}}]}}"#, "+f".repeat(32)),
    ] {
        fs::write(&path, text).unwrap();
        for command in &commands {
            let words = ["tokens.json", "broken at line 1"];
            let said = command.assert_refused(CONFIGURATION, &words);
            assert!(!said.contains("secret"), "{said}");
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
        }
    }
    fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    commands[0].assert_refused(CONFIGURATION, &["tokens.json", "more than 1048576 bytes"]);
    fs::remove_file(&path).unwrap();
    symlink(folder.path().join("nowhere"), &path).unwrap();
    commands[0].assert_refused(CONFIGURATION, &["tokens.json", "a link to nothing"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    commands[0].assert_refused(CONFIGURATION, &["tokens.json", "is not a file"]);
    assert!(!data.join("first-run-token").exists(), "a token was made");
}

#[test]
fn the_1001st_token_is_refused_and_a_file_with_too_many_tokens_can_be_edited() {
    let folder = temporary_folder();
    let (data, path) = (folder.path(), folder.path().join("tokens.json"));
    let _ = create_token(data, &["--name", &"x".repeat(64)]);
    let _ = create_token(data, &["--name", "mine"]);
    let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).expect("JSON");
    let fill = |count: usize| {
        let mut tokens: Vec<Value> = (1..count)
            .map(|number| {
                let mut token = file["tokens"][0].clone();
                token["name"] = format!("{number:064}").into();
                token
            })
            .collect();
        tokens.push(file["tokens"][1].clone());
        fs::write(&path, serde_json::json!({ "tokens": tokens }).to_string()).unwrap();
    };
    let create = token_command(data, &["create", "--scope", "write", "--name", "other"]);

    fill(999);
    let _ = create_token(data, &["--name", "last"]);
    let length = fs::metadata(&path).unwrap().len();
    assert!(length * 3 <= 1024 * 1024, "a full file of {length} bytes is almost too large");
    create.assert_refused_in_a_line(CONFIGURATION, &["1000 tokens", "revoke"]);
    assert_eq!(names(data).len(), 1000);

    fill(1002);
    let list = token_command(data, &["list"]);
    list.assert_refused_in_a_line(CONFIGURATION, &["1002 tokens", "more than 1000", "revoke"]);
    revoke_token(data, &["mine"]);
    create.assert_refused_in_a_line(CONFIGURATION, &["1000 tokens", "revoke"]);
    revoke_token(data, &[&format!("{:064}", 1)]);
    assert_eq!(names(data).len(), 1000);
}

// Files of other users.

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
        let beside = fs::read_dir(self.folder.path()).expect("a folder can be read").count();
        assert_eq!(beside, 2, "{name}: something was made beside the file");
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
