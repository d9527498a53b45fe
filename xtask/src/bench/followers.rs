//! `cargo xtask bench followers`: what clients that follow events cost clients that create plants, and how soon they
//! see an event.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::load::{Client, Load, Request, request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::program::{Contender, Program, plantds, serve};
use super::report::{claims, machine, measurements, publish};

/// The number of followers in the claim about creates.
const BUSY: usize = 10;

/// The number of followers whose memory is measured while no events come. The crowd, which gets events, has [`BUSY`]
/// more.
const WAITING: usize = 2_000;

const MAX_FOLLOWERS: &str = "4096";

const ALONE: &str = "no followers";
const FOLLOWED: &str = "10 followers";
const CROWD: &str = "2,010 followers";
const IDLE: &str = "2,000 followers";
const ONE: &str = "1 follower";

const CREATE: &str = "create, 64 connections";
const EVENT: &str = "from the answer of a create to its event, 64 connections of load";
const MEMORY: &str = "memory of 2,000 followers that wait";

/// How long the followers may take to see everything after the load.
const PATIENCE: Duration = Duration::from_secs(120);

/// The beginning of the line with the cursor of an event or a bookmark, with the line end before it.
const ID_LINE: &[u8] = b"\nid: ";

/// How many bytes of a stream always have a whole event.
const KEPT_BYTES: usize = 512;

/// The pause between two creates whose events are timed.
const SAMPLE_PAUSE: Duration = Duration::from_millis(3);

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let plantd = plantds(&options.workspace, None)?.remove(0);
    let plantd = plantd.with(&["--max-followers", MAX_FOLLOWERS]);
    let load = Load::new(Request::Create, options.duration);
    let mut entries = Vec::new();
    for (name, count) in [(ALONE, 0), (FOLLOWED, BUSY), (CROWD, BUSY + WAITING)] {
        let contender = Contender { name, ..plantd.clone() };
        let measure = move |folder: &Path| {
            serve(&contender, 1, folder, |programs| {
                let followers = Followers::start(programs[0].address, count)?;
                let measurement = load.measure(programs)?;
                // Events come faster than a crowd gets them.
                if count > BUSY {
                    followers.leave_after(0)?
                } else {
                    followers.end()?
                };
                Ok(measurement)
            })
        };
        entries.push(Entry::new(CREATE, name, measure));
    }
    for (name, followers) in [(ONE, 1), (FOLLOWED, BUSY)] {
        let plantd = &plantd;
        let measure = move |folder: &Path| {
            serve(plantd, 1, folder, |programs| time_events(&load, programs, followers))
        };
        entries.push(Entry::new(EVENT, name, measure));
    }
    let memory = |folder: &Path| {
        serve(&plantd, 1, folder, |programs| {
            let before = programs[0].memory_mb()?;
            let _followers = Followers::start(programs[0].address, WAITING)?;
            let memory_mb = Some(programs[0].memory_mb()? - before);
            Ok(Measurement { count: WAITING as u64, seconds: 1.0, memory_mb, latency_ms: None })
        })
    };
    entries.push(Entry::new(MEMORY, IDLE, memory));

    let mut results = Results::default();
    results.measure(options, &entries)?;
    let each = |one: &Measurement| Some(one.memory_mb? * 1_000.0 / WAITING as f64);
    let targets = vec![
        (
            "creates at 64 connections, with 10 followers/without",
            AtLeast(0.9, None),
            results.ratios(CREATE, FOLLOWED, ALONE),
        ),
        (
            "p50 from the answer to the event, ms",
            AtMost(20.0, None),
            results.latencies(EVENT, FOLLOWED, 0),
        ),
        (
            "p99 from the answer to the event, ms",
            AtMost(100.0, None),
            results.latencies(EVENT, FOLLOWED, 1),
        ),
        (
            "memory of each of 2,000 followers that wait, kB",
            AtMost(50.0, None),
            results.values(MEMORY, IDLE, each),
        ),
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

/// Creates plants one after the other under a load, and times how long after the answer each event arrives.
fn time_events(load: &Load, programs: &[Program], followers: usize) -> anyhow::Result<Measurement> {
    let address = programs[0].address;
    let followers = Followers::start(address, followers)?;
    let is_over = AtomicBool::new(false);
    let answered = thread::scope(|scope| {
        let creating = scope.spawn(|| create_samples(address, &is_over));
        let measurement = load.measure(programs);
        is_over.store(true, Ordering::Relaxed);
        let answered = creating.join().map_err(|_| anyhow!("a thread panicked"))?;
        measurement.and(answered)
    })?;
    let seen = followers.end()?;
    let mut latencies = Vec::with_capacity(answered.len());
    for (id, answered) in &answered {
        let seen = seen.get(id).with_context(|| format!("no event of plant {id} was seen"))?;
        // The event may arrive before the answer.
        latencies.push(seen.saturating_duration_since(*answered));
    }
    Ok(Measurement::of(latencies, load.duration))
}

/// Creates plants with the ids -1, -2 and so on. Returns when each was answered.
fn create_samples(
    address: SocketAddr,
    is_over: &AtomicBool,
) -> anyhow::Result<Vec<(i64, Instant)>> {
    let mut client = Client::connect(address)?;
    let mut answered = Vec::new();
    for id in (i64::MIN..0).rev() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let body = format!(r#"{{"id":{id},"name":"Rosa"}}"#);
        let head = "Content-Type: application/json\r\nContent-Length: ";
        let create = request("POST /plants", &format!("{head}{}\r\n\r\n{body}", body.len()));
        client.send(&create, Instant::now())?;
        while !client.receive()? {}
        answered.push((id, Instant::now()));
        thread::sleep(SAMPLE_PAUSE);
    }
    Ok(answered)
}

/// When the events of plants with negative ids arrived.
type Seen = HashMap<i64, Instant>;

/// Clients on one thread that follow all events from now on.
struct Followers {
    thread: JoinHandle<anyhow::Result<Seen>>,
    address: SocketAddr,
    /// The number of the last event that each must see before the thread ends.
    last: Arc<AtomicU64>,
}

impl Followers {
    /// Connects this many followers, and waits until all follow.
    fn start(address: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let streams = (0..count).map(|_| FollowedStream::open(address));
        let streams = streams.collect::<anyhow::Result<Vec<_>>>()?;
        let last = Arc::new(AtomicU64::new(u64::MAX));
        let until = Arc::clone(&last);
        Ok(Self { thread: thread::spawn(move || follow(streams, &until)), address, last })
    }

    /// Waits until all have seen the newest event. Returns what the first follower has seen.
    fn end(self) -> anyhow::Result<Seen> {
        let newest = newest_event(self.address)?;
        self.leave_after(newest)
    }

    fn leave_after(self, last: u64) -> anyhow::Result<Seen> {
        self.last.store(last, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread of the followers panicked"))?
    }
}

fn newest_event(address: SocketAddr) -> anyhow::Result<u64> {
    let mut client = Client::connect(address)?;
    client.send(&request("GET /events?after=now", "\r\n"), Instant::now())?;
    while !client.receive()? {}
    number_after(&client.received, b"/events?after=").context("no link to the next events")
}

/// The number after the last occurrence of these bytes.
fn number_after(bytes: &[u8], place: &[u8]) -> Option<u64> {
    let found = bytes.windows(place.len()).rposition(|window| window == place)?;
    let number = &bytes[found + place.len()..];
    let end = number.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(&number[..end]).ok()?.parse().ok()
}

/// Reads all streams until each has seen the last event.
fn follow(mut streams: Vec<FollowedStream>, last: &AtomicU64) -> anyhow::Result<Seen> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, stream) in (0..).zip(&streams) {
        epoll::add(&epoll, &stream.socket, EventData::new_u64(index), EventFlags::IN)?;
    }
    let (mut seen, mut events) = (Seen::new(), Vec::with_capacity(streams.len().max(1)));
    let mut chunk = vec![0; 256 * 1024];
    let mut last_news = Instant::now();
    while streams.iter().any(|stream| stream.last < last.load(Ordering::Relaxed)) {
        ensure!(last_news.elapsed() < PATIENCE, "followers see nothing more");
        let wait = Timespec::try_from(Duration::from_millis(100))?;
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&wait))?;
        for event in events.drain(..) {
            let index = usize::try_from(event.data.u64())?;
            let stream = &mut streams[index];
            let length = stream.socket.read(&mut chunk).context("a stream broke off")?;
            ensure!(length > 0, "the server ended a stream");
            stream.take(&chunk[..length]);
            if index == 0 {
                stream.note_samples(length, &mut seen);
            }
            last_news = Instant::now();
        }
    }
    Ok(seen)
}

