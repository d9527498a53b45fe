//! `plantd events --follow`.

use std::time::Duration;

use plantd_tests::{
    CONFIGURATION, Launch, Process, READER_GONE, Script, TestServer, answer_of, hold_port,
    make_pipe, read_line_of_pipe, temporary_folder, wait_until,
};

use crate::JSON;
use crate::events::{create, event, events, first_cursor, lines_of_page, page, unavailable};

/// Waits until a process has printed exactly this.
#[track_caller]
fn wait_for_output(process: &mut Process, expected: &str) {
    wait_until("the events to be printed", || {
        process.stdout().len() >= expected.len() || !process.is_running()
    });
    assert_eq!(process.stdout(), expected, "{}", process.stderr());
}

#[test]
fn a_follower_prints_past_events_and_then_each_new_one() {
    let server = TestServer::start();
    let client = server.client();
    create(&client, 1);
    let mut from_oldest = events(server.address(), &["--follow"]).spawn();
    wait_for_output(&mut from_oldest, &lines_of_page(&client, ""));

    let mut from_now = events(server.address(), &["--follow", "--after=now", "--plants"]).spawn();
    let old = first_cursor(&lines_of_page(&client, "")).to_owned();
    // The first answer fixes the cursor of this follower. Of the four answers, one is for the other follower, two for
    // this test.
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
        wait_until("the follower to say that it follows again", || {
            follower.stderr().matches("following again").count() == round + 1
        });
    }
    assert_eq!(server.terminate().code(), Some(0));
    assert!(follower.is_running());
}

#[test]
fn a_follower_resumes_after_the_last_printed_event_whatever_breaks() {
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
    let process = events(script.address, &["--follow", "--plants"]).run(CONFIGURATION);
    let expected: Vec<String> = [1, 2, 3, 8].into_iter().map(event).collect();
    assert_eq!(process.stdout().lines().collect::<Vec<_>>(), expected);
    let queries = script.targets();
    let cursors: Vec<Option<&str>> = queries
        .iter()
        .map(|query| query.split(['?', '&']).find_map(|parameter| parameter.strip_prefix("after=")))
        .collect();
    let of_one = [Some("1-ab"); 7];
    let expected =
        [&[None, None][..], &of_one, &[Some("3-ab"), Some("7-ab"), Some("8-ab")]].concat();
    assert_eq!(cursors, expected, "{queries:?}");
    assert!(queries.iter().all(|query| query.contains("plants=true")), "{queries:?}");
    // Each of the two interruptions is reported once, however often the request was repeated.
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
    assert_eq!(events(script.address, &["--follow"]).run(CONFIGURATION).stdout(), "");
    // The first request does not ask for a wait. Each later pause is random, and at least this long.
    let least = [0, 50, 100, 200, 400].map(Duration::from_millis);
    let pauses = script.pauses();
    assert_eq!(pauses.len(), least.len());
    assert!(pauses.iter().zip(least).all(|(pause, least)| *pause >= least), "{pauses:?}");
    let waits = script.targets().iter().filter(|query| query.contains("wait=50")).count();
    assert_eq!(waits, 5);
}

#[test]
fn a_follower_ends_at_once_and_quietly_when_its_reader_is_gone() {
    let server = TestServer::start();
    create(&server.client(), 1);
    create(&server.client(), 2);
    let folder = temporary_folder();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let reader = read_line_of_pipe(&pipe);
    // No further event makes the command notice the closed pipe by printing.
    let process = events(server.address(), &["--follow"]).standard_output(&pipe).run(READER_GONE);
    assert_eq!(reader.join().expect("the reader does not panic").lines().count(), 1);
    assert_eq!(process.stderr(), "");
}
