//! What all commands do that use a server.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;

use plantd_tests::{
    CONFIGURATION, FINDINGS, FakeServer, IO, Launch, NewPlant, TOKEN, TestServer, USAGE, answer,
    batch_body, names_in, temporary_folder, write_tokens_file,
};
use tempfile::TempDir;

use crate::JSON;

/// A folder with the files that commands read, and files that they must not change when they fail.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(temporary_folder());
        let batch = batch_body(&[r#"{"method":"PUT","path":"/plants/1","body":{"name":"Rosa"}}"#]);
        for (name, text) in [
            ("plants.csv", "id,name,tag\n"),
            ("batch.json", &batch),
            ("export.csv", "as it was"),
            ("plants.backup", "as it was"),
        ] {
            fs::write(files.path(name), text).expect("a file can be written");
        }
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Every command that needs only a token with the scope `read`.
    fn reading(&self) -> Vec<Vec<String>> {
        let export = self.path("export.csv");
        let commands: [&[&str]; 6] = [
            &["get", "1"],
            &["list"],
            &["history", "1"],
            &["events"],
            &["export", "-"],
            &["export", &export],
        ];
        commands.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect()
    }

    /// Every command.
    fn commands(&self) -> Vec<Vec<String>> {
        let others =
            [("import", "plants.csv"), ("batch", "batch.json"), ("backup", "plants.backup")];
        let others = others.map(|(command, file)| vec![command.to_owned(), self.path(file)]);
        [self.reading(), others.to_vec()].concat()
    }

    /// Asserts that commands which failed have left no file behind, and changed none.
    #[track_caller]
    fn assert_unchanged(&self) {
        for name in ["export.csv", "plants.backup"] {
            let text = fs::read_to_string(self.path(name)).expect("a file can be read");
            assert_eq!(text, "as it was", "{name}");
        }
        let names = ["batch.json", "export.csv", "plants.backup", "plants.csv"];
        assert_eq!(names_in(self.0.path()), names);
    }
}

/// The exit code when the server refuses the command: its file is at fault, or else the command line.
fn refused(command: &[String]) -> i32 {
    if ["import", "batch"].contains(&&*command[0]) { FINDINGS } else { USAGE }
}

fn at(url: &str, command: &[String]) -> Launch {
    Launch::new().arguments(command).arguments(["--url", url])
}

#[test]
fn a_url_without_the_operation_or_with_a_wrong_port_ends_with_64() {
    let (server, files) = (TestServer::start(), Files::new());
    let url = format!("http://{}/store", server.address());
    for command in files.commands() {
        at(&url, &command).assert_refused_in_a_line(USAGE, &["4004", "--url"]);
        let words = ["--url", "invalid port number"];
        at("http://127.0.0.1:99999", &command).assert_refused(USAGE, &words);
    }
    files.assert_unchanged();
}

#[test]
fn a_failure_of_the_connection_or_the_server_is_reported_with_what_to_do() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let refused = nobody.local_addr().expect("a listener has an address").to_string();
    drop(nobody);
    let server = TestServer::start();
    let plain = server.address().to_string();
    let silent = FakeServer::start(|_, _| {}).address.to_string();
    let other = FakeServer::start(|_, stream| {
        stream.write_all(b"220 mail.example ESMTP\r\n").expect("the client reads");
    });
    let other = other.address.to_string();
    let files = Files::new();
    let follow = ["events", "--follow"].map(str::to_owned).to_vec();
    for (scheme, authority, words) in [
        ("http", refused.as_str(), ["nothing listens", "start the server"]),
        ("https", &refused, ["nothing listens", "start the server"]),
        ("http", "plants.invalid", ["is not known", "--url"]),
        ("https", &plain, ["does not speak TLS", "http://"]),
        ("http", &silent, ["broke the connection off", "https://"]),
        ("http", &other, ["does not answer in HTTP", "--url"]),
    ] {
        let url = format!("{scheme}://{authority}");
        for command in files.commands().iter().chain([&follow]) {
            at(&url, command).assert_refused_in_a_line(IO, &[&url, words[0], words[1]]);
        }
    }
    let busy = FakeServer::start(|_, stream| {
        let body = r#"{"error":5003,"message":"too busy, try again"}"#;
        answer(stream, "503 Service Unavailable", JSON, body);
    });
    let url = format!("http://{}", busy.address);
    for command in files.commands() {
        at(&url, &command).assert_refused_in_a_line(IO, &["too busy, try again", "5003"]);
    }
    files.assert_unchanged();
}

