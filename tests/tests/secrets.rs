//! No secret reaches a log, an error, a panic's message or a file, whatever is done with it.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use plantd_tests::{
    Format, Launch, Process, TestServer, create_token, plant_body, raw_head, revoke_token,
    token_command, wait_until,
};

/// How many characters of a secret may not be told either.
const TELLING: usize = 12;

/// Secrets, and everything that was said while they were used.
#[derive(Default)]
struct Run {
    secrets: RefCell<Vec<String>>,
    said: RefCell<Vec<(String, String)>>,
}

impl Run {
    fn secret(&self, secret: impl Into<String>) -> String {
        let secret = secret.into();
        self.secrets.borrow_mut().push(secret.clone());
        secret
    }

    fn said(&self, by: &str, what: impl Into<String>) {
        self.said.borrow_mut().push((by.to_owned(), what.into()));
    }

    /// What a process has said that ends by itself.
    fn ended(&self, by: &str, mut process: Process) {
        process.wait_for_exit();
        self.said(by, process.stdout());
        self.said(by, process.stderr());
    }

    /// What a client was answered.
    fn answered(&self, server: &TestServer, bytes: impl AsRef<[u8]>) {
        let mut connection = server.connect();
        connection.send(bytes);
        if let Ok(answer) = connection.try_receive() {
            self.said("an answer", format!("{answer:?}"));
        }
    }

    #[track_caller]
    fn assert_kept(&self) {
        let (secrets, said) = (self.secrets.borrow(), self.said.borrow());
        assert!(secrets.len() > 10 && said.len() > 20, "hardly anything was done");
        for secret in secrets.iter() {
            // The prefix is none.
            let telling = secret.strip_prefix("plantd_").unwrap_or(secret);
            for part in [&telling[..TELLING], &telling[telling.len() - TELLING..]] {
                for (by, what) in said.iter() {
                    assert!(!what.contains(part), "{part:?} of a secret is told by {by}: {what}");
                }
            }
        }
    }
}

/// What stands in the files of a folder that are no plants.
fn files(folder: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    files
        .filter(|path| path.is_file() && !path.ends_with("first-run-token"))
        .map(|path| {
            let bytes = fs::read(&path).expect("reads");
            (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())
        })
        .collect()
}

