//! `cargo xtask bench webhooks`: what webhooks cost clients that create plants, and how soon receivers get an event.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail, ensure};
use humantime::parse_rfc3339;
use serde::Deserialize;

use super::load::{Client, Load, Request, WARM_UP, request};
use super::measure::Target::{AtLeast, AtMost};
use super::measure::{Entry, Measurement, Results};
use super::options::Options;
use super::program::{Contender, Program, output, plantds, serve};
use super::report::{claims, machine, measurements, publish};

const WEBHOOKS: usize = 16;

/// The creates a second of the claims.
const RATE: f64 = 10_000.0;

const WITHOUT: &str = "no webhooks";
const WITH: &str = "16 webhooks";

const CREATE: &str = "create, 10,000 a second, 64 connections";
const CREATE_MOST: &str = "create, 64 connections";
const LAG: &str = "from a change to the receiver, 10,000 creates a second";

/// How long the receivers may take to get everything after the load.
const PATIENCE: Duration = Duration::from_secs(60);

/// The part of a body that is measured.
#[derive(Deserialize)]
struct Body {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    at: String,
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let plantd = &plantds(&options.workspace, None)?.remove(0);
    let most = Load::new(Request::Create, options.duration);
    let at_rate = Load { rate: Some(RATE), ..most };
    let mut entries = Vec::new();
    for (workload, load) in [(CREATE, at_rate), (CREATE_MOST, most)] {
        for (name, webhooks) in [(WITHOUT, 0), (WITH, WEBHOOKS)] {
            let measure = move |folder: &Path| {
                let (creates, _) = measure(plantd, folder, webhooks, &load)?;
                Ok(creates)
            };
            entries.push(Entry::new(workload, name, measure));
        }
    }
    let lag = move |folder: &Path| {
        let (_, lags) = measure(plantd, folder, WEBHOOKS, &at_rate)?;
        Ok(Measurement::of(lags, at_rate.duration))
    };
    entries.push(Entry::new(LAG, WITH, lag));

    let mut results = Results::default();
    results.measure(options, &entries)?;
    let targets = vec![
        (
            "creates at 10,000 a second, with 16 webhooks/without",
            AtLeast(0.9, None),
            results.ratios(CREATE, WITH, WITHOUT),
        ),
        (
            "longest time from a change to the receiver, ms",
            AtMost(2_000.0, None),
            results.latencies(LAG, WITH, 3),
        ),
    ];
    let text = format!(
        "{}. The receivers share the machine, and answer at once.\n\n{}\n{}",
        machine()?,
        claims(targets),
        measurements(options, &results, &[WITHOUT]),
    );
    publish(options, "webhooks", &text)
}

/// Creates plants while this many webhooks send. Returns the measurement of the creates, and how old the oldest event of
/// each delivery was when a receiver had read it.
fn measure(
    plantd: &Contender,
    folder: &Path,
    webhooks: usize,
    load: &Load,
) -> anyhow::Result<(Measurement, Vec<Duration>)> {
    let receivers = Receivers::start()?;
    for number in 0..webhooks {
        let url = format!("http://{}/", receivers.address);
        let name = format!("webhook-{number}");
        let mut create = Command::new(&plantd.command[0]);
        create.args(["webhook", "create", "--name", &name, "--url", &url, "--data"]);
        output(create.arg(folder.join("data-0")))?;
    }
    serve(plantd, 1, folder, |programs: &[Program]| {
        wait_until_begun(programs[0].address, webhooks)?;
        let created = AtomicU64::new(0);
        Load { duration: WARM_UP, ..*load }
            .run(programs, &created)
            .context("the warm-up failed")?;
        let warmed_up = receivers.received().len();
        let creates = load.run(programs, &created)?;
        let all = created.load(Ordering::Relaxed) * webhooks as u64;
        let begun = Instant::now();
        while receivers.events.load(Ordering::Relaxed) < all {
            ensure!(begun.elapsed() < PATIENCE, "the receivers do not get all events");
            thread::sleep(Duration::from_millis(10));
        }
        Ok((creates, receivers.received().split_off(warmed_up)))
    })
}

/// Waits until the webhooks have begun: one that begins after the first create would not get it as an event.
fn wait_until_begun(server: SocketAddr, webhooks: usize) -> anyhow::Result<()> {
    let mut client = Client::connect(server)?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        client.send(&request("GET /webhooks", "\r\n"), Instant::now())?;
        while !client.receive()? {}
        let list = String::from_utf8_lossy(&client.received);
        if list.matches("\"lag_seconds\":0").count() == webhooks {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    bail!("the webhooks do not begin")
}

/// A server that takes every delivery. It ends with the bench.
#[derive(Clone)]
struct Receivers {
    address: SocketAddr,
    events: Arc<AtomicU64>,
    /// How old the oldest event of each delivery was.
    lags: Arc<Mutex<Vec<Duration>>>,
}

impl Receivers {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let receivers = Self { address, events: Arc::default(), lags: Arc::default() };
        let accepting = receivers.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let receivers = accepting.clone();
                // A connection ends with an error when plantd closes it.
                thread::spawn(move || receivers.receive(&stream));
            }
        });
        Ok(receivers)
    }

    fn receive(&self, mut stream: &TcpStream) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        loop {
            let mut length = 0;
            while line != "\r\n" {
                line.clear();
                ensure!(reader.read_line(&mut line)? > 0, "the connection has ended");
                if let Some((name, value)) = line.split_once(": ")
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim_end().parse()?;
                }
            }
            line.clear();
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let now = SystemTime::now();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
            let events = serde_json::from_slice::<Body>(&body)?.data.events;
            let first = parse_rfc3339(&events.first().context("no events")?.at)?;
            self.received().push(now.duration_since(first).unwrap_or_default());
            self.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        }
    }

    fn received(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.lags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
