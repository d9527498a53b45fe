//! The load generator: requests over keep-alive connections, each with its own thread.
//!
//! Without a rate it is a closed loop: each connection sends its next request when the response has come. With a rate
//! it is an open loop: requests are due on a schedule, and a latency counts from the moment a request was due, so that
//! a slow response cannot hide the delay of the requests behind it (coordinated omission).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::measure::{Entry, Measurement};
use super::plants::{json, scattered};
use super::program::{Contender, Program, TOKEN, copy_data, serve};

pub(super) const CONNECTIONS: usize = 64;

pub(super) const WARM_UP: Duration = Duration::from_secs(1);

/// Long enough that a slow disk is a latency, not an error: Fastify reads many requests of one connection in a row.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// `POST /plants` with the next number as the id.
    CreateAscending,
    /// `POST /plants` with an id anywhere in the range of ids.
    Create,
    /// `GET /plants/{id}` of any stored plant.
    Read,
    /// `GET /plants?limit=100` after the id of any stored plant.
    List,
    /// Nine reads for each create.
    Mix,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) request: Request,
    pub(super) connections: usize,
    pub(super) duration: Duration,
    /// Requests per second of an open loop.
    pub(super) rate: Option<f64>,
    /// Reads and lists pick among the plants with the numbers 1 to `stored`.
    pub(super) stored: u64,
    /// The load also ends when this many plants have been created.
    pub(super) plants_max: u64,
}

impl Load {
    /// A closed loop over 64 connections on an empty store.
    pub(super) fn new(request: Request, duration: Duration) -> Self {
        let (connections, plants_max) = (CONNECTIONS, u64::MAX);
        Self { request, connections, duration, rate: None, stored: 0, plants_max }
    }

    /// Measures the load on a new process, which begins with a copy of a store.
    pub(super) fn entry<'a>(
        self,
        work: &'static str,
        server: &'a Contender,
        store: Option<&'a PathBuf>,
    ) -> Entry<'a> {
        let measure = move |folder: &Path| {
            store.map(|store| copy_data(store, folder)).transpose()?;
            serve(server, 1, folder, |programs| self.measure(programs))
        };
        (work, server.name, Box::new(measure))
    }

    /// Runs the load after a closed loop as a warm-up, on programs that have only the stored plants.
    pub(super) fn measure(&self, programs: &[Program]) -> anyhow::Result<Measurement> {
        let created = AtomicU64::new(self.stored);
        if self.request == Request::List {
            check_list(&programs[0])?;
        }
        let warm_up = Self { duration: WARM_UP, rate: None, ..*self };
        warm_up.run(programs, &created).context("the warm-up failed")?;
        self.run(programs, &created)
    }

    /// Sends requests to programs that do the same; the connections are spread over them. Fails unless every response
    /// has a 2xx status. `created` counts the plants, and each new plant has the next number.
    pub(super) fn run(
        &self,
        programs: &[Program],
        created: &AtomicU64,
    ) -> anyhow::Result<Measurement> {
        let scheduled = AtomicU64::new(0);
        let start = Instant::now();
        let latencies: Vec<Duration> = thread::scope(|scope| {
            let mut threads = Vec::new();
            for (seed, program) in (0..self.connections as u64).zip(programs.iter().cycle()) {
                let mut client = Client::connect(program)?;
                let scheduled = &scheduled;
                threads.push(scope.spawn(move || {
                    // A fixed seed: each program gets the same requests.
                    let mut random = fastrand::Rng::with_seed(seed);
                    let mut latencies = Vec::new();
                    while let Some(due) = self.next_due(start, scheduled)
                        && let Some(request) = self.next_request(&mut random, created)
                    {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        client.exchange(&request)?;
                        latencies.push(due.elapsed());
                    }
                    anyhow::Ok(latencies)
                }));
            }
            let join = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
                thread.join().unwrap_or_else(|_| bail!("a thread of the load panicked"))
            };
            let latencies = threads.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()?;
            anyhow::Ok(latencies.concat())
        })?;
        // Every response counts, in all the time until the last one.
        let measurement = Measurement::of(latencies, start.elapsed());
        ensure!(measurement.count > 0, "no request was sent: measure for longer");
        let (reached, rate) = (measurement.per_s(), self.rate.unwrap_or(0.0));
        ensure!(
            reached >= 0.95 * rate,
            "{reached:.0} requests per second came of {rate:.0} that were due: ask for a lower rate"
        );
        Ok(measurement)
    }

    /// When the next request is due, unless the load has ended then.
    fn next_due(&self, start: Instant, scheduled: &AtomicU64) -> Option<Instant> {
        let due = self.rate.map_or_else(Instant::now, |rate| {
            let place = scheduled.fetch_add(1, Ordering::Relaxed);
            start + Duration::from_secs_f64(place as f64 / rate)
        });
        (due - start < self.duration).then_some(due)
    }

    /// The text of the next request, unless the last plant has been created.
    fn next_request(&self, random: &mut fastrand::Rng, created: &AtomicU64) -> Option<String> {
        let number = || {
            let next = |created| (created < self.plants_max).then_some(created + 1);
            created.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|it| it + 1)
        };
        let post = |id| {
            let body = json(id);
            let head = "Content-Type: application/json\r\nContent-Length: ";
            request("POST /plants", &format!("{head}{}\r\n\r\n{body}", body.len()))
        };
        let stored = scattered(random.u64(1..=self.stored.max(1)));
        Some(match self.request {
            Request::CreateAscending => post(number()?),
            Request::Create => post(scattered(number()?)),
            Request::Mix if random.u32(..10) == 0 => post(scattered(number()?)),
            Request::Read | Request::Mix => request(&format!("GET /plants/{stored}"), "\r\n"),
            Request::List => request(&format!("GET /plants?limit=100&after={stored}"), "\r\n"),
        })
    }
}

