//! Following by Server-Sent Events (HTML Standard, section 9.2).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::control::{Away, FollowerControl, locked};
use super::copy::PlantCopy;
use crate::DEADLINE;
use crate::client::Client;
use crate::connection::Connection;
use crate::event_stream::{EventStream, stream_request};

/// How often a silent stream checks whether the test has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Reads a stream to its end.
pub(super) fn follow_stream(
    control: &FollowerControl,
    address: SocketAddr,
    _: &Client,
    copy: &Mutex<PlantCopy>,
) -> Result<(), Away> {
    let away = |_| Away;
    let cursor = locked(copy).cursor().expect("the follower has exported").to_owned();
    let connection = Connection::try_open(address).map_err(away)?;
    let request = stream_request("plants=true", &format!("Last-Event-ID: {cursor}\r\n"));
    let mut stream = match EventStream::try_open(connection, &request).map_err(away)? {
        Ok(stream) => stream,
        Err(refusal) => return control.take_refusal(&refusal, copy),
    };
    stream.set_timeouts(LOOK).map_err(away)?;
    let mut heard = Instant::now();
    while control.goes_on_at(address) {
        match stream.try_next_block() {
            Ok(Some(block)) => {
                let mut copy = locked(copy);
                match block.event {
                    Some(event) => copy.apply(&event),
                    None => copy.note(&block.bookmark()),
                }
                heard = Instant::now();
            }
            Err(cause) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&cause.kind()) => {
                assert!(heard.elapsed() < DEADLINE, "neither an event nor a bookmark");
            }
            Ok(None) | Err(_) => return Err(Away),
        }
    }
    Ok(())
}