/// Uses many secrets with a server that logs as `log` says.
fn check_run(log: &str) {
    let run = Run::default();
    let of_environment = run.secret("a-token-of-the-environment-0123456789");
    let launch =
        Launch::new().environment("RUST_LOG", log).environment("PLANTD_TOKEN", &of_environment);
    let launch = launch.arguments(["--rate-limit", "1000"]);
    let mut server = TestServer::start_with(launch.clone());
    let data = server.data().to_owned();

    // Tokens come and go.
    let tokens: Vec<String> = [
        &["--name", "writer"][..],
        &["--name", "writer", "--expires", "90d"],
        &["--name", "reader", "--scope", "read"],
        &["--name", "short", "--expires", "1s"],
        &["--name", "revoked"],
    ]
    .iter()
    .map(|arguments| run.secret(create_token(&data, arguments)))
    .collect();
    let status = |token: &str| server.client().with_token(token).read(-1).status;
    wait_until("the tokens to be in force", || status(&tokens[4]) == 404);
    revoke_token(&data, &["revoked"]);
    wait_until("the token to be in force no more", || status(&tokens[4]) == 401);
    for token in &tokens {
        let token = token.as_str();
        for arguments in [&["create", "--name", token][..], &["revoke", token], &["list"]] {
            run.ended("plantd token", token_command(&data, arguments).spawn());
        }
    }
    let mut wrong = Launch::new();
    wrong = wrong.environment("PLANTD_TOKEN", run.secret("not a token that can be sent"));
    run.ended("a start", wrong.data(&data).spawn());

    // Requests come with them, wherever a client may put one.
    for token in tokens.iter().chain([&of_environment]) {
        let altered = run.secret(format!("{}x", &token[..token.len() - 1]));
        for token in [token, &altered] {
            let row = plant_body(1, "Rosa", None);
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
                    let length = row.len();
                    run.answered(
                        &server,
                        format!(
                            "{request_line}?access_token={token} HTTP/1.1\r\nHost: plants\r\n{head}\
                             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{row}"
                        ),
                    );
                }
            }
        }
    }
    let url = format!("http://{}", server.address());
    let file = data.join("given-token");
    for given in tokens.iter().map(|token| format!("{token}\n")).chain([
        format!("{}\n", run.secret("with white space in it 0123456789")),
        format!("{}\n", run.secret("plantd_mistyped0123456789")),
        format!("{}\n", "x".repeat(5000)),
    ]) {
        fs::write(&file, given).expect("writes");
        for command in ["import", "export"] {
            let launch = Launch::new().environment("RUST_LOG", "trace").arguments([
                command.into(),
                "--url".into(),
                url.clone().into(),
                "--token-file".into(),
                file.clone().into_os_string(),
                if command == "import" { "/dev/null".into() } else { "-".into() },
                "--format=csv".into(),
            ]
                as [std::ffi::OsString; 7]);
            run.ended(command, launch.spawn());
        }
    }
    fs::remove_file(&file).expect("it is ours");

    // Someone puts a token where its digest belongs.
    let path = data.join("tokens.json");
    let good = fs::read(&path).expect("reads");
    let token = &tokens[0];
    for broken in [
        format!("{{\"tokens\":[\"{token}\"]}}"),
        format!("{{\"tokens\":[],\"{token}\":1}}"),
        format!("{{\"tokens\":[{{\"name\":\"{token}\"}}]}}"),
        format!("{{\"tokens\":[{{\"sha256\":\"{token}\"}}]}}"),
        token.clone(),
    ] {
        let complaints = |server: &TestServer| server.stderr().matches("is broken").count();
        let before = complaints(&server);
        fs::write(&path, &broken).expect("writes");
        wait_until("the server to complain", || complaints(&server) > before);
        run.ended("plantd token", token_command(&data, &["list"]).spawn());
        run.ended("a start", Launch::new().data(&data).spawn());
        fs::write(&path, &good).expect("writes");
        wait_until("the server to go on", || {
            let log = server.stderr();
            log.matches("can be used again").count() >= log.matches("is broken").count()
        });
    }

    assert_eq!(server.terminate().code(), Some(0));
    run.said("the server", server.process().stdout());
    run.said("the server", server.stderr());
    for (name, content) in files(&data) {
        run.said(&name, content);
    }
    run.assert_kept();
}

#[test]
fn a_run_that_uses_many_secrets_tells_none() {
    check_run("info");
}

#[test]
fn a_run_that_tells_all_it_can_tells_no_secret() {
    check_run("trace");
}

#[test]
fn the_token_of_the_first_start_is_in_its_file_alone() {
    let launch = Launch::new().without_environment("PLANTD_TOKEN").environment("RUST_LOG", "trace");
    let mut server = TestServer::start_with(launch);
    let token = fs::read_to_string(server.data().join("first-run-token")).expect("reads");
    let token = token.trim_end();
    let client = server.client().with_token(token);
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(client.import(Format::Ndjson, "", plant_body(2, "Salix", None)).status, 200);
    assert_eq!(server.terminate().code(), Some(0));
    let said = server.process().stdout() + &server.stderr();
    let part = &token["plantd_".len()..][..TELLING];
    assert!(said.contains("first-run-token") && !said.contains(part), "{said}");
    for (name, content) in files(server.data()) {
        assert!(!content.contains(part), "{name}: {content}");
    }
}

#[test]
fn a_panic_tells_no_secret() {
    let secret = "a-token-of-the-environment-0123456789";
    let launch = Launch::new()
        .faults("in-handler=panic")
        .environment("RUST_LOG", "trace")
        .environment("RUST_BACKTRACE", "full")
        .environment("PLANTD_TOKEN", secret);
    let mut server = TestServer::start_with(launch);
    let body = plant_body(1, "Rosa", None);
    let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let head = raw_head("POST /plants", &lines).replace(plantd_tests::TOKEN, secret);
    let mut connection = server.connect();
    connection.send(head + &body);
    connection.receive().assert_error(500, 5001);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert!(log.contains("panic") && !log.contains(&secret[..TELLING]), "{log}");
}
