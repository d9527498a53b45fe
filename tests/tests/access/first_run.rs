//! The first start: it makes a token and keeps it from others. `sockets` runs the command that it shows.

use std::fs;
use std::path::Path;

use plantd_tests::{TestServer, create_token, mode, revoke_token, shown_command, wait_until};

use crate::launch;

#[track_caller]
fn first_token(data: &Path) -> String {
    let text = fs::read_to_string(data.join("first-run-token")).expect("the token is there");
    let token = text.trim_end();
    assert!(token.len() >= 32, "a token of {} characters can be guessed", token.len());
    token.to_owned()
}

#[test]
fn the_first_start_makes_a_token_that_only_its_owner_can_read() {
    let talkative = launch().environment("RUST_LOG", "info,plantd=trace,plant_http=trace");
    let mut server = TestServer::start_with(talkative);
    assert_eq!(mode(server.data()), 0o700);
    assert_eq!(mode(&server.data().join("first-run-token")), 0o600);
    assert_eq!(mode(&server.data().join("tokens.json")), 0o600);

    let token = first_token(server.data());
    let tokens = fs::read_to_string(server.data().join("tokens.json")).unwrap();
    assert!(!tokens.contains(&token), "the tokens file holds the token itself");
    let client = server.client().with_token(&token);
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    client.read(1).assert_new_plant(1, "Rosa", None);

    // Another first start makes another token.
    let other = first_token(TestServer::start_with(launch()).data());
    assert_ne!(token, other);
    client.with_token(&other).read(1).assert_error(401, 2002);

    let _ = shown_command(&server);
    let address = server.address();
    let advice = format!("sign in at http://{address}, or create a plant with");
    assert!(server.stderr().contains(&advice), "{}", server.stderr());
    assert_eq!(server.terminate().code(), Some(0));
    let (stdout, stderr) = (server.process().stdout(), server.stderr());
    assert_eq!(stdout, format!("plantd listening on http://{address}\n"));
    assert!(!stderr.contains(&token), "the log shows the token: {stderr}");
    assert!(stderr.contains("first-run-token"), "the log does not name its file: {stderr}");

    // The second start makes no token, and shows no command.
    server.restart();
    server.client().with_token(&token).read(1).assert_new_plant(1, "Rosa", None);
    assert_eq!(first_token(server.data()), token);
    assert_eq!(fs::read_to_string(server.data().join("tokens.json")).unwrap(), tokens);
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!server.stderr().contains("curl"), "{}", server.stderr());
}

#[test]
fn no_token_is_made_where_the_environment_gives_one_or_the_tokens_file_is_there() {
    let mut token = String::new();
    let with_file = TestServer::start_prepared(launch(), "data", |data| {
        token = create_token(data, &["--name", "mine"]);
    });
    with_file.client().read(1).assert_error(401, 2002);
    with_file.client().with_token(&token).read(1).assert_error(404, 3002);
    let with_empty_file = TestServer::start_prepared(launch(), "data", |data| {
        let _ = create_token(data, &["--name", "mine"]);
        revoke_token(data, &["mine"]);
    });
    with_empty_file.client().read(1).assert_error(401, 2002);
    wait_until("the log line", || with_empty_file.stderr().contains("plantd token create"));
    let token = create_token(with_empty_file.data(), &["--name", "new"]);
    let client = with_empty_file.client().with_token(&token);
    wait_until("the server to take the token", || client.read(1).status == 404);
    let with_variable = TestServer::start();
    with_variable.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    for mut server in [with_file, with_empty_file, with_variable] {
        assert_eq!(server.terminate().code(), Some(0));
        assert!(!server.data().join("first-run-token").exists());
        assert!(!server.stderr().contains("curl"), "{}", server.stderr());
    }
}

#[test]
fn the_file_of_the_first_token_is_removed_with_that_token_and_with_no_other() {
    let server = TestServer::start_with(launch());
    let path = server.data().join("first-run-token");
    let _ = create_token(server.data(), &["--name", "other"]);
    revoke_token(server.data(), &["other"]);
    assert!(path.exists());
    revoke_token(server.data(), &["first-run"]);
    assert!(!path.exists(), "it holds a revoked token");

    // The file may hold another token by now.
    let token = create_token(server.data(), &["--name", "mine"]);
    fs::write(&path, format!("{token}\n")).unwrap();
    let _ = create_token(server.data(), &["--name", "first-run"]);
    revoke_token(server.data(), &["first-run"]);
    assert_eq!(fs::read_to_string(&path).unwrap().trim_end(), token);
    revoke_token(server.data(), &["mine"]);
    assert!(!path.exists());
}
