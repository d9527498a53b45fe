//! How many requests a token may make.

use plantd_tests::{
    Answer, Launch, TOKEN, TestServer, plant_body, raw_head, wait_until, write_tokens_file,
};

fn server(rate: &str) -> TestServer {
    let launch = Launch::new().arguments(["--rate-limit", rate]);
    TestServer::start_prepared(launch, "data", write_tokens_file)
}

/// Sends requests until one exceeds the rate, and returns that answer.
#[track_caller]
fn exhaust(server: &TestServer, token: &str) -> Answer {
    let client = server.client().with_token(token);
    for _ in 0..1000 {
        let answer = client.read(1);
        if answer.status != 404 {
            return answer;
        }
    }
    panic!("no request was refused");
}

#[test]
fn a_token_over_its_rate_is_2004_until_it_has_waited() {
    let server = server("1");
    let answer = exhaust(&server, TOKEN);
    let message = answer.assert_error(429, 2004);
    assert!(message.contains("Retry-After"), "{message}");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    assert_eq!(answer.header("www-authenticate"), None, "the token is a good one: {answer:?}");
    wait_until("the token to be taken again", || server.client().read(1).status == 404);
}

#[test]
fn each_token_has_a_rate_of_its_own_and_open_paths_have_none() {
    let server = server("1");
    exhaust(&server, TOKEN).assert_error(429, 2004);
    let reader = server.client().with_token("reader");
    reader.read(1).assert_error(404, 3002);
    for _ in 0..20 {
        assert_eq!(server.client().get("/livez").status, 200);
        assert_eq!(server.client().with_token("unknown").read(1).status, 401);
    }
}

#[test]
fn a_request_with_expect_100_continue_counts_once() {
    let server = server("1");
    let body = plant_body(1, "Rosa", None);
    let lines = format!(
        "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n",
        body.len()
    );
    let mut connection = server.connect();
    connection.send(raw_head("POST /plants", &lines));
    assert_eq!(connection.receive().status, 100);
    connection.send(&body);
    connection.receive().assert_plant("Rosa", None);
}

#[test]
fn a_request_that_the_scope_forbids_counts_too() {
    let server = server("1");
    let reader = server.client().with_token("reader");
    let mut answers = (0..1000).map(|_| reader.create(1, "Rosa", None));
    let refused = answers.find(|answer| answer.status != 403).expect("one is too many");
    refused.assert_error(429, 2004);
}
