//! Kills of servers with webhooks, whose receivers fail all the time.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use plantd_tests::torture::{Report, chance, times};
use plantd_tests::{
    Client, DEADLINE, Delivery, Event, EventKind, Format, Launch, NewPlant, Plants, all_events,
    newest_cursor, plants_in, revision_of, wait_until,
};
use test_postgres::{fresh_schema_name, shared};

use crate::Ordeal;

const CLIENTS: i64 = 12;

const MOST_ROWS: usize = 64;

const MAX_LOAD_MS: u64 = 400;

/// One in so many deliveries fails, and one in so many connections ends the receiver.
const FAILURES: u8 = 12;
const RESTARTS: u8 = 8;

/// For a failure after which the sender need not wait.
const REFUSED: &str = "503 Service Unavailable\r\nRetry-After: 0";

/// How a receiver fails.
#[derive(Clone, Copy)]
enum Failure {
    /// Answers a status that is not 2xx.
    Refuse,
    /// Closes the connection without an answer.
    Close,
    /// Answers nothing until the sender gives up.
    Stall,
}

/// What a receiver has stored. A failure of the receiver does not undo it.
#[derive(Debug, Default)]
struct Copy {
    /// The events of each delivery, by its id, without the plants.
    taken: HashMap<String, Vec<Event>>,
    /// All events since the last loss.
    events: Vec<Event>,
    plants: Plants,
    /// The newest revision.
    revision: u64,
    repeats: u64,
    losses: u64,
}

/// A receiver of one webhook. Its threads end with the process.
#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    secret: Arc<Mutex<String>>,
    copy: Arc<Mutex<Copy>>,
    /// Where it loads the plants from when events are lost; nothing may be lost without it.
    store: Arc<Mutex<Option<Client>>>,
    /// Whether it fails.
    fails: Arc<AtomicBool>,
    failures: Arc<AtomicU64>,
}

impl Receiver {
    /// Starts a receiver, and creates its webhook in this file.
    pub(crate) fn start(name: &str, file: &Path, fails: bool, chance: &mut Rng) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let receiver = Self {
            address: listener.local_addr().expect("a listener has an address"),
            secret: Arc::default(),
            copy: Arc::default(),
            store: Arc::default(),
            fails: Arc::new(AtomicBool::new(fails)),
            failures: Arc::default(),
        };
        let url = format!("http://{}", receiver.address);
        let create = ["webhook", "create", "--plants", "--name", name, "--url", &url, "--webhooks"];
        let mut create = Launch::new().arguments(create).arguments([file]).spawn();
        create.assert_exit_code(0);
        *receiver.secret.lock().expect("no panic") = create.stdout().trim_end().to_owned();
        let (accepting, chance) = (receiver.clone(), chance.fork());
        thread::spawn(move || accepting.accept(listener, chance));
        receiver
    }

    fn accept(&self, mut listener: TcpListener, mut chance: Rng) {
        loop {
            let (stream, _) = listener.accept().expect("a connection");
            if self.fails(&mut chance, RESTARTS) {
                drop((stream, listener));
                thread::sleep(Duration::from_millis(chance.u64(..500)));
                listener = TcpListener::bind(self.address).expect("its own port");
                continue;
            }
            let (receiver, chance) = (self.clone(), chance.fork());
            thread::spawn(move || receiver.receive(stream, chance));
        }
    }

    fn fails(&self, chance: &mut Rng, one_in: u8) -> bool {
        let fails = self.fails.load(Ordering::Relaxed) && chance.u8(..one_in) == 0;
        self.failures.fetch_add(fails.into(), Ordering::Relaxed);
        fails
    }

    /// Takes deliveries until the connection ends. What is wrong with them shows at the end, because the delivery is not
    /// taken.
    fn receive(&self, stream: TcpStream, mut chance: Rng) -> io::Result<()> {
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut stream = BufReader::new(stream);
        while let Some(delivery) = Delivery::read(&mut stream)? {
            let failure = self.fails(&mut chance, FAILURES).then(|| {
                let failures = [Failure::Refuse, Failure::Close, Failure::Stall];
                chance.choice(failures).expect("one of them")
            });
            // Before or after the delivery is stored.
            if failure.is_none() || chance.bool() {
                self.take(&delivery);
            }
            let status = match failure {
                None => "204 No Content",
                Some(Failure::Refuse) => REFUSED,
                Some(Failure::Close) => return Ok(()),
                Some(Failure::Stall) => return stream.fill_buf().map(drop),
            };
            let length = if failure.is_some() { "Content-Length: 0\r\n" } else { "" };
            write!(stream.get_mut(), "HTTP/1.1 {status}\r\n{length}\r\n")?;
        }
        Ok(())
    }

    fn take(&self, delivery: &Delivery) {
        let signatures = delivery.signatures();
        let secret = self.secret.lock().expect("no panic");
        assert!(signatures.iter().any(|it| delivery.is_signed(it, &secret)), "{delivery:?}");
        self.copy().take(delivery, || {
            let store = self.store.lock().expect("no panic");
            let store = store.as_ref().unwrap_or_else(|| panic!("a loss: {delivery:?}"));
            plants_in(&store.export(Format::Ndjson))
        });
    }

    /// Loads the plants from here if events are lost.
    pub(crate) fn load_from(&self, store: Client) {
        *self.store.lock().expect("no panic") = Some(store);
    }

    /// Waits until everything up to the newest change has arrived, and compares the plants. Returns how often events were
    /// lost.
    #[track_caller]
    pub(crate) fn losses_of_exact_copy(&self, client: &Client) -> u64 {
        let newest = revision_of(&newest_cursor(client));
        wait_until("a receiver to get the newest change", || self.copy().revision == newest);
        let copy = self.copy();
        assert_eq!(copy.plants, plants_in(&client.export(Format::Ndjson)));
        copy.losses
    }

    fn copy(&self) -> MutexGuard<'_, Copy> {
        self.copy.lock().expect("every delivery was right")
    }

    /// Compares the copy with the store, and the events with the log.
    #[track_caller]
    fn assert_is_exact(&self, client: &Client, log: &[Event]) {
        assert_eq!(self.losses_of_exact_copy(client), 0);
        assert!(self.copy().events == log, "the events that arrived are not those of the log");
    }
}

