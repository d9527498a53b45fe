//! `plantd events`: what it prints, how it follows, and its exit codes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{
    CONFIGURATION, Client, FakeServer, Format, IO, Launch, NewPlant, Process, TestServer, USAGE,
    answer, answer_of, hold_port, make_pipe, wait_until, write_tokens_file,
};

const FINDINGS: i32 = 1;

const JSON: &str = "application/json";

/// `plantd events` of the server at this address.
fn events(address: SocketAddr, arguments: &[&str]) -> Launch {
    let url = format!("http://{address}");
    Launch::new().arguments(["events", "--url", &url]).arguments(arguments)
}

/// What the command prints until it ends with this exit code.
#[track_caller]
fn printed(launch: &Launch, exit_code: i32) -> String {
    let mut process = launch.spawn();
    process.assert_exit_code(exit_code);
    process.stdout()
}

fn create(client: &Client, id: i64) {
    client.create(id, "Rosa", None).assert_plant("Rosa", None);
}

/// A page of the server, as the command has to print it.
#[track_caller]
fn lines_of_page(client: &Client, query: &str) -> String {
    let page = client.get(&format!("/events?limit=1000{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    let events = String::from_utf8(page.body).expect("UTF-8");
    match events.trim_start_matches('[').trim_end_matches(']') {
        "" => String::new(),
        events => events.replace("},{\"cursor\"", "}\n{\"cursor\"") + "\n",
    }
}

/// The first text between two others.
#[track_caller]
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split(after).next().expect("a part")
}

fn first_cursor(lines: &str) -> &str {
    between(lines, "{\"cursor\":\"", "\"")
}

/// Waits until a process has printed exactly this.
#[track_caller]
fn wait_for_output(process: &mut Process, expected: &str) {
    wait_until("the events to be printed", || {
        process.stdout().len() >= expected.len() || !process.is_running()
    });
    assert_eq!(process.stdout(), expected, "{}", process.stderr());
}

#[test]
fn each_event_is_printed_on_its_line_as_the_server_sends_it() {
    let server = TestServer::start();
    let client = server.client();
    create(&client, 1);
    client.create(2, "},{\"cursor\\", Some("木")).assert_plant("},{\"cursor\\", Some("木"));
    client.patch(1, r#"{"tag":"Rosaceae"}"#).assert_plant("Rosa", Some("Rosaceae"));
    client.delete(1).assert_no_content();

    let all = printed(&events(server.address(), &[]), 0);
    assert_eq!(all, lines_of_page(&client, ""));
    let kinds: Vec<&str> = all.lines().map(|line| between(line, "\"kind\":\"", "\"")).collect();
    assert_eq!(kinds, ["created", "created", "updated", "deleted"]);
    let with_plants = printed(&events(server.address(), &["--plants"]), 0);
    assert_eq!(with_plants, lines_of_page(&client, "&plants=true"));
    assert_eq!(with_plants.matches("\"tag\":\"木\"").count(), 1, "{with_plants}");

    let cursor = first_cursor(&all);
    let rest = printed(&events(server.address(), &["--after", cursor]), 0);
    assert_eq!(rest.lines().collect::<Vec<_>>(), all.lines().skip(1).collect::<Vec<_>>());
    assert_eq!(printed(&events(server.address(), &["--after", "now"]), 0), "");
}

#[test]
fn more_events_than_a_page_holds_are_all_printed_in_order() {
    const PLANTS: i64 = 2_345;
    let server = TestServer::start();
    assert_eq!(printed(&events(server.address(), &[]), 0), "", "nothing has happened yet");
    let plants: Vec<NewPlant> = (1..=PLANTS).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    let report = server.client().import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    assert_eq!(report.json()["created"], PLANTS, "{report:?}");
    for arguments in [&[] as &[&str], &["--plants"]] {
        let lines = printed(&events(server.address(), arguments), 0);
        let ids: Vec<i64> = lines
            .lines()
            .map(|line| between(line, "\"id\":", ",").parse().expect("a number"))
            .collect();
        assert_eq!(ids, (1..=PLANTS).collect::<Vec<_>>());
    }
}

#[test]
fn a_follower_prints_what_was_there_and_what_happens_next() {
    let server = TestServer::start();
    let client = server.client();
    create(&client, 1);
    let mut from_oldest = events(server.address(), &["--follow"]).spawn();
    wait_for_output(&mut from_oldest, &lines_of_page(&client, ""));

    let mut from_now = events(server.address(), &["--follow", "--after=now", "--plants"]).spawn();
    let old = first_cursor(&lines_of_page(&client, "")).to_owned();
    // Its cursor is fixed with the first answer. The others are one to the other follower, and two to this test.
    wait_until("the first answer to the follower from now", || {
        server.stderr().matches(" GET /events 200 ").count() == 4
    });
    for id in 2..10 {
        create(&client, id);
        wait_for_output(&mut from_oldest, &lines_of_page(&client, ""));
        let new = lines_of_page(&client, &format!("&plants=true&after={old}"));
        wait_for_output(&mut from_now, &new);
    }
    for process in [&mut from_oldest, &mut from_now] {
        assert!(process.is_running());
        assert_eq!(process.stderr(), "");
    }
}

#[test]
fn a_follower_goes_on_after_kills_of_the_server_without_a_gap_and_without_a_repeat() {
    let (_port, address) = hold_port();
    let launch = Launch::new().environment("PLANTD_LISTEN", address.to_string());
    let mut server = TestServer::start_with(launch);
    let mut follower = events(address, &["--follow"]).spawn();
    for round in 0..3_usize {
        let id = i64::try_from(round).expect("small") * 2;
        create(&server.client(), id);
        if round != 1 {
            wait_for_output(&mut follower, &lines_of_page(&server.client(), ""));
        }
        server.kill();
        wait_until("the follower to notice", || {
            follower.stderr().matches("trying again").count() == round + 1
        });
        server.restart();
        create(&server.client(), id + 1);
        wait_for_output(&mut follower, &lines_of_page(&server.client(), ""));
        let said = follower.stderr();
        assert_eq!(said.matches("following again").count(), round + 1, "{said}");
    }
    assert_eq!(server.terminate().code(), Some(0));
    assert!(follower.is_running());
}

/// A server that gives these answers, one after the other. The last one has status 401, which ends a follower.
struct Script {
    server: FakeServer,
    requests: &'static Mutex<Vec<String>>,
}

impl Script {
    fn start(answers: Vec<String>) -> Self {
        let requests: &Mutex<Vec<String>> = Box::leak(Box::default());
        let end = answer_of("401 Unauthorized", JSON, r#"{"error":2002,"message":"no"}"#);
        let server = FakeServer::start(move |head, stream| {
            let mut requests = requests.lock().expect("no panic");
            let answer = answers.get(requests.len()).unwrap_or(&end);
            requests.push(head.lines().next().unwrap_or_default().to_owned());
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        Self { server, requests }
    }

    /// The query of each request so far.
    fn queries(&self) -> Vec<String> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|line| between(line, "?", " ").to_owned()).collect()
    }
}

fn event(number: u32) -> String {
    format!("{{\"cursor\":\"{number}-ab\",\"kind\":\"created\",\"id\":{number}}}")
}

/// An answer with a page of these events, which leads on to a cursor.
fn page(events: &[u32], next: &str) -> String {
    let body: Vec<String> = events.iter().map(|number| event(*number)).collect();
    let link = format!("{JSON}\r\nLink: </prefix/events?after={next}&limit=1000>; rel=\"next\"");
    answer_of("200 OK", &link, &format!("[{}]", body.join(",")))
}

fn unavailable(more_headers: &str) -> String {
    let body = r#"{"error":5003,"message":"too busy"}"#;
    answer_of("503 Service Unavailable", &format!("{JSON}{more_headers}"), body)
}

#[test]
fn a_follower_goes_on_behind_what_it_has_printed_whatever_breaks() {
    let cut = page(&[2, 3], "3-ab");
    let cut_in_body = cut[..cut.len() - 10].to_owned();
    let cut_unnoticed = answer_of("200 OK", JSON, &format!("[{},{{\"cur", event(2)));
    let too_many = answer_of("429 Too Many Requests", JSON, r#"{"error":2004,"message":"slow"}"#);
    let script = Script::start(vec![
        unavailable(""),
        page(&[1], "1-ab"),
        cut_in_body,
        String::new(),
        cut_unnoticed,
        unavailable("\r\nRetry-After: 1"),
        too_many,
        answer_of("502 Bad Gateway", "text/html", "<p>no</p>"),
        page(&[2, 3], "3-ab"),
        page(&[], "7-ab"),
        page(&[8], "8-ab"),
    ]);
    let launch = events(script.server.address, &["--follow", "--plants"]);
    let mut process = launch.spawn();
    process.assert_exit_code(CONFIGURATION);
    let expected: Vec<String> = [1, 2, 3, 8].into_iter().map(event).collect();
    assert_eq!(process.stdout().lines().collect::<Vec<_>>(), expected);
    let queries = script.queries();
    let cursors: Vec<Option<&str>> = queries
        .iter()
        .map(|query| query.split('&').find_map(|parameter| parameter.strip_prefix("after=")))
        .collect();
    let of_one = [Some("1-ab"); 7];
    let expected =
        [&[None, None][..], &of_one, &[Some("3-ab"), Some("7-ab"), Some("8-ab")]].concat();
    assert_eq!(cursors, expected, "{queries:?}");
    assert!(queries.iter().all(|query| query.contains("plants=true")), "{queries:?}");
    // Each of the two interruptions is told once, however often the request was repeated.
    let stderr = process.stderr();
    let [interrupted, again] =
        ["trying again", "following again"].map(|words| stderr.matches(words).count());
    assert_eq!((interrupted, again), (2, 2), "{stderr}");
    assert!(stderr.contains("too busy") && stderr.contains("2002"), "{stderr}");
}

#[test]
fn a_server_that_answers_without_waiting_is_asked_less_and_less_often() {
    let empty = page(&[], "1-ab");
    let script = Script::start(vec![empty; 5]);
    let begun = Instant::now();
    assert_eq!(printed(&events(script.server.address, &["--follow"]), CONFIGURATION), "");
    // The first request does not ask for a wait. The pauses after the others have at least half of their length.
    let pauses = Duration::from_millis(50 + 100 + 200 + 400);
    assert!(begun.elapsed() >= pauses, "{:?}", begun.elapsed());
    let waits = script.queries().iter().filter(|query| query.contains("wait=50")).count();
    assert_eq!(waits, 5);
}

#[test]
fn without_follow_a_failure_ends_it_at_once() {
    let script = Script::start(vec![page(&[1], "1-ab"), unavailable("\r\nRetry-After: 1")]);
    let mut process = events(script.server.address, &[]).spawn();
    process.assert_exit_code(IO);
    assert_eq!(process.stdout(), event(1) + "\n");
    assert!(process.stderr().contains("too busy"), "{}", process.stderr());
    assert_eq!(script.queries(), ["limit=1000", "limit=1000&after=1-ab"]);
}

#[test]
fn a_server_that_cannot_be_reached_at_first_ends_a_follower_too() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nobody.local_addr().expect("its address");
    drop(nobody);
    for arguments in [&[] as &[&str], &["--follow"]] {
        events(address, arguments).assert_refused(IO, &["nothing listens", "--url"]);
    }
}

#[test]
fn events_that_are_gone_end_it_with_1_and_with_what_to_do() {
    let server = TestServer::start();
    create(&server.client(), 1);
    let words = ["events after the cursor are gone", "export", "X-Events-After", "3004"];
    for arguments in [&["--after", "1-ab"][..], &["--follow", "--after", "1-ab"]] {
        events(server.address(), arguments).assert_refused(FINDINGS, &words);
    }
    let gone = answer_of("410 Gone", JSON, r#"{"error":3004,"message":"gone"}"#);
    let script = Script::start(vec![page(&[1], "1-ab"), gone]);
    let launch = events(script.server.address, &["--follow"]);
    assert_eq!(printed(&launch, FINDINGS), event(1) + "\n");
}

#[test]
fn a_cursor_that_is_none_is_refused_before_a_request() {
    let script = Script::start(Vec::new());
    for cursor in ["", "1", "-1", "Now", "1-", "1-xyz", "01-ab", "1-ab&limit=1"] {
        let after = format!("--after={cursor}");
        let launch = events(script.server.address, &["--follow", &after]);
        launch.assert_refused(USAGE, &["--after", "now", "2048-9f3a1c"]);
    }
    assert_eq!(script.queries(), [""; 0]);
}

#[test]
fn a_token_that_is_not_taken_ends_it_with_78() {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "data", write_tokens_file);
    create(&server.client().with_token("writer"), 1);
    for arguments in [&[] as &[&str], &["--follow"]] {
        let launch = events(server.address(), arguments);
        for token in ["unknown", "expired"] {
            let launch = launch.clone().environment("PLANTD_TOKEN", token);
            launch.assert_refused(CONFIGURATION, &["PLANTD_TOKEN", "2002"]);
        }
    }
    let launch = events(server.address(), &[]).environment("PLANTD_TOKEN", "reader");
    assert_eq!(printed(&launch, 0).lines().count(), 1);
}

#[test]
fn an_answer_that_is_not_from_plantd_ends_it() {
    let link = |target: &str| format!("{JSON}\r\nLink: <{target}>; rel=\"next\"");
    for (content_type, body) in [
        ("text/html", "<p>Plants</p>"),
        (JSON, "{}"),
        (JSON, "[1]"),
        (JSON, r#"[{"cursor":"x"}]"#),
        (JSON, "[]"),
        (&link("/events"), "[]"),
        (&link("/events?after=now"), "[]"),
    ] {
        let answer_of_it = (content_type.to_owned(), body.to_owned());
        let server = FakeServer::start(move |_, stream| {
            answer(stream, "200 OK", &answer_of_it.0, &answer_of_it.1);
        });
        events(server.address, &["--follow"]).assert_refused(IO, &["does not answer as plantd"]);
    }
}

#[test]
fn a_reader_that_has_read_enough_ends_it_at_once() {
    let server = TestServer::start();
    create(&server.client(), 1);
    create(&server.client(), 2);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut line = String::new();
            let pipe = File::open(pipe).expect("it opens");
            BufReader::new(pipe).read_line(&mut line).expect("it can be read");
            line
        }
    });
    // Nothing happens any more that it could print.
    let mut process = events(server.address(), &["--follow"]).standard_output(&pipe).spawn();
    process.assert_exit_code(IO);
    assert_eq!(reader.join().expect("it ends").lines().count(), 1);
    let said = process.stderr();
    assert!(said.starts_with("error: cannot write to standard output"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    events(server.address(), &[])
        .standard_output("/dev/full".as_ref())
        .assert_refused(IO, &["cannot write to standard output"]);
}
