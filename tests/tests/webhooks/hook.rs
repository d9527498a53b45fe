//! A webhook, and a receiver that records what arrives and answers as a test says.

use std::collections::HashSet;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use jiff::Timestamp;
use plantd_tests::{
    Client, DEADLINE, Delivery, Event, Launch, TestServer, all_events, newest_cursor, wait_for,
};
use serde_json::{Value, json};

/// The part of each URL that may be a secret.
pub(crate) const PATH: &str = "the-path-is-secret";

/// What a receiver does with a delivery. Its connection is kept if this succeeds.
pub(crate) type Reply = Arc<dyn Fn(&mut TcpStream) -> io::Result<()> + Send + Sync>;

pub(crate) fn text(text: impl Into<String>) -> Reply {
    let text = text.into();
    Arc::new(move |stream| stream.write_all(text.as_bytes()))
}

/// This status and these header lines, without a body.
pub(crate) fn answer(lines: &str) -> Reply {
    text(format!("HTTP/1.1 {lines}\r\nContent-Length: 0\r\n\r\n"))
}

/// Nothing, until the sender gives up.
pub(crate) fn hang() -> Reply {
    Arc::new(|stream| stream.read(&mut [0]).map(drop))
}

pub(crate) fn close() -> Reply {
    Arc::new(|_| Err(io::ErrorKind::ConnectionAborted.into()))
}

/// The data of a delivery of this type.
#[track_caller]
pub(crate) fn data(delivery: &Delivery, r#type: &str) -> Value {
    let (of_type, data) = delivery.content();
    assert_eq!(of_type, r#type, "{delivery:?}");
    data
}

/// The events of these deliveries. A repeat must follow what it repeats, and have the same body.
#[track_caller]
pub(crate) fn events_of(mut deliveries: Vec<Delivery>) -> Vec<Event> {
    deliveries.dedup_by(|later, earlier| {
        let is_repeat = later.id() == earlier.id();
        assert!(!is_repeat || later.body == earlier.body, "{earlier:?} {later:?}");
        is_repeat
    });
    let ids: HashSet<&str> = deliveries.iter().map(Delivery::id).collect();
    assert_eq!(ids.len(), deliveries.len(), "a delivery came again after others");
    let events = |it: &Delivery| it.events().unwrap_or_else(|| panic!("no changes: {it:?}"));
    deliveries.iter().flat_map(events).collect()
}

struct Record {
    reply: Reply,
    deliveries: Vec<(Timestamp, Delivery)>,
    in_flight: usize,
    most_in_flight: usize,
}

/// Receives deliveries until the connection ends.
fn receive(record: &Mutex<Record>, stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut stream = BufReader::new(stream);
    while let Some(delivery) = Delivery::read(&mut stream)? {
        let reply = {
            let mut record = record.lock().expect("no panic");
            record.deliveries.push((Timestamp::now(), delivery));
            record.in_flight += 1;
            record.most_in_flight = record.most_in_flight.max(record.in_flight);
            Arc::clone(&record.reply)
        };
        let outcome = reply(stream.get_mut());
        record.lock().expect("no panic").in_flight -= 1;
        outcome?;
    }
    Ok(())
}

/// `plantd webhook` with these arguments.
pub(crate) fn webhook(data: &Path, arguments: &[&str]) -> Launch {
    Launch::new().data(data).arguments(["webhook"].iter().chain(arguments).copied())
}

/// What a server says about a webhook.
#[track_caller]
pub(crate) fn status(client: &Client, name: &str) -> Option<Value> {
    let webhooks = client.get("/webhooks").json()["webhooks"].take();
    webhooks.as_array().expect("webhooks").iter().find(|it| it["name"] == name).cloned()
}

#[track_caller]
pub(crate) fn wait_for_state(client: &Client, name: &str, state: &str) {
    wait_for(state, || status(client, name).filter(|status| status["state"] == state));
}

/// A webhook, and its receiver, whose threads end with the process.
pub(crate) struct Hook {
    pub(crate) name: &'static str,
    pub(crate) secret: String,
    pub(crate) address: SocketAddr,
    /// The query for the events that it sends.
    pub(crate) query: String,
    record: Arc<Mutex<Record>>,
}

impl Hook {
    /// Creates a webhook, and does not wait for the server.
    #[track_caller]
    pub(crate) fn create(data: &Path, name: &'static str, options: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (reply, deliveries) = (answer("204 No Content"), Vec::new());
        let record = Record { reply, deliveries, in_flight: 0, most_in_flight: 0 };
        let record = Arc::new(Mutex::new(record));
        let of_threads = Arc::clone(&record);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let record = Arc::clone(&of_threads);
                thread::spawn(move || receive(&record, stream.expect("a connection")));
            }
        });
        let url = format!("http://{address}/{PATH}");
        let create = ["create", "--name", name, "--url", &url];
        let secret = webhook(data, &[&create, options].concat()).run(0).stdout();
        let query = if options.contains(&"--plants") { "plants=true" } else { "" }.to_owned();
        Self { name, secret: secret.trim_end().to_owned(), address, query, record }
    }

    /// Creates a webhook of a server that has plants, and waits until it has begun by the report that they are lost.
    #[track_caller]
    pub(crate) fn begin(server: &TestServer, name: &'static str, options: &[&str]) -> Self {
        let mut hook = Self::create(server.data(), name, options);
        let lost = data(&hook.wait_for(1)[0], "plants.lost");
        let to = newest_cursor(&server.client());
        assert_eq!(lost, json!({"after": null, "to": to}));
        hook.record().deliveries.clear();
        hook.query += &format!("&after={to}");
        hook
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no panic")
    }

    /// Answers in this way from now on.
    pub(crate) fn reply(&self, reply: Reply) {
        self.record().reply = reply;
    }

    /// What has arrived, with repeats.
    #[track_caller]
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        let (deliveries, most_in_flight) = {
            let record = self.record();
            let deliveries = record.deliveries.iter().map(|(_, delivery)| delivery.clone());
            (deliveries.collect::<Vec<_>>(), record.most_in_flight)
        };
        assert!(most_in_flight <= 1, "{most_in_flight} deliveries were in flight at a time");
        for delivery in &deliveries {
            let mut signatures = delivery.signatures().into_iter();
            let is_signed = signatures.any(|it| delivery.is_signed(it, &self.secret));
            assert!(is_signed && delivery.body.len() <= 20_000, "{delivery:?}");
            assert_eq!(delivery.header("content-type"), "application/json");
        }
        deliveries
    }

    /// When a delivery arrived.
    pub(crate) fn time_of(&self, place: usize) -> Timestamp {
        self.record().deliveries[place].0
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Delivery> {
        let what = format!("{count} deliveries to {}", self.name);
        wait_for(&what, || Some(self.deliveries()).filter(|found| found.len() >= count))
    }

    /// Waits until all events since the beginning have arrived: once, if repeats are left out, and in order.
    #[track_caller]
    pub(crate) fn wait_for_all(&self, client: &Client) -> Vec<Delivery> {
        let log = all_events(client, &self.query);
        let what = format!("{} events to arrive at {}", log.len(), self.name);
        let (deliveries, events) = wait_for(&what, || {
            let deliveries = self.deliveries();
            let events = events_of(deliveries.clone());
            (events.len() >= log.len()).then_some((deliveries, events))
        });
        assert_eq!(events, log, "{}", self.name);
        deliveries
    }
}
