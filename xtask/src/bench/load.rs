//! The load generator: requests over many keep-alive connections, on two threads.
//!
//! Without a rate, the load is a closed loop: each connection sends its next request after the response. With a rate,
//! it is an open loop: requests are due on a schedule, and latencies count from the moment a request was due, so that
//! a slow response cannot hide the delay of later requests (coordinated omission).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::measure::{Entry, Measurement};
use super::plants::{json, scattered};
use super::program::{Contender, Program, TOKEN, copy_data, serve};

pub(super) const CONNECTIONS: usize = 64;

/// The number of sending threads, which share the connections.
const THREADS: usize = 2;

pub(super) const WARM_UP: Duration = Duration::from_secs(1);

/// So long that a slow disk causes latencies, not errors: Fastify reads many requests of one connection in a row.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The creates in a batch.
const BATCH_CREATES: u64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// `POST /plants` with an id anywhere below 2^53.
    Create,
    /// `POST /batch` of [`BATCH_CREATES`] such creates.
    Batch,
    /// `GET /plants/{id}` of any stored plant.
    Read,
    /// `GET /plants?limit=100` after the id of any stored plant.
    List,
    /// `GET /plants?limit=100` of the plants with a part of the name.
    Search(&'static str),
    /// `PUT /plants/{id}` of the first plant, each time with another name.
    Change,
    /// `GET /plants/{id}/history` of the first plant.
    History,
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
    /// Reads and lists choose among the plants with the numbers 1 to `stored`.
    pub(super) stored: u64,
    /// The load also ends after this many creates or changes.
    pub(super) plants_max: u64,
}

impl Load {
    /// A closed loop over 64 connections on an empty store.
    pub(super) fn new(request: Request, duration: Duration) -> Self {
        let (connections, plants_max) = (CONNECTIONS, u64::MAX);
        Self { request, connections, duration, rate: None, stored: 0, plants_max }
    }

