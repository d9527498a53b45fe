//! No secret reaches a log, an error, a panic message or a file, however it is used.

use std::fs;
use std::path::Path;

use plantd_tests::{
    Launch, Process, TOKEN, TestServer, create_token, plant_body, raw_head, revoke_token,
    token_command, wait_until,
};

/// This many consecutive characters of a secret in an output count as a leak.
const TELLING: usize = 12;

const OF_ENVIRONMENT: &str = "a-token-of-the-environment-0123456789";

/// Secrets, and all output of the runs that used them.
#[derive(Default)]
struct Run {
    secrets: Vec<String>,
    said: Vec<(String, String)>,
}

impl Run {
    fn secret(&mut self, secret: impl Into<String>) -> String {
        self.secrets.push(secret.into());
        self.secrets.last().expect("one was pushed").clone()
    }

    fn said(&mut self, by: &str, what: String) {
        self.said.push((by.to_owned(), what));
    }

    /// Waits for the end of a process, and keeps its output.
    fn ended(&mut self, by: &str, mut process: Process) {
        process.wait_for_exit();
        self.said(by, process.stdout() + &process.stderr());
    }

    #[track_caller]
    fn assert_kept(&self) {
        assert!(self.secrets.len() > 10 && self.said.len() > 20, "hardly anything was done");
        for secret in &self.secrets {
            // The prefix of tokens is no secret.
            let telling = secret.strip_prefix("plantd_").unwrap_or(secret);
            for part in [&telling[..TELLING], &telling[telling.len() - TELLING..]] {
                for (by, what) in &self.said {
                    assert!(!what.contains(part), "{by} reveals {part:?} of a secret: {what}");
                }
            }
        }
    }
}

/// The files in a folder that hold no plants, with their content.
fn files(folder: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(folder)
        .expect("a folder can be read")
        .map(|file| file.expect("a file").path());
    files
        .filter(|path| path.is_file() && !path.ends_with("first-run-token"))
        .map(|path| {
            let bytes = fs::read(&path).expect("a file can be read");
            (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())
        })
        .collect()
}

/// The most verbose log level includes all others.
#[test]
fn a_run_with_full_logging_and_many_secrets_reveals_none() {
    let mut run = Run::default();
    run.secret(OF_ENVIRONMENT);
    let launch = Launch::new()
        .environment("RUST_LOG", "trace")
        .environment("PLANTD_TOKEN", OF_ENVIRONMENT)
        .arguments(["--rate-limit", "1000"]);
    let mut server = TestServer::start_with(launch);
    let data = server.data().to_owned();

    let tokens = [
        &["--name", "writer"][..],
        &["--name", "lasting", "--expires", "90d"],
        &["--name", "reader", "--scope", "read"],
        &["--name", "short", "--expires", "1s"],
        &["--name", "revoked"],
    ]
    .map(|arguments| run.secret(create_token(&data, arguments)));
    let status = |token: &str| server.client().with_token(token).read(-1).status;
    wait_until("the tokens to be in force", || status(&tokens[4]) == 404);
    revoke_token(&data, &["revoked"]);
    wait_until("the token to be in force no more", || status(&tokens[4]) == 401);
    for token in &tokens {
        let token = token.as_str();
        for arguments in
            [&["create", "--scope", "read", "--name", token][..], &["revoke", token], &["list"]]
        {
            run.ended("plantd token", token_command(&data, arguments).spawn());
        }
    }
    let wrong = run.secret("not a token that can be sent");
    run.ended("a start", Launch::new().environment("PLANTD_TOKEN", wrong).data(&data).spawn());

    // Requests have secrets wherever a client may put one.
    for token in tokens.iter().map(String::as_str).chain([OF_ENVIRONMENT]) {
        let altered = run.secret(format!("{}x", &token[..token.len() - 1]));
        for token in [token, &altered] {
            for head in [
                format!("Authorization: Bearer {token}\r\n"),
                format!("Authorization: Basic {token}\r\n"),
                format!("Authorization: {token}\r\n"),
                format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n"),
                format!("Authorization: Bearer {token}\r\nIdempotency-Key: \"{token}\"\r\n"),
                format!("Authorization: Bearer {token}\r\nIf-Match: {token}\r\n"),
                format!("Cookie: {token}\r\nX-Api-Key: {token}\r\n"),
                format!("{token}\r\n"),
            ] {
                for request_line in
                    ["GET /plants/1", "POST /plants", "PUT /plants/1", "BREW /plants"]
                {
                    let row = plant_body(1, "Rosa", None);
                    let mut connection = server.connect();
                    connection.send(format!(
                        "{request_line}?access_token={token} HTTP/1.1\r\nHost: plants\r\n{head}\
                         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{row}",
                        row.len()
                    ));
                    if let Ok(answer) = connection.try_receive() {
                        run.said("an answer", format!("{answer:?}"));
                    }
                }
            }
        }
    }
    let url = format!("http://{}", server.address());
    let file = data.join("given-token");
    let mut given = tokens.to_vec();
    given.push(run.secret("with white space in it 0123456789"));
    given.push(run.secret("plantd_mistyped0123456789"));
    given.push("x".repeat(5000));
    for given in given {
        fs::write(&file, given + "\n").expect("a file can be written");
        for (command, from) in [("import", "/dev/null"), ("export", "-")] {
            let launch = Launch::new()
                .environment("RUST_LOG", "trace")
                .arguments([command, "--url", &url, "--format=csv", from, "--token-file"])
                .arguments([&file]);
            run.ended(command, launch.spawn());
        }
    }
    fs::remove_file(&file).expect("a file can be removed");

    // A tokens file has a token in place of a digest.
    let path = data.join("tokens.json");
    let good = fs::read(&path).expect("a file can be read");
    let token = &tokens[0];
    for broken in [
        format!("{{\"tokens\":[\"{token}\"]}}"),
        format!("{{\"tokens\":[],\"{token}\":1}}"),
        format!("{{\"tokens\":[{{\"name\":\"{token}\"}}]}}"),
        format!("{{\"tokens\":[{{\"sha256\":\"{token}\"}}]}}"),
        token.clone(),
    ] {
        let count = |words: &str| server.stderr().matches(words).count();
        let before = count("is broken");
        fs::write(&path, &broken).expect("a file can be written");
        wait_until("the server to complain", || count("is broken") > before);
        run.ended("plantd token", token_command(&data, &["list"]).spawn());
        run.ended("a start", Launch::new().data(&data).spawn());
        fs::write(&path, &good).expect("a file can be written");
        wait_until("the server to go on", || count("can be used again") >= count("is broken"));
    }

    assert_eq!(server.terminate().code(), Some(0));
    run.said("the server", server.process().stdout() + &server.stderr());
    run.said.extend(files(&data));
    run.assert_kept();
}

#[test]
fn a_panic_reveals_no_secret() {
    let launch = Launch::new()
        .faults("in-handler=panic")
        .environment("RUST_LOG", "trace")
        .environment("RUST_BACKTRACE", "full")
        .environment("PLANTD_TOKEN", OF_ENVIRONMENT);
    let mut server = TestServer::start_with(launch);
    let body = plant_body(1, "Rosa", None);
    let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut connection = server.connect();
    connection.send(raw_head("POST /plants", &lines).replace(TOKEN, OF_ENVIRONMENT) + &body);
    connection.receive().assert_error(500, 5001);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert!(log.contains("panic") && !log.contains(&OF_ENVIRONMENT[..TELLING]), "{log}");
}
