//! Following by Server-Sent Events (HTML Standard, section 9.2).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::copy::PlantCopy;
use super::situation::{Away, Situation, locked};
use crate::DEADLINE;
use crate::client::Client;
use crate::connection::Connection;
use crate::event_stream::{Block, stream_request};

/// How often a stream without events looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Reads a stream to its end.
pub(super) fn follow_stream(
    situation: &Situation,
    address: SocketAddr,
    _: &Client,
    copy: &Mutex<PlantCopy>,
) -> Result<(), Away> {
    let away = |_| Away;
    let cursor = locked(copy).cursor().expect("it has exported").to_owned();
    let mut connection = Connection::try_open(address).map_err(away)?;
    let lines = format!("Last-Event-ID: {cursor}\r\n");
    connection.try_send(stream_request("plants=true", &lines)).map_err(away)?;
    let mut answer = connection.try_receive_head().map_err(away)?;
    if answer.status != 200 {
        answer.body = connection.try_receive_body(&answer).map_err(away)?;
    }
    if !situation.has_events(&answer, copy)? {
        return Ok(());
    }
    connection.set_timeouts(LOOK).map_err(away)?;
    let (mut text, mut heard) = (Vec::new(), Instant::now());
    while situation.goes_on_at(address) {
        match connection.try_receive_chunk() {
            Ok(None) => return Err(Away),
            Ok(Some(chunk)) => {
                text.extend(chunk);
                apply_complete(&mut text, copy);
                heard = Instant::now();
            }
            Err(cause) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&cause.kind()) => {
                assert!(heard.elapsed() < DEADLINE, "neither an event nor a bookmark");
            }
            Err(_) => return Err(Away),
        }
    }
    Ok(())
}

/// Applies the events that an empty line ends, and leaves the rest.
fn apply_complete(text: &mut Vec<u8>, copy: &Mutex<PlantCopy>) {
    while let Some(end) = text.windows(2).position(|bytes| bytes == b"\n\n") {
        let event: Vec<u8> = text.drain(..end + 2).collect();
        let text = String::from_utf8(event).expect("a stream is UTF-8");
        let block = Block::parse(text.trim_end());
        let mut copy = locked(copy);
        match block.event {
            Some(event) => copy.apply(&event),
            None => copy.note(&block.bookmark()),
        }
    }
}
