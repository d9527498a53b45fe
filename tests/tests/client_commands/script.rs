//! Answers of a scripted server.

use plantd_tests::answer_of;

use crate::JSON;

pub(crate) fn event(number: u32) -> String {
    format!("{{\"cursor\":\"{number}-ab\",\"kind\":\"created\",\"id\":{number}}}")
}

/// An answer with a page of these events, whose link has the cursor `next`.
pub(crate) fn page(events: &[u32], next: &str) -> String {
    let body: Vec<String> = events.iter().map(|number| event(*number)).collect();
    let link = format!("{JSON}\r\nLink: </prefix/events?after={next}&limit=1000>; rel=\"next\"");
    answer_of("200 OK", &link, &format!("[{}]", body.join(",")))
}

/// The answer of a server that is too busy, with more headers.
pub(crate) fn unavailable(more_headers: &str) -> String {
    let body = r#"{"error":5003,"message":"too busy"}"#;
    answer_of("503 Service Unavailable", &format!("{JSON}{more_headers}"), body)
}
