//! A stream of Server-Sent Events (HTML Standard, section 9.2), read as it arrives.

use std::io;
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::connection::{Connection, raw_head};
use crate::event::Event;
use crate::{DEADLINE, TOKEN};

/// The lines of a stream up to an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// How long a client waits before it connects again, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The cursor that the client sends when it connects again.
    pub id: Option<String>,
    /// The event; `None` in a bookmark.
    pub event: Option<Event>,
}

impl Block {
    /// Panics at an unknown line and at a repeated one.
    #[track_caller]
    fn parse(text: &str) -> Self {
        let mut block = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("line {line:?}"));
            let is_second = match name {
                "retry" => block.retry_ms.replace(value.parse().expect("a time")).is_some(),
                "id" => block.id.replace(value.to_owned()).is_some(),
                "data" => {
                    let value = serde_json::from_str(value).expect("an event is JSON");
                    block.event.replace(Event::from_json(&value)).is_some()
                }
                _ => panic!("line {line:?} in {text:?}"),
            };
            assert!(!is_second, "{name} comes twice in {text:?}");
        }
        if let Some(event) = &block.event {
            assert_eq!(block.id.as_ref(), Some(&event.cursor), "another id in {text:?}");
        }
        block
    }

    /// Asserts that this is a bookmark, and returns its cursor.
    #[track_caller]
    pub fn bookmark(self) -> String {
        assert_eq!(self.event, None, "an event and no bookmark");
        self.id.expect("a bookmark has an id")
    }
}

/// A request for a stream with [`TOKEN`]. The query may be empty. `lines` are more header lines, each with its line end.
pub fn stream_request(query: &str, lines: &str) -> String {
    let mark = if query.is_empty() { "" } else { "?" };
    let lines = format!("Accept: text/event-stream\r\n{lines}");
    raw_head(&format!("GET /events{mark}{query}"), &lines)
}

/// A stream whose head has arrived.
#[derive(Debug)]
pub struct EventStream {
    connection: Connection,
    head: Answer,
    /// Bytes that are not part of a block yet.
    received: Vec<u8>,
}

impl EventStream {
    /// Opens a stream. The query may be empty.
    #[track_caller]
    pub fn open(connection: Connection, query: &str) -> Self {
        Self::request(connection, &stream_request(query, ""))
    }

    /// Opens a stream with another token.
    #[track_caller]
    pub fn open_with_token(connection: Connection, query: &str, token: &str) -> Self {
        Self::request(connection, &stream_request(query, "").replace(TOKEN, token))
    }

    /// Opens a stream that continues after a cursor, as a client does that reconnects.
    #[track_caller]
    pub fn resume(connection: Connection, query: &str, last: &str) -> Self {
        Self::request(connection, &stream_request(query, &format!("Last-Event-ID: {last}\r\n")))
    }

    /// Opens a stream by this request.
    #[track_caller]
    pub fn request(connection: Connection, request: &str) -> Self {
        Self::try_request(connection, request).unwrap_or_else(|answer| panic!("{answer:?}"))
    }

    /// Like [`Self::request`], but the answer need not be a stream.
    #[track_caller]
    pub fn try_request(connection: Connection, request: &str) -> Result<Self, Answer> {
        let opened = Self::try_open(connection, request);
        opened.unwrap_or_else(|cause| panic!("no answer: {cause}"))
    }

    /// Like [`Self::try_request`], but the server may have stopped.
    #[track_caller]
    pub(crate) fn try_open(
        mut connection: Connection,
        request: &str,
    ) -> io::Result<Result<Self, Answer>> {
        connection.try_send(request)?;
        let mut head = connection.try_receive_head()?;
        if head.status != 200 {
            head.body = connection.try_receive_body(&head)?;
            return Ok(Err(head));
        }
        assert_eq!(head.header("content-type"), Some("text/event-stream"), "{head:?}");
        Ok(Ok(Self { connection, head, received: Vec::new() }))
    }

    /// Sets how long [`Self::try_next_block`] waits for bytes. After a timeout it can be called again.
    pub(crate) fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.connection.set_timeouts(time)
    }

    /// The head of the answer.
    pub fn head(&self) -> &Answer {
        &self.head
    }

    /// The next block; `None` at the end of the body.
    #[track_caller]
    pub fn next_block(&mut self) -> Option<Block> {
        self.try_next_block().unwrap_or_else(|cause| panic!("the stream is broken off: {cause}"))
    }

    /// Like [`Self::next_block`], but the body may break off.
    #[track_caller]
    pub fn try_next_block(&mut self) -> io::Result<Option<Block>> {
        loop {
            if let Some(at) = self.received.windows(2).position(|bytes| bytes == b"\n\n") {
                let block: Vec<u8> = self.received.drain(..at + 2).collect();
                let text = str::from_utf8(&block).expect("a stream is UTF-8");
                return Ok(Some(Block::parse(text.trim_end_matches('\n'))));
            }
            let part = if self.head.header("transfer-encoding") == Some("chunked") {
                self.connection.try_receive_chunk()?
            } else {
                self.connection.try_receive_bytes()?
            };
            let Some(part) = part else {
                let rest = String::from_utf8_lossy(&self.received);
                assert!(rest.is_empty(), "the body ends within a block: {rest:?}");
                return Ok(None);
            };
            self.received.extend(part);
        }
    }

    /// The next event, after any bookmarks.
    #[track_caller]
    pub fn next_event(&mut self) -> Event {
        let begun = Instant::now();
        loop {
            // Each bookmark restarts the timeout of the socket.
            assert!(begun.elapsed() < DEADLINE, "waited in vain for an event");
            let block = self.next_block().expect("the stream has ended");
            if let Some(event) = block.event {
                return event;
            }
        }
    }

    /// The next events.
    #[track_caller]
    pub fn next_events(&mut self, count: usize) -> Vec<Event> {
        (0..count).map(|_| self.next_event()).collect()
    }

    /// Asserts that the body ends with a bookmark, and returns its cursor.
    #[track_caller]
    pub fn assert_ends_with_bookmark(&mut self) -> String {
        let last = self.next_block().expect("a bookmark at the end").bookmark();
        assert_eq!(self.next_block(), None, "more than a bookmark at the end");
        last
    }

    /// The connection, for what comes after the body.
    pub fn into_connection(self) -> Connection {
        self.connection
    }
}
