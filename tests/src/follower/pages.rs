//! Following by pages that wait for the next event.

use std::net::SocketAddr;
use std::sync::Mutex;

use super::control::{Away, FollowerControl, locked};
use super::copy::PlantCopy;
use crate::client::Client;

/// Pages so short that some end within a group of events.
const PAGE: &str = "limit=7&wait=1&plants=true";

/// Reads one page, which waits for the next event.
pub(super) fn follow_pages(
    control: &FollowerControl,
    _: SocketAddr,
    client: &Client,
    copy: &Mutex<PlantCopy>,
) -> Result<(), Away> {
    let cursor = locked(copy).cursor().expect("the follower has exported").to_owned();
    let path = format!("/events?after={cursor}&{PAGE}");
    let answer = client.try_send("GET", &path, &[], "").map_err(|_| Away)?;
    if answer.status != 200 {
        return control.take_refusal(&answer, copy);
    }
    let mut copy = locked(copy);
    answer.events().iter().for_each(|event| copy.apply(event));
    copy.note(&answer.next_cursor());
    Ok(())
}