    /// Measures the load on a new process that begins with a copy of a store.
    pub(super) fn entry<'a>(
        self,
        workload: &'static str,
        server: &'a Contender,
        store: Option<&'a PathBuf>,
    ) -> Entry<'a> {
        let measure = move |folder: &Path| {
            store.map(|store| copy_data(store, folder)).transpose()?;
            serve(server, 1, folder, |programs| {
                let measurement = self.measure(programs)?;
                Ok(Measurement { memory_mb: Some(programs[0].memory_mb()?), ..measurement })
            })
        };
        Entry::new(workload, server.name, measure)
    }

    /// Runs the load after a warm-up, on programs that have only the stored plants.
    pub(super) fn measure(&self, programs: &[Program]) -> anyhow::Result<Measurement> {
        let created = AtomicU64::new(self.stored);
        if self.request == Request::List {
            // Later responses are only counted.
            let list = get(programs[0].address, "/plants?limit=100")?;
            let has_100 = list.matches("\"id\":").count() == 100;
            ensure!(has_100, "a list of 100 plants is:\n{list}");
        }
        self.warm_up(programs, &created)?;
        self.run(programs, &created)
    }

    /// Runs the load as a closed loop, without measuring it.
    pub(super) fn warm_up(&self, programs: &[Program], created: &AtomicU64) -> anyhow::Result<()> {
        let warm_up = Self { duration: WARM_UP, rate: None, ..*self };
        warm_up.run(programs, created).context("the warm-up failed")?;
        Ok(())
    }

    pub(super) fn run(
        &self,
        programs: &[Program],
        created: &AtomicU64,
    ) -> anyhow::Result<Measurement> {
        let addresses: Vec<_> = programs.iter().map(|program| program.address).collect();
        let start = Instant::now();
        let latencies = self.latencies(&addresses, created)?;
        // Counts every response and all the time until the last one.
        let mut measurement = Measurement::of(latencies, start.elapsed());
        if self.request == Request::Batch {
            measurement.count *= BATCH_CREATES;
        }
        ensure!(measurement.count > 0, "no request was sent: measure for longer");
        let (reached, rate) = (measurement.per_s(), self.rate.unwrap_or(0.0));
        ensure!(
            reached >= 0.95 * rate,
            "{reached:.0} requests per second came of {rate:.0} that were due: ask for a lower rate"
        );
        Ok(measurement)
    }

    /// Sends requests to equivalent servers, over which the connections are spread. Fails unless every response has a
    /// 2xx status. `created` counts the plants, or the changes, and numbers the new ones.
    pub(super) fn latencies(
        &self,
        servers: &[SocketAddr],
        created: &AtomicU64,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut clients: Vec<Vec<Client>> = Vec::new();
        clients.resize_with(THREADS.min(self.connections), Vec::new);
        let threads = clients.len();
        for (index, server) in (0..self.connections).zip(servers.iter().cycle()) {
            clients[index % threads].push(Client::connect(*server)?);
        }
        let start = Instant::now();
        thread::scope(|scope| {
            let drive = |(thread, clients)| {
                scope.spawn(move || self.drive(clients, (thread, threads), start, created))
            };
            let running: Vec<_> = clients.into_iter().enumerate().map(drive).collect();
            let mut all = Vec::new();
            for thread in running {
                let latencies = thread.join();
                all.extend(latencies.unwrap_or_else(|_| bail!("a thread of the load panicked"))?);
            }
            Ok(all)
        })
    }

    /// Sends this many requests, each after the answer to the one before, on one connection.
    pub(super) fn one_by_one(
        &self,
        server: SocketAddr,
        requests: u64,
        created: &AtomicU64,
    ) -> anyhow::Result<()> {
        let (mut client, mut random) = (Client::connect(server)?, fastrand::Rng::with_seed(0));
        for _ in 0..requests {
            let request = self.next_request(&mut random, created).context("no plant is left")?;
            client.send(&request, Instant::now())?;
            while !client.receive()? {}
        }
        Ok(())
    }

    fn drive(
        &self,
        mut clients: Vec<Client>,
        (thread, threads): (usize, usize),
        start: Instant,
        created: &AtomicU64,
    ) -> anyhow::Result<Vec<Duration>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, client) in (0..).zip(&clients) {
            epoll::add(&epoll, &client.stream, EventData::new_u64(index), EventFlags::IN)?;
        }
        // A fixed seed: each program gets the same requests.
        let mut random = fastrand::Rng::with_seed(thread as u64);
        let mut idle: Vec<usize> = (0..clients.len()).collect();
        let mut scheduled = thread;
        let (mut is_over, mut latencies) = (false, Vec::new());
        let mut events = Vec::with_capacity(clients.len());
        loop {
            let mut wait = RESPONSE_TIMEOUT;
            while let (false, Some(&index)) = (is_over, idle.last()) {
                let now = Instant::now();
                let offset = |rate| Duration::from_secs_f64(scheduled as f64 / rate);
                let due = self.rate.map_or(now, |rate| start + offset(rate));
                let is_before_end = due - start < self.duration;
                if is_before_end && now < due {
                    wait = due - now;
                    break;
                }
                // Only a request that is sent may take a number.
                let request =
                    is_before_end.then(|| self.next_request(&mut random, created)).flatten();
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
            // The timeout has nanoseconds, because rustix calls `epoll_pwait2`.
            epoll::wait(&epoll, spare_capacity(&mut events), Some(&Timespec::try_from(wait)?))?;
            let is_late = events.is_empty() && wait == RESPONSE_TIMEOUT;
            ensure!(!is_late, "no response in {RESPONSE_TIMEOUT:?}");
            for event in events.drain(..) {
                let index = usize::try_from(event.data.u64())?;
                if clients[index].receive()? {
                    latencies.push(clients[index].due.elapsed());
                    idle.push(index);
                }
            }
        }
    }

    /// The text of the next request, unless the last plant has been created.
    fn next_request(&self, random: &mut fastrand::Rng, created: &AtomicU64) -> Option<String> {
        let number = || {
            let next = |created| (created < self.plants_max).then_some(created + 1);
            created.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|it| it + 1)
        };
        let send = |method_and_target: &str, body: &str| {
            let head = "Content-Type: application/json\r\nContent-Length: ";
            request(method_and_target, &format!("{head}{}\r\n\r\n{body}", body.len()))
        };
        let create = |number| json(scattered(number));
        let (first, stored) = (scattered(1), scattered(random.u64(1..=self.stored.max(1))));
        Some(match self.request {
            Request::Create => send("POST /plants", &create(number()?)),
            Request::Batch => {
                let head = r#"{"method":"POST","path":"/plants","body":"#;
                let one = |number| [head, &create(number), "}"].concat();
                let all: Vec<String> =
                    (0..BATCH_CREATES).map_while(|_| number().map(one)).collect();
                send("POST /batch", &[r#"{"requests":["#, &all.join(","), "]}"].concat())
            }
            Request::Mix if random.u32(..10) == 0 => send("POST /plants", &create(number()?)),
            Request::Read | Request::Mix => request(&format!("GET /plants/{stored}"), "\r\n"),
            Request::List => request(&format!("GET /plants?limit=100&after={stored}"), "\r\n"),
            Request::Search(part) => {
                let part = part.replace(' ', "%20");
                request(&format!("GET /plants?limit=100&name={part}"), "\r\n")
            }
            Request::Change => {
                let body = format!(r#"{{"name":"Rosa number {}"}}"#, number()?);
                send(&format!("PUT /plants/{first}"), &body)
            }
            Request::History => request(&format!("GET /plants/{first}/history"), "\r\n"),
        })
    }
}

pub(super) fn request(method_and_target: &str, rest: &str) -> String {
    format!(
        "{method_and_target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{rest}"
    )
}

/// The answer to one GET.
pub(super) fn get(server: SocketAddr, target: &str) -> anyhow::Result<String> {
    let mut client = Client::connect(server)?;
    client.send(&request(&format!("GET {target}"), "\r\n"), Instant::now())?;
    while !client.receive()? {}
    Ok(String::from_utf8(client.received)?)
}

/// A connection with at most one outstanding request. Its socket blocks, but a load reads it only when it has bytes.
struct Client {
    stream: TcpStream,
    due: Instant,
    /// The bytes of the last response so far.
    received: Vec<u8>,
}

impl Client {
    fn connect(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        Ok(Self { stream, due: Instant::now(), received: Vec::new() })
    }

    fn send(&mut self, request: &str, due: Instant) -> anyhow::Result<()> {
        self.received.clear();
        self.due = due;
        self.stream.write_all(request.as_bytes()).context("cannot send a request")
    }

    /// Reads what has arrived. Returns whether the response is complete. Fails unless its status is 2xx.
    fn receive(&mut self) -> anyhow::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let length = self.stream.read(&mut chunk).context("cannot read a response")?;
        ensure!(length > 0, "the server closed the connection without a response");
        self.received.extend_from_slice(&chunk[..length]);
        let is_complete = self.is_complete()?;
        let text = || String::from_utf8_lossy(&self.received);
        let is_success = self.received.starts_with(b"HTTP/1.1 2");
        ensure!(is_success || !is_complete, "a status is not 2xx:\n{}", text());
        Ok(is_complete)
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

/// Has a server create this many plants in a folder.
pub(super) fn fill(server: &Contender, folder: &Path, plants: u64) -> anyhow::Result<()> {
    println!("{} creates {plants} plants", server.name);
    let load = Load { plants_max: plants, ..Load::new(Request::Create, Duration::MAX) };
    serve(server, 1, folder, |servers| load.run(servers, &AtomicU64::new(0)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_load_fails_if_a_status_is_not_2xx_or_the_connection_is_closed() {
        let error_of = |response: &'static str| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let server = listener.local_addr().unwrap();
            let answering = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(response.as_bytes()).unwrap();
            });
            let load = Load { connections: 1, ..Load::new(Request::Create, Duration::MAX) };
            let error = load.latencies(&[server], &AtomicU64::new(0)).unwrap_err().to_string();
            answering.join().unwrap();
            error
        };
        let error = error_of("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        assert!(error.starts_with("a status is not 2xx:\nHTTP/1.1 503"), "{error}");
        let error = error_of("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}");
        assert!(error.contains("closed the connection"), "{error}");
    }
}
