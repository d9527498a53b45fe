//! Clients that follow the events and apply them to copies of all plants, while a test disturbs the servers.
//!
//! An export plus the later events, applied in order, is the store. A follower asserts that no event is missing. When
//! nothing writes any more, a test asserts that the copies equal the store.

mod control;
mod copy;
mod pages;
mod stream;

use std::fmt;
use std::iter::Sum;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::control::{Away, FollowerControl, locked};
use self::copy::{Difference, PlantCopy};
pub use self::copy::{FollowedEvent, revision_of};
use self::pages::follow_pages;
use self::stream::follow_stream;
use crate::client::Client;
use crate::event::newest_cursor;
use crate::ledger::{Plants, plants_in};
use crate::plant::Format;
use crate::server::TestServer;
use crate::{DEADLINE, TOKEN};

/// The pause of a follower that gets no answer.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a follower may get no event after the last write: PostgreSQL may keep events in doubt that long.
const REST_PATIENCE: Duration = Duration::from_secs(60);

/// Two followers, each on its own thread: one long-polls for pages, the other reads Server-Sent Events. Both retry
/// while no server answers. Dropping this ends them.
#[derive(Debug)]
#[must_use = "the followers end when this is dropped"]
pub struct Followers {
    control: Arc<FollowerControl>,
    following: Vec<Following>,
}

#[derive(Debug)]
struct Following {
    copy: Arc<Mutex<PlantCopy>>,
    thread: Option<JoinHandle<()>>,
}

/// Reads the events after the cursor of the copy. Fails when the follower must try another server.
type ReadEvents = fn(&FollowerControl, SocketAddr, &Client, &Mutex<PlantCopy>) -> Result<(), Away>;

/// What followers have seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Followed {
    /// How many events they have applied.
    pub events: usize,
    /// How often they had to export all plants again because events were gone.
    pub exports: usize,
}

impl fmt::Display for Followed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "0 of {} events missed, out of order or seen twice", self.events)
    }
}

impl Sum for Followed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, more| Self {
            events: sum.events + more.events,
            exports: sum.exports + more.exports,
        })
    }
}

impl Followers {
    /// Exports the plants of a server, and follows it.
    pub fn of(server: &TestServer) -> Self {
        Self::start(vec![server.address()], server.store_is_on_disk())
    }

    /// Follows servers that share a PostgreSQL database. A follower switches to another server after each failure.
    pub fn of_replicas(addresses: Vec<SocketAddr>) -> Self {
        Self::start(addresses, false)
    }

    fn start(addresses: Vec<SocketAddr>, is_on_disk: bool) -> Self {
        let control = Arc::new(FollowerControl::new(addresses));
        let ways: [ReadEvents; 2] = [follow_pages, follow_stream];
        let following = ways.into_iter().map(|read_events| {
            let copy = Arc::new(Mutex::new(PlantCopy::new(is_on_disk)));
            let (control, its_copy) = (Arc::clone(&control), Arc::clone(&copy));
            let thread = Some(thread::spawn(move || follow(&control, read_events, &its_copy)));
            Following { copy, thread }
        });
        let mut followers = Self { control: Arc::clone(&control), following: following.collect() };
        // A disturbance before the first export would prove nothing.
        followers
            .following
            .iter_mut()
            .for_each(|it| it.wait_until("exports", PlantCopy::has_plants));
        followers
    }

    /// Sets the addresses of the servers: none while they are away.
    pub fn set_servers(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        *locked(&self.control.addresses) = addresses.into_iter().collect();
    }

    /// Sets whether servers may forget events that the followers have not read. By default, that fails the test.
    pub fn allow_forgetting(&self, may_forget: bool) {
        self.control.may_forget.store(may_forget, Ordering::Relaxed);
    }

    /// Waits until the followers have read all events, and asserts that their copies equal `plants`, those of a
    /// server to which nothing writes. `when` goes into the messages.
    #[track_caller]
    pub fn assert_have(&mut self, client: &Client, plants: &Plants, when: &str) {
        let newest = revision_of(&newest_cursor(client));
        self.following.iter_mut().for_each(|it| it.assert_has(newest, plants, when));
    }

