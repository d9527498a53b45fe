//! `cargo xtask bench followers` and `webhooks`: what readers of events cost clients that create plants, and how soon
//! they get an event.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use humantime::parse_rfc3339;
use memchr::memmem;

use super::load::{Load, Request, get, request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::program::{Contender, output, plantd, serve};
use super::report::{claims, machine, measurements, publish};

use self::Readers::{Followers, Webhooks};

/// The number of followers in the claim about creates.
const BUSY: usize = 10;

/// The number of followers whose memory is measured while no events come. The crowd, which gets events, has [`BUSY`]
/// more.
const WAITING: usize = 2_000;

const MAX_FOLLOWERS: &str = "4096";

const WEBHOOKS: usize = 16;

/// The creates a second in the claims about webhooks.
const RATE: f64 = 10_000.0;

/// How long the readers may take to get everything after the load.
const PATIENCE: Duration = Duration::from_secs(120);

/// What each event has once, before its time.
const AT: &[u8] = br#""at":""#;

pub(super) fn run_followers(options: &Options) -> anyhow::Result<()> {
    const ALONE: &str = "no followers";
    const FOLLOWED: &str = "10 followers";
    const IDLE: &str = "2,000 followers";
    const CREATE: &str = "create, 64 connections";
    const EVENT: &str = "from a change to its event, 64 connections of load";
    const MEMORY: &str = "memory of 2,000 followers that wait";

    let plantd = &plantd(options)?.with(&["--max-followers", MAX_FOLLOWERS]);
    let load = Load::new(Request::Create, options.duration);
    let mut entries = Vec::new();
    for (name, count) in [(ALONE, 0), (FOLLOWED, BUSY), ("2,010 followers", BUSY + WAITING)] {
        let measure = move |folder: &Path| measure(plantd, folder, Followers(count), load);
        entries.push(Entry::new(CREATE, name, move |folder| Ok(measure(folder)?.creates)));
    }
    for (name, count) in [("1 follower", 1), (FOLLOWED, BUSY)] {
        let measure = move |folder: &Path| measure(plantd, folder, Followers(count), load);
        entries.push(Entry::new(EVENT, name, move |folder| Ok(measure(folder)?.lags)));
    }
    let memory = |folder: &Path| {
        serve(plantd, 1, folder, |programs| {
            let before = programs[0].memory_mb()?;
            let _streams = Streams::open(programs[0].address, WAITING, &Arc::default())?;
            let memory_mb = Some(programs[0].memory_mb()? - before);
            Ok(Measurement { count: WAITING as u64, seconds: 1.0, memory_mb, latency_ms: None })
        })
    };
    entries.push(Entry::new(MEMORY, IDLE, memory));

    let mut results = Results::default();
    results.measure(options, &entries)?;
    let ratios = results.ratios(CREATE, FOLLOWED, ALONE);
    let [p50, p99] = [0, 1].map(|place| results.latencies(EVENT, FOLLOWED, place));
    let each = |one: &Measurement| Some(one.memory_mb? * 1_000.0 / WAITING as f64);
    let memory = results.values(MEMORY, IDLE, each);
    let targets = vec![
        ("creates at 64 connections, with 10 followers/without", AtLeast(0.9, None), ratios),
        ("p50 from a change to its event, ms", AtMost(20.0, None), p50),
        ("p99 from a change to its event, ms", AtMost(100.0, None), p99),
        ("memory of each of 2,000 followers that wait, kB", AtMost(50.0, None), memory),
    ];
    // The claims show the memory. It has no rate or latency for a row among the measurements.
    results.0.retain(|series| series.workload != MEMORY);
    let text = format!(
        "{}. Each follower reads Server-Sent Events over a connection of its own.\n\n{}\n{}",
        machine()?,
        claims(targets),
        measurements(options, &results, &[ALONE]),
    );
    publish(options, "followers", &text)
}

pub(super) fn run_webhooks(options: &Options) -> anyhow::Result<()> {
    const WITHOUT: &str = "no webhooks";
    const WITH: &str = "16 webhooks";
    const CREATE: &str = "create, 10,000 a second, 64 connections";
    const LAG: &str = "from a change to the receiver, 10,000 creates a second";

    let plantd = &plantd(options)?;
    let most = Load::new(Request::Create, options.duration);
    let at_rate = Load { rate: Some(RATE), ..most };
    let mut entries = Vec::new();
    for (workload, load) in [(CREATE, at_rate), ("create, 64 connections", most)] {
        for (name, count) in [(WITHOUT, 0), (WITH, WEBHOOKS)] {
            let measure = move |folder: &Path| measure(plantd, folder, Webhooks(count), load);
            entries.push(Entry::new(workload, name, move |folder| Ok(measure(folder)?.creates)));
        }
    }
    let lag = |folder: &Path| Ok(measure(plantd, folder, Webhooks(WEBHOOKS), at_rate)?.lags);
    entries.push(Entry::new(LAG, WITH, lag));

    let mut results = Results::default();
    results.measure(options, &entries)?;
    let ratios = results.ratios(CREATE, WITH, WITHOUT);
    let longest = results.latencies(LAG, WITH, 3);
    let targets = vec![
        ("creates at 10,000 a second, with 16 webhooks/without", AtLeast(0.9, None), ratios),
        ("longest time from a change to the receiver, ms", AtMost(2_000.0, None), longest),
    ];
    let text = format!(
        "{}. The receivers share the machine, and answer at once.\n\n{}\n{}",
        machine()?,
        claims(targets),
        measurements(options, &results, &[WITHOUT]),
    );
    publish(options, "webhooks", &text)
}

/// The readers of the events of a server: this many of one kind.
#[derive(Clone, Copy)]
enum Readers {
    Followers(usize),
    Webhooks(usize),
}

struct Measured {
    creates: Measurement,
    /// How old the oldest event of each delivery, or of each part of a stream, was when its reader had read it.
    lags: Measurement,
}

/// Creates plants while readers get the events.
fn measure(
    plantd: &Contender,
    folder: &Path,
    readers: Readers,
    load: Load,
) -> anyhow::Result<Measured> {
    let seen = Arc::<Seen>::default();
    if let Webhooks(count) = readers {
        let url = format!("http://{}/", receive_deliveries(&seen)?);
        for number in 0..count {
            let name = format!("webhook-{number}");
            let mut create = Command::new(&plantd.command[0]);
            create.args(["webhook", "create", "--name", &name, "--url", &url, "--data"]);
            output(create.arg(folder.join("data-0")))?;
        }
    }
    serve(plantd, 1, folder, |programs| {
        let server = programs[0].address;
        let (count, _streams) = match readers {
            Followers(count) => (count, Some(Streams::open(server, count, &seen)?)),
            Webhooks(count) => {
                // A webhook that begins after the first create would not get it as an event.
                wait_until("the webhooks to begin", || {
                    let webhooks = get(server, "/webhooks")?;
                    Ok(webhooks.matches("\"lag_seconds\":0").count() == count)
                })?;
                (count, None)
            }
        };
        let created = AtomicU64::new(0);
        let wait_for_readers = || {
            // Events come faster than a crowd of followers gets them.
            let awaited = if count < WAITING { count as u64 } else { 0 };
            let all = created.load(Ordering::Relaxed) * awaited;
            let have_all = || Ok(seen.events.load(Ordering::Relaxed) >= all);
            wait_until("the readers to get all events", have_all)
        };
        load.warm_up(programs, &created)?;
        wait_for_readers()?;
        let warmed_up = seen.lags().len();
        let creates = load.run(programs, &created)?;
        wait_for_readers()?;
        let lags = Measurement::of(seen.lags().split_off(warmed_up), load.duration);
        Ok(Measured { creates, lags })
    })
}

fn wait_until(what: &str, holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds()? {
        ensure!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What all readers have seen.
#[derive(Default)]
struct Seen {
    events: AtomicU64,
    lags: Mutex<Vec<Duration>>,
}

impl Seen {
    /// Notes the events in a text that has just arrived.
    fn note(&self, text: &[u8]) -> anyhow::Result<()> {
        let now = SystemTime::now();
        let mut events = memmem::find_iter(text, AT);
        let Some(first) = events.next() else { return Ok(()) };
        let time = text[first + AT.len()..].split(|byte| *byte == b'"').next();
        let first = parse_rfc3339(str::from_utf8(time.unwrap_or_default())?)?;
        self.lags().push(now.duration_since(first).unwrap_or_default());
        self.events.fetch_add(1 + events.count() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn lags(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.lags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The streams of followers, each read by a thread; they end when this is dropped.
struct Streams(Vec<TcpStream>);

impl Streams {
    /// Opens this many streams, and waits until all have begun.
    fn open(server: SocketAddr, count: usize, seen: &Arc<Seen>) -> anyhow::Result<Self> {
        let follow = |_| follow(server, Arc::clone(seen)).context("a follower gets no stream");
        Ok(Self((0..count).map(follow).collect::<anyhow::Result<_>>()?))
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for connection in &self.0 {
            // Fails only if the server has closed the connection.
            drop(connection.shutdown(Shutdown::Both));
        }
    }
}

/// Requests the events from now on, and waits for the first bookmark. A thread reads on.
fn follow(server: SocketAddr, seen: Arc<Seen>) -> anyhow::Result<TcpStream> {
    let mut connection = TcpStream::connect(server)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let head = "Accept: text/event-stream\r\n\r\n";
    connection.write_all(request("GET /events?after=now", head).as_bytes())?;
    let mut stream = BufReader::with_capacity(64 * 1024, connection.try_clone()?);
    let mut line = String::new();
    while !line.starts_with("id: ") {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "the stream has ended");
        ensure!(!line.starts_with("HTTP/") || line.contains(" 200 "), "{line}");
    }
    // An event that breaks off is missing in the number of all.
    thread::spawn(move || read_events(stream, &seen));
    Ok(connection)
}

fn read_events(mut stream: BufReader<TcpStream>, seen: &Seen) -> anyhow::Result<()> {
    let mut received = Vec::new();
    loop {
        let part = stream.fill_buf()?;
        ensure!(!part.is_empty(), "the stream has ended");
        received.extend_from_slice(part);
        let length = part.len();
        stream.consume(length);
        // An event is a line.
        let end = received.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        seen.note(&received[..end])?;
        received.drain(..end);
    }
}

/// Starts a server that takes every delivery, until the bench ends. Returns its address.
fn receive_deliveries(seen: &Arc<Seen>) -> anyhow::Result<SocketAddr> {
    let (listener, seen) = (TcpListener::bind("127.0.0.1:0")?, Arc::clone(seen));
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            // A connection ends with an error when plantd closes it.
            thread::spawn(move || take_deliveries(&connection, &seen));
        }
    });
    Ok(address)
}

fn take_deliveries(mut connection: &TcpStream, seen: &Seen) -> anyhow::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        ensure!(reader.read_line(&mut line)? > 0, "the connection has ended");
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.trim_end().parse()?;
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            seen.note(&body)?;
        }
    }
}