#[test]
fn an_answer_that_is_not_from_plantd_ends_every_command_without_a_file() {
    let redirect = "308 Permanent Redirect\r\nLocation: https://a.example";
    let files = Files::new();
    for (status, content_type, exit_code, words) in [
        ("200 OK", "text/html", IO, ["plantd", ""]),
        ("502 Bad Gateway", "text/html", IO, ["502", "Bad Gateway"]),
        ("418 I'm a teapot", "text/html", USAGE, ["418", "does not say why"]),
        (redirect, "a/b", USAGE, ["https://a.example", "--url"]),
    ] {
        let server = FakeServer::start(move |_, stream| {
            answer(stream, status, content_type, "<p>Plants</p>");
        });
        let url = format!("http://{}", server.address);
        for command in files.commands() {
            let exit_code = if words[0] == "418" { refused(&command) } else { exit_code };
            at(&url, &command).assert_refused_in_a_line(exit_code, &words);
        }
    }
    files.assert_unchanged();
}

#[test]
fn the_text_of_a_server_cannot_control_the_terminal() {
    let body = r#"{"error":1234,"message":"red \u001b[31m alarm\u0007\r\n\u009b2J"}"#;
    let server = FakeServer::start(move |_, stream| answer(stream, "400 Bad Request", JSON, body));
    let url = format!("http://{}", server.address);
    for command in Files::new().commands() {
        let words = ["red ", "(error 1234)"];
        let said = at(&url, &command).assert_refused_in_a_line(refused(&command), &words);
        assert!(!said.trim_end_matches('\n').contains(char::is_control), "{said:?}");
    }
}

#[test]
fn the_token_comes_from_the_file_or_else_from_the_environment() {
    let server = TestServer::start_with_plants(&[NewPlant::new(1, "Rosa", None)]);
    let folder = temporary_folder();
    let right = folder.path().join("right");
    fs::write(&right, format!("{TOKEN}\n")).expect("a file can be written");
    // A client ignores the other variables of a server.
    let get = Launch::for_server(server.address(), &["get", "1"])
        .environment("PLANTD_LISTEN", "nonsense")
        .environment("PLANTD_CACHE_MB", "much");
    get.printed();
    let by_file = get.clone().arguments(["--token-file".as_ref(), right.as_os_str()]);
    by_file.clone().without_environment("PLANTD_TOKEN").printed();
    // The flag overrides the environment.
    by_file.clone().environment("PLANTD_TOKEN", "wrong").printed();
    by_file.environment("PLANTD_TOKEN", "").printed();
    let none = get.without_environment("PLANTD_TOKEN");
    none.assert_refused_in_a_line(USAGE, &["--token-file", "PLANTD_TOKEN"]);
}

#[test]
fn a_token_that_cannot_be_sent_ends_with_78_and_is_not_shown() {
    let server = TestServer::start();
    let folder = temporary_folder();
    let (path, missing) = (folder.path().join("token"), folder.path().join("missing"));
    let get = Launch::for_server(server.address(), &["get", "1"]);
    let by_file = get.clone().arguments(["--token-file".as_ref(), path.as_os_str()]);
    let origin = path.to_str().expect("UTF-8");
    for token in
        ["", " ", "two words", "two\nlines", "schlüssel", "bell\u{7}", &"x".repeat(1_000_000)]
    {
        fs::write(&path, token).expect("a file can be written");
        let mut said = by_file.assert_refused_in_a_line(CONFIGURATION, &[origin]);
        // An empty variable counts as unset, and a long one cannot be set.
        if (1..100_000).contains(&token.len()) {
            let by_environment = get.clone().environment("PLANTD_TOKEN", token);
            said += &by_environment.assert_refused_in_a_line(CONFIGURATION, &["PLANTD_TOKEN"]);
        }
        let is_shown = !token.trim().is_empty() && said.contains(token);
        assert!(!is_shown, "the message shows the token: {said}");
    }
    for path in [missing.as_path(), folder.path()] {
        let by_file = get.clone().arguments(["--token-file".as_ref(), path.as_os_str()]);
        by_file.assert_refused_in_a_line(IO, &[path.to_str().expect("UTF-8")]);
    }
}

#[test]
fn a_refused_token_ends_every_command_with_78() {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "data", write_tokens_file);
    server.client().with_token("writer").create(1, "Rosa", None).assert_plant("Rosa", None);
    let (url, files) = (format!("http://{}", server.address()), Files::new());
    let with =
        |command: &[String], token: &str| at(&url, command).environment("PLANTD_TOKEN", token);
    for command in files.commands() {
        for token in ["unknown", "expired"] {
            let words = ["2002", "refuses the token of PLANTD_TOKEN", "--token-file"];
            with(&command, token).assert_refused_in_a_line(CONFIGURATION, &words);
        }
    }
    let reading = files.reading();
    for command in files.commands().iter().filter(|command| !reading.contains(command)) {
        let refused = with(command, "reader");
        refused.assert_refused_in_a_line(CONFIGURATION, &["PLANTD_TOKEN", "2003"]);
    }
    files.assert_unchanged();
    for command in &reading {
        with(command, "reader").run(0);
    }
    for command in files.commands() {
        with(&command, "writer").run(0);
    }
}