fn request(method_and_target: &str, rest: &str) -> String {
    format!(
        "{method_and_target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{rest}"
    )
}

/// Fails unless a list has 100 plants, before thousands like it are only counted.
fn check_list(program: &Program) -> anyhow::Result<()> {
    let mut client = Client::connect(program)?;
    client.exchange(&request("GET /plants?limit=100", "\r\n"))?;
    let list = String::from_utf8_lossy(&client.received);
    ensure!(list.matches("\"id\":").count() == 100, "a list of 100 plants is:\n{list}");
    Ok(())
}

struct Client {
    stream: TcpStream,
    /// The last response.
    received: Vec<u8>,
}

impl Client {
    fn connect(program: &Program) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(program.address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends a request and reads its response. Fails unless its status is 2xx.
    fn exchange(&mut self, request: &str) -> anyhow::Result<()> {
        self.stream.write_all(request.as_bytes()).context("cannot send a request")?;
        self.received.clear();
        let mut chunk = [0; 16 * 1024];
        while !self.is_complete()? {
            let length = self.stream.read(&mut chunk);
            let length = length.with_context(|| format!("no response in {RESPONSE_TIMEOUT:?}"))?;
            ensure!(length > 0, "the server closed the connection without a response");
            self.received.extend_from_slice(&chunk[..length]);
        }
        let text = || String::from_utf8_lossy(&self.received);
        ensure!(self.received.starts_with(b"HTTP/1.1 2"), "a status is not 2xx:\n{}", text());
        Ok(())
    }

    fn is_complete(&self) -> anyhow::Result<bool> {
        let Some(head) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return Ok(false);
        };
        let head_text = str::from_utf8(&self.received[..head])?;
        let fields = head_text.split("\r\n").filter_map(|line| line.split_once(':'));
        let length = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.last().with_context(|| format!("no length in:\n{head_text}"))?.1;
        Ok(self.received.len() >= head + 4 + length.trim().parse::<usize>()?)
    }
}