    /// Waits until the followers have read this event, and all before it.
    #[track_caller]
    pub fn wait_for(&mut self, revision: u64) {
        let has_come = |copy: &PlantCopy| copy.revision() >= revision;
        self.following.iter_mut().for_each(|it| it.wait_until("comes to an event", has_come));
    }

    /// All events that each follower has seen.
    pub fn events(&self) -> Vec<Vec<FollowedEvent>> {
        self.following.iter().map(|it| locked(&it.copy).events().to_vec()).collect()
    }

    /// The cursor of each follower.
    pub fn cursors(&self) -> Vec<String> {
        let copies = self.following.iter().map(|it| locked(&it.copy).cursor().map(str::to_owned));
        copies.map(|cursor| cursor.expect("the follower has exported")).collect()
    }

    /// Ends the followers, and returns what they have seen.
    #[track_caller]
    pub fn end(mut self) -> Followed {
        self.control.is_over.store(true, Ordering::Relaxed);
        let ended = self.following.iter_mut().map(Following::end);
        ended.sum()
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        // An assertion has failed: the threads must not run forever.
        self.control.is_over.store(true, Ordering::Relaxed);
    }
}

impl Following {
    #[track_caller]
    fn wait_until(&mut self, what: &str, is_so: impl Fn(&PlantCopy) -> bool) {
        self.wait(DEADLINE, |copy| {
            if is_so(copy) { Ok(()) } else { Err(copy.lacks(&format!("no follower {what}"))) }
        });
    }

    #[track_caller]
    fn assert_has(&mut self, newest: u64, plants: &Plants, when: &str) {
        self.wait(REST_PATIENCE, |copy| copy.difference_at(newest, plants, when));
    }

    /// Waits until `look` finds no difference. Panics if a difference is final, or if the copy makes no progress for
    /// `patience`; a follower may be slow.
    #[track_caller]
    fn wait(&mut self, patience: Duration, look: impl Fn(&PlantCopy) -> Result<(), Difference>) {
        let (mut progress, mut since) = (None, Instant::now());
        loop {
            self.fail_with_it();
            let (now, found) = {
                let copy = locked(&self.copy);
                (Some(copy.progress()), look(&copy))
            };
            let Err(difference) = found else { return };
            if now != progress {
                (progress, since) = (now, Instant::now());
            }
            assert!(!difference.is_final, "{difference}");
            assert!(since.elapsed() < patience, "no progress for {patience:?}: {difference}");
            thread::sleep(PAUSE);
        }
    }

    /// Passes on the panic of the follower, if it has panicked.
    fn fail_with_it(&mut self) {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            self.join();
        }
    }

    fn join(&mut self) {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
    }

    fn end(&mut self) -> Followed {
        self.join();
        let copy = locked(&self.copy);
        Followed { events: copy.events().len(), exports: copy.exports() }
    }
}

/// Follows until the end of the test, trying one server after the other.
fn follow(control: &FollowerControl, read_events: ReadEvents, copy: &Mutex<PlantCopy>) {
    let mut turn = 0;
    while !control.is_over() {
        let addresses = locked(&control.addresses).clone();
        let Some(address) = addresses.get(turn % addresses.len().max(1)) else {
            thread::sleep(PAUSE);
            continue;
        };
        let client = Client::new(*address, Some(TOKEN));
        while control.goes_on_at(*address) {
            let has_plants = locked(copy).has_plants();
            let read = if has_plants {
                read_events(control, *address, &client, copy)
            } else {
                export(&client, copy)
            };
            if read.is_err() {
                thread::sleep(PAUSE);
                break;
            }
        }
        turn += 1;
    }
}

fn export(client: &Client, copy: &Mutex<PlantCopy>) -> Result<(), Away> {
    let accept = [("accept", Format::Ndjson.media_type())];
    let answer = client.try_send("GET", "/plants/export", &accept, "").map_err(|_| Away)?;
    if answer.status == 503 {
        return Err(Away);
    }
    assert_eq!(answer.status, 200, "{answer:?}");
    locked(copy).begin(plants_in(&answer.body), &answer.events_after());
    Ok(())
}
