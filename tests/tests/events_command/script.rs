//! A server that answers as a test says.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plantd_tests::{FakeServer, answer_of};

use crate::{JSON, between};

/// A server that gives these answers, one after the other. The last one has status 401, which ends a follower.
pub(crate) struct Script {
    pub(crate) server: FakeServer,
    /// When each request came, and its first line.
    requests: &'static Mutex<Vec<(Instant, String)>>,
}

impl Script {
    /// Starts it.
    pub(crate) fn start(answers: Vec<String>) -> Self {
        let requests: &Mutex<Vec<(Instant, String)>> = Box::leak(Box::default());
        let end = answer_of("401 Unauthorized", JSON, r#"{"error":2002,"message":"no"}"#);
        let server = FakeServer::start(move |head, stream| {
            let mut requests = requests.lock().expect("no panic");
            let answer = answers.get(requests.len()).unwrap_or(&end);
            requests.push((Instant::now(), head.lines().next().unwrap_or_default().to_owned()));
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        Self { server, requests }
    }

    /// How much time was between each request and the one before it.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        let requests = self.requests.lock().expect("no panic");
        requests.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// The query of each request so far.
    pub(crate) fn queries(&self) -> Vec<String> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|(_, line)| between(line, "?", " ").to_owned()).collect()
    }
}

/// An event.
pub(crate) fn event(number: u32) -> String {
    format!("{{\"cursor\":\"{number}-ab\",\"kind\":\"created\",\"id\":{number}}}")
}

/// An answer with a page of these events, which leads on to a cursor.
pub(crate) fn page(events: &[u32], next: &str) -> String {
    let body: Vec<String> = events.iter().map(|number| event(*number)).collect();
    let link = format!("{JSON}\r\nLink: </prefix/events?after={next}&limit=1000>; rel=\"next\"");
    answer_of("200 OK", &link, &format!("[{}]", body.join(",")))
}

/// An answer of a server that is too busy, with more headers.
pub(crate) fn unavailable(more_headers: &str) -> String {
    let body = r#"{"error":5003,"message":"too busy"}"#;
    answer_of("503 Service Unavailable", &format!("{JSON}{more_headers}"), body)
}