struct FollowedStream {
    socket: TcpStream,
    /// The number of the last event.
    last: u64,
    /// The newest bytes of the stream.
    end: Vec<u8>,
}

impl FollowedStream {
    /// Requests the events from now on, and reads up to the first bookmark.
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect(address).context("cannot connect")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let head = "Accept: text/event-stream\r\n\r\n";
        socket.write_all(request("GET /events?after=now", head).as_bytes())?;
        let mut stream = Self { socket, last: 0, end: Vec::new() };
        let mut chunk = [0; 4096];
        while !stream.end.windows(ID_LINE.len()).any(|bytes| bytes == ID_LINE) {
            let length = stream.socket.read(&mut chunk).context("no stream")?;
            let text = || String::from_utf8_lossy(&stream.end).into_owned();
            ensure!(length > 0, "no stream, but: {}", text());
            stream.take(&chunk[..length]);
        }
        Ok(stream)
    }

    fn take(&mut self, bytes: &[u8]) {
        // The last bytes are enough to know how far the stream has come.
        self.end.drain(..self.end.len().saturating_sub(KEPT_BYTES));
        self.end.extend_from_slice(bytes);
        let newest = &self.end[self.end.len().saturating_sub(KEPT_BYTES)..];
        if let Some(last) = number_after(newest, ID_LINE) {
            self.last = last;
        }
    }

    /// Records events of plants with negative ids in the newest bytes; the first of them may complete an earlier
    /// part.
    fn note_samples(&self, bytes: usize, seen: &mut Seen) {
        const ID: &[u8] = b"\"id\":-";
        let now = Instant::now();
        let mut rest = &self.end[self.end.len().saturating_sub(bytes + KEPT_BYTES)..];
        while let Some(found) = rest.windows(ID.len()).position(|window| window == ID) {
            rest = &rest[found + ID.len()..];
            let Some(end) = rest.iter().position(|byte| *byte == b',') else { return };
            if let Some(id) =
                str::from_utf8(&rest[..end]).ok().and_then(|id| id.parse::<i64>().ok())
            {
                seen.entry(-id).or_insert(now);
            }
        }
    }
}