impl Copy {
    /// Stores the id of a delivery with its effect. `load` reads all plants.
    fn take(&mut self, delivery: &Delivery, load: impl FnOnce() -> Plants) {
        let Some(events) = delivery.events() else {
            let (_, data) = delivery.content();
            if self.taken.insert(delivery.id().to_owned(), Vec::new()).is_none() {
                (self.plants, self.losses) = (load(), self.losses + 1);
                self.events.clear();
                self.revision = revision_of(data["to"].as_str().expect("a cursor"));
            }
            return;
        };
        let without_plants = |event: &Event| Event { plant: None, ..event.clone() };
        let told: Vec<Event> = events.iter().map(without_plants).collect();
        if let Some(taken) = self.taken.get(delivery.id()) {
            assert_eq!(*taken, told, "a repeat has other events");
            self.repeats += 1;
            return;
        }
        for event in events {
            let last = mem::replace(&mut self.revision, revision_of(&event.cursor));
            assert!(last < self.revision, "{event:?} came after revision {last}");
            match (&event.kind, &event.plant) {
                (EventKind::Deleted, _) => drop(self.plants.remove(&event.id)),
                (_, Some((name, tag))) => {
                    let plant = NewPlant::new(event.id, name, tag.as_deref());
                    self.plants.insert(event.id, plant);
                }
                // A later event has the plant.
                (_, None) => {}
            }
            self.events.push(without_plants(&event));
        }
        self.taken.insert(delivery.id().to_owned(), told);
    }
}

/// Kills a server again and again, while its receivers fail. `settle` waits until a killed server changes nothing more.
fn kill_with_webhooks(launch: Launch, store: &str, settle: impl Fn()) -> Report {
    let (mut chance, wanted, receivers) = (chance(), times(3, 500), times(6, 16));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("webhooks.json");
    let start = |number| Receiver::start(&format!("r{number}"), &file, true, &mut chance);
    let receivers: Vec<Receiver> = (0..receivers).map(start).collect();
    let launch = launch.environment("PLANTD_WEBHOOKS", &file);
    let mut ordeal = Ordeal::begin(launch.clone(), CLIENTS, MOST_ROWS, chance);
    // A webhook that begins after the first change would begin with a loss.
    let client = ordeal.server.client();
    wait_until("all webhooks to have begun", || {
        let webhooks = client.get("/webhooks").json()["webhooks"].take();
        webhooks.as_array().expect("a list").iter().all(|webhook| webhook["lag_seconds"] == 0)
    });
    let repeats = || receivers.iter().map(|it| it.copy().repeats).sum::<u64>();
    let failures = || receivers.iter().map(|it| it.failures.load(Ordering::Relaxed)).sum::<u64>();
    let (mut kills, mut proves_nothing) = (0, true);
    while kills < wanted || (proves_nothing && kills < 10 * wanted) {
        ordeal.load_and_kill(MAX_LOAD_MS);
        settle();
        ordeal.restart(launch.clone());
        kills += 1;
        proves_nothing = repeats() == 0 || failures() == 0;
    }
    for receiver in &receivers {
        receiver.fails.store(false, Ordering::Relaxed);
    }
    let client = ordeal.server.client();
    let log = all_events(&client, "limit=1000");
    for receiver in &receivers {
        receiver.assert_is_exact(&client, &log);
    }
    let (repeats, failures) = (repeats(), failures());
    assert!(repeats > 0 && failures > 0, "{repeats} repeats, {failures} failures");
    let (totals, count) = (ordeal.end(), receivers.len());
    Report {
        test: "webhooks",
        promise: "Receivers of webhooks get every change, once and in order, whatever is killed",
        disturbances: format!(
            "{kills} kills of a server on {store}, and {failures} restarts, stalls and errors of its {count} receivers"
        ),
        losses: format!("0 of {} events at each receiver; {}", log.len(), totals.losses()),
        details: format!("{repeats} repeats, all with the same events"),
    }
}

#[test]
fn receivers_get_every_change_of_a_store_on_disk_across_kills() {
    kill_with_webhooks(Launch::new(), "disk", || {}).print();
}

#[test]
fn receivers_get_every_change_of_a_store_in_postgresql_across_kills() {
    let schema = fresh_schema_name();
    let url = format!("{}?application_name={schema}", shared().url());
    let launch = Launch::new().postgres(&url, &schema);
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{schema}'");
    let settle = || {
        wait_until("the sessions of a killed server to end", || shared().query(&left) == "0");
    };
    kill_with_webhooks(launch, "PostgreSQL", settle).print();
}
