//! The load generator: requests over keep-alive connections, on two threads.
//!
//! Without a rate it is a closed loop: each connection sends its next request when the response has come. With a rate
//! it is an open loop: requests are due on a schedule, and a latency counts from the moment a request was due, so that
//! a slow response cannot hide the delay of the requests behind it (coordinated omission).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::measure::{Figures, Latency};
use super::plants::{json, scattered};
use super::program::{Program, TOKEN};

/// How many clients there are, where their number is not what is compared.
pub(super) const CONNECTIONS: usize = 64;

/// How many threads send; each has its share of the connections.
pub(super) const THREADS: usize = 2;

pub(super) const WARM_UP: Duration = Duration::from_secs(1);

/// Long enough that one slow sync of a disk is a latency, not an error.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

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
pub(super) struct Load<'a> {
    pub(super) request: Request,
    pub(super) connections: usize,
    pub(super) duration: Duration,
    /// Requests per second of an open loop.
    pub(super) rate: Option<f64>,
    /// The number of the next plant to create. After a load, all plants with lower numbers have been created.
    pub(super) next_number: &'a AtomicU64,
    /// The load also ends when the plant with this number has been created.
    pub(super) last_number: u64,
    /// Reads and lists pick among the plants with the numbers 1 to `stored`.
    pub(super) stored: u64,
}

impl<'a> Load<'a> {
    /// A closed loop over 64 connections, which ends with its last plant at the latest after a day.
    pub(super) fn new(request: Request, next_number: &'a AtomicU64) -> Self {
        let (connections, duration) = (CONNECTIONS, Duration::from_secs(24 * 60 * 60));
        let last_number = u64::MAX;
        Self { request, connections, duration, rate: None, next_number, last_number, stored: 0 }
    }

    /// Runs the load after a closed loop as a warm-up.
    pub(super) fn measure(&self, programs: &[&Program]) -> anyhow::Result<Figures> {
        if self.request == Request::List {
            check_list(programs[0])?;
        }
        let warm_up = Load { duration: WARM_UP, rate: None, ..*self };
        warm_up.run(programs).context("the warm-up failed")?;
        self.run(programs)
    }

    /// Sends requests to programs that do the same; the connections are spread over them. Fails unless every response
    /// has a 2xx status.
    pub(super) fn run(&self, programs: &[&Program]) -> anyhow::Result<Figures> {
        let threads = THREADS.min(self.connections);
        let mut clients: Vec<Vec<Client>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, program) in (0..self.connections).zip(programs.iter().cycle()) {
            clients[index % threads].push(Client::connect(program.address)?);
        }
        let start = Instant::now();
        let latencies = thread::scope(|scope| {
            let drive =
                |(index, clients)| scope.spawn(move || self.drive(clients, index, threads, start));
            let running: Vec<_> = clients.into_iter().enumerate().map(drive).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
                thread.join().unwrap_or_else(|_| bail!("a thread of the load panicked"))
            };
            running.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()
        });
        // Every response counts, in all the time until the last one.
        let seconds = start.elapsed().as_secs_f64();
        let latencies = latencies?.concat();
        let count = latencies.len() as u64;
        let latency = Latency::of(latencies).context("no request was sent: measure for longer")?;
        let figures = Figures { count, seconds, latency: Some(latency) };
        if let Some(rate) = self.rate {
            let reached = figures.per_s();
            ensure!(
                reached >= 0.95 * rate,
                "{reached:.0} requests per second came of {rate:.0} that were due: ask for a lower rate"
            );
        }
        Ok(figures)
    }

    /// Sends every request of one thread, and returns the latencies.
    fn drive(
        &self,
        mut clients: Vec<Client>,
        thread: usize,
        threads: usize,
        start: Instant,
    ) -> anyhow::Result<Vec<Duration>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, client) in clients.iter().enumerate() {
            epoll::add(&epoll, &client.stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        }
        // A fixed seed: each program gets the same requests.
        let mut random = fastrand::Rng::with_seed(thread as u64);
        let end = start + self.duration;
        let mut scheduled = thread;
        let mut idle: Vec<usize> = (0..clients.len()).collect();
        let mut events = Vec::with_capacity(clients.len());
        let mut latencies = Vec::new();
        let mut last_response = start;
        let mut is_over = false;
        loop {
            let mut wait = None;
            while let (false, Some(&index)) = (is_over, idle.last()) {
                let now = Instant::now();
                let offset = |rate| Duration::from_secs_f64(scheduled as f64 / rate);
                let due = self.rate.map_or(now, |rate| start + offset(rate));
                if now < due && due < end {
                    wait = Some(due - now);
                    break;
                }
                // A number is taken only for a request that is sent.
                let request = if due < end { self.next_request(&mut random) } else { None };
                is_over = request.is_none();
                if let Some(request) = request {
                    clients[index].send(&request, due)?;
                    scheduled += threads;
                    idle.pop();
                }
            }
            if is_over && idle.len() == clients.len() {
                return Ok(latencies);
            }
            let mut timeout = RESPONSE_TIMEOUT;
            if let Some(wait) = wait {
                // Its timeout is in nanoseconds, that of `epoll_wait` in milliseconds.
                let mut ready = [PollFd::new(&epoll, PollFlags::IN)];
                poll(&mut ready, Some(&Timespec::try_from(wait)?))?;
                timeout = Duration::ZERO;
            }
            events.clear();
            epoll::wait(&epoll, spare_capacity(&mut events), Some(&Timespec::try_from(timeout)?))?;
            for event in &events {
                let index = usize::try_from(event.data.u64())?;
                if clients[index].receive()? {
                    last_response = Instant::now();
                    latencies.push(last_response - clients[index].due);
                    idle.push(index);
                }
            }
            let is_late = idle.len() < clients.len() && last_response.elapsed() > RESPONSE_TIMEOUT;
            ensure!(!is_late, "no response came within {RESPONSE_TIMEOUT:?}");
        }
    }

    /// The text of the next request, unless the last plant has been created.
    fn next_request(&self, random: &mut fastrand::Rng) -> Option<String> {
        let number = || {
            let next = |number| (number <= self.last_number).then_some(number + 1);
            self.next_number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
        };
        let post = |id| {
            let body = json(id);
            let head = "Content-Type: application/json\r\nContent-Length: ";
            request("POST /plants", &format!("{head}{}\r\n\r\n{body}", body.len()))
        };
        let stored = scattered(random.u64(1..=self.stored.max(1)));
        match self.request {
            Request::CreateAscending => Some(post(number()?)),
            Request::Create => Some(post(scattered(number()?))),
            Request::Mix if random.u32(..10) == 0 => Some(post(scattered(number()?))),
            Request::Read | Request::Mix => Some(request(&format!("GET /plants/{stored}"), "\r\n")),
            Request::List => {
                Some(request(&format!("GET /plants?limit=100&after={stored}"), "\r\n"))
            }
        }
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

/// A connection with at most one request under way. Its socket blocks, but is read only when it has bytes.
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
        let text = || String::from_utf8_lossy(&self.received);
        let fields = str::from_utf8(&self.received[..head])?.split("\r\n").skip(1);
        let length = fields.filter_map(|field| field.split_once(':')).find_map(|(name, value)| {
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let length: usize = length.with_context(|| format!("no length in:\n{}", text()))?;
        let is_success = self.received.starts_with(b"HTTP/1.1 2");
        let is_complete = self.received.len() >= head + 4 + length;
        ensure!(is_success || !is_complete, "a status is not 2xx:\n{}", text());
        Ok(is_complete)
    }
}
