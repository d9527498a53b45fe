//! A server that is not `plantd`.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::DEADLINE;

/// A server that fails on demand. It reads the head of a request, answers, and closes the connection.
#[derive(Debug)]
pub struct FakeServer {
    /// The address at which it listens.
    pub address: SocketAddr,
}

impl FakeServer {
    /// Starts a server. `answer` gets the head of each request in lower case.
    pub fn start(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                stream.set_read_timeout(Some(DEADLINE)).expect("a time that is not zero");
                // A client may disconnect before it sends a request.
                if let Ok(head) = head(&mut stream) {
                    answer(&head, &mut stream);
                }
            }
        });
        Self { address }
    }
}

/// Reads the head of the next request, and nothing after it.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// Sends a whole answer.
pub fn answer(stream: &mut TcpStream, status: &str, content_type: &str, body: &str) {
    let answer = answer_of(status, content_type, body);
    stream.write_all(answer.as_bytes()).expect("the client reads");
}

/// A whole answer.
#[must_use]
pub fn answer_of(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A server that gives these answers in order, and then only 401, which ends every client.
#[derive(Debug)]
pub struct Script {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// When each request came, and its target.
    requests: &'static Mutex<Vec<(Instant, String)>>,
}

impl Script {
    /// Starts a server with these answers.
    pub fn start(answers: Vec<String>) -> Self {
        let requests: &Mutex<Vec<(Instant, String)>> = Box::leak(Box::default());
        let refusal = r#"{"error":2002,"message":"no"}"#;
        let end = answer_of("401 Unauthorized", "application/json", refusal);
        let FakeServer { address } = FakeServer::start(move |head, stream| {
            let mut requests = requests.lock().expect("no panic");
            let answer = answers.get(requests.len()).unwrap_or(&end);
            let target = head.split(' ').nth(1).unwrap_or_default();
            requests.push((Instant::now(), target.to_owned()));
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        Self { address, requests }
    }

    /// The time between each request and the one before it.
    pub fn pauses(&self) -> Vec<Duration> {
        let requests = self.requests.lock().expect("no panic");
        requests.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// The target of each request so far, in lower case.
    pub fn targets(&self) -> Vec<String> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|(_, target)| target.clone()).collect()
    }
}
