//! A running server that follows the tokens file.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use jiff::Timestamp;
use plantd_tests::{
    Client, Counts, Format, Launch, TestServer, USAGE, at_once, chunk, create_token, plant_body,
    revoke_token, set_mode, temporary_folder, token_command, wait_for, wait_until,
};
use serde_json::json;

use crate::launch;
use crate::token_command::{list, names};

/// The id of a plant that no test creates.
const NO_PLANT: i64 = -1;

fn server() -> TestServer {
    TestServer::start_with(launch())
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

#[test]
fn a_token_that_is_revoked_or_has_expired_is_refused_and_only_then_its_name_is_free() {
    let server = server();
    let (client, _) = client_of(&server, "app");
    let again = ["create", "--scope", "read", "--name", "app"];
    let words = ["app already", "plantd token revoke app"];
    token_command(server.data(), &again).assert_refused_in_a_line(USAGE, &words);
    assert_eq!(names(server.data()), ["first-run", "app"]);
    assert!(is_taken(&client));

    revoke_token(server.data(), &["app"]);
    wait_until_refused(&client);
    let short = create_token(server.data(), &["--name", "app", "--expires", "2s"]);
    let (lasting, _) = client_of(&server, "lasting");
    let expired = || -> Vec<bool> {
        list(server.data()).iter().map(|words| words.contains(&"(expired)".to_owned())).collect()
    };
    wait_until("the token to expire", || expired() == [false, true, false]);
    wait_until_refused(&server.client().with_token(&short));
    let _ = client_of(&server, "app");
    assert_eq!(names(server.data()), ["first-run", "lasting", "app"]);
    assert!(is_taken(&lasting));
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
fn the_tokens_file_may_be_elsewhere_and_appear_later_and_be_a_link_that_changes() {
    let folder = temporary_folder();
    let [old, new] = ["old", "new"].map(|name| {
        let token = create_token(&folder.path().join(name), &["--name", name]);
        (folder.path().join(name).join("tokens.json"), token)
    });
    let link = folder.path().join("tokens.json");
    let server = TestServer::start_with(Launch::new().environment("PLANTD_TOKENS", &link));
    assert!(!link.exists());
    symlink(&old.0, &link).expect("a link can be made");
    let client = wait_until_taken(&server, &old.1);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);

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
