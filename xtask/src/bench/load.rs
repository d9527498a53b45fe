//! The load generator: requests over keep-alive connections, on two threads.
//!
//! Without a rate it is a closed loop: each connection sends its next request when the response has come. With a rate
//! it is an open loop: requests are due on a schedule, and a latency counts from the moment a request was due, so that
//! a slow response cannot hide the delay of the requests behind it (coordinated omission).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::measure::{Entry, Measurement};
use super::plants::{json, scattered};
use super::program::{Contender, Program, TOKEN, copy_data, serve};

pub(super) const CONNECTIONS: usize = 64;

/// How many threads send; each has its share of the connections.
const THREADS: usize = 2;

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

    /// Measures the load once.
    pub(super) fn run(
        &self,
        programs: &[Program],
        created: &AtomicU64,
    ) -> anyhow::Result<Measurement> {
        let (latencies, duration) = self.latencies(programs, created)?;
        let measurement = Measurement::of(latencies, duration);
        ensure!(measurement.count > 0, "no request was sent: measure for longer");
        let (reached, rate) = (measurement.per_s(), self.rate.unwrap_or(0.0));
        ensure!(
            reached >= 0.95 * rate,
            "{reached:.0} requests per second came of {rate:.0} that were due: ask for a lower rate"
        );
        Ok(measurement)
    }

    /// Sends requests to programs that do the same; the connections are spread over them. Fails unless every response
    /// has a 2xx status. `created` counts the plants, and each new plant has the next number. Returns the latencies, and
    /// the time until the last response.
    pub(super) fn latencies(
        &self,
        programs: &[Program],
        created: &AtomicU64,
    ) -> anyhow::Result<(Vec<Duration>, Duration)> {
        let threads = THREADS.min(self.connections);
        let mut clients: Vec<Vec<Client>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, program) in (0..self.connections).zip(programs.iter().cycle()) {
            clients[index % threads].push(Client::connect(program.address)?);
        }
        let (start, scheduled) = (Instant::now(), AtomicU64::new(0));
        let latencies = thread::scope(|scope| {
            let (scheduled, mut running) = (&scheduled, Vec::new());
            for (seed, clients) in (0..).zip(clients) {
                let thread = Thread { load: self, start, scheduled, created, clients };
                running.push(scope.spawn(move || thread.drive(seed)));
            }
            let join = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
                thread.join().unwrap_or_else(|_| bail!("a thread of the load panicked"))
            };
            running.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()
        })?;
        // Every response counts, in all the time until the last one.
        Ok((latencies.concat(), start.elapsed()))
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

/// One thread of a load, with its share of the connections.
struct Thread<'a> {
    load: &'a Load,
    start: Instant,
    scheduled: &'a AtomicU64,
    created: &'a AtomicU64,
    clients: Vec<Client>,
}

impl Thread<'_> {
    /// Sends requests until the load is over, and returns their latencies.
    fn drive(mut self, seed: u64) -> anyhow::Result<Vec<Duration>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, client) in (0..).zip(&self.clients) {
            epoll::add(&epoll, &client.stream, EventData::new_u64(index), EventFlags::IN)?;
        }
        // A fixed seed: each program gets the same requests.
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut latencies, mut events) = (Vec::new(), Vec::with_capacity(self.clients.len()));
        let mut idle: Vec<usize> = (0..self.clients.len()).collect();
        let mut due = self.load.next_due(self.start, self.scheduled);
        while due.is_some() || idle.len() < self.clients.len() {
            while let (Some(at), Some(&index)) = (due, idle.last())
                && at <= Instant::now()
            {
                due = match self.load.next_request(&mut random, self.created) {
                    Some(request) => {
                        self.clients[index].send(&request, at)?;
                        idle.pop();
                        self.load.next_due(self.start, self.scheduled)
                    }
                    None => None,
                };
            }
            let until_due = due.filter(|_| !idle.is_empty()).map(|due| due - Instant::now());
            if let Some(until_due) = until_due {
                // The timeout of `poll` is in nanoseconds, that of `epoll_wait` in milliseconds.
                let mut ready = [PollFd::new(&epoll, PollFlags::IN)];
                poll(&mut ready, Some(&Timespec::try_from(until_due)?))?;
            }
            let patience = until_due.map_or(RESPONSE_TIMEOUT, |_| Duration::ZERO);
            events.clear();
            let room = spare_capacity(&mut events);
            epoll::wait(&epoll, room, Some(&Timespec::try_from(patience)?))?;
            let is_late = events.is_empty() && until_due.is_none();
            ensure!(!is_late, "no response within {RESPONSE_TIMEOUT:?}");
            for event in &events {
                let index = usize::try_from(event.data.u64())?;
                if self.clients[index].receive()? {
                    latencies.push(self.clients[index].due.elapsed());
                    idle.push(index);
                }
            }
        }
        Ok(latencies)
    }
}

fn request(method_and_target: &str, rest: &str) -> String {
    format!(
        "{method_and_target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{rest}"
    )
}

/// Fails unless a list has 100 plants, before thousands like it are only counted.
fn check_list(program: &Program) -> anyhow::Result<()> {
    let mut client = Client::connect(program.address)?;
    client.send(&request("GET /plants?limit=100", "\r\n"), Instant::now())?;
    while !client.receive()? {}
    let list = String::from_utf8_lossy(&client.received);
    ensure!(list.matches("\"id\":").count() == 100, "a list of 100 plants is:\n{list}");
    Ok(())
}

/// A connection with at most one request under way. Its socket is read only when it has bytes.
struct Client {
    stream: TcpStream,
    /// When the request was due.
    due: Instant,
    /// What has come of the response.
    received: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, due: Instant::now(), received: Vec::new() })
    }

    fn send(&mut self, request: &str, due: Instant) -> anyhow::Result<()> {
        self.received.clear();
        self.due = due;
        self.stream.write_all(request.as_bytes()).context("cannot send a request")
    }

    /// Reads what has come, and returns whether the response is complete. Fails unless its status is 2xx.
    fn receive(&mut self) -> anyhow::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let length = self.stream.read(&mut chunk).context("cannot read a response")?;
        ensure!(length > 0, "the server closed the connection without a response");
        self.received.extend_from_slice(&chunk[..length]);
        let Some(head) = self.received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return Ok(false);
        };
        let text = str::from_utf8(&self.received[..head])?;
        let fields = text.split("\r\n").filter_map(|line| line.split_once(':'));
        let length = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.last().with_context(|| format!("no length in:\n{text}"))?.1;
        let is_complete = self.received.len() >= head + 4 + length.trim().parse::<usize>()?;
        let is_success = self.received.starts_with(b"HTTP/1.1 2");
        ensure!(
            is_success || !is_complete,
            "a status is not 2xx:\n{}",
            String::from_utf8_lossy(&self.received)
        );
        Ok(is_complete)
    }
}
