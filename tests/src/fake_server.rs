//! A server that is not `plantd`.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

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
        let address = listener.local_addr().expect("its address");
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

/// The head of the next request, and nothing of what follows.
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
