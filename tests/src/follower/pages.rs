//! Following by pages that wait for the next event.

use std::net::SocketAddr;
use std::sync::Mutex;

use super::copy::PlantCopy;
use super::situation::{Away, Situation, locked};
use crate::client::Client;

/// A page that is so short that pages end between the events of one group.
const PAGE: &str = "limit=7&wait=1&plants=true";

/// Reads one page, which waits for the next event.
pub(super) fn follow_pages(
    situation: &Situation,
    _: SocketAddr,
    client: &Client,
    copy: &Mutex<PlantCopy>,
) -> Result<(), Away> {
    let cursor = locked(copy).cursor().expect("it has exported").to_owned();
    let path = format!("/events?after={cursor}&{PAGE}");
    let answer = client.try_send("GET", &path, &[], "").map_err(|_| Away)?;
    if situation.has_events(&answer, copy)? {
        let link = answer.header("link").unwrap_or_default();
        let next = link.strip_prefix("</events?after=").and_then(|rest| rest.split_once('&'));
        let (next, _) = next.unwrap_or_else(|| panic!("no link to the next page: {answer:?}"));
        let mut copy = locked(copy);
        answer.events().iter().for_each(|event| copy.apply(event));
        copy.note(next);
    }
    Ok(())
}
