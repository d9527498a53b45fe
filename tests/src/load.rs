//! Thousands of clients in one thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Barrier;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::connection::create_request;
use crate::plant::plant_body;

/// How many headers an answer has at most.
const MAX_HEADERS: usize = 32;

/// How long a client waits for one answer, or for a connection to be closed, before it takes the server
/// for dead. It is longer than any deadline of the server.
const ANSWER_DEADLINE: Duration = Duration::from_secs(120);

/// Lets this process, and those that it starts, have as many descriptors as it may.
///
/// # Panics
///
/// When the operating system refuses what it says to be allowed.
pub fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .expect("the soft limit may be raised to the hard one");
}

/// Runs clients that wait without a thread of their own, until `clients` is done.
///
/// # Panics
///
/// When the operating system refuses what that needs.
pub fn run_load<T>(clients: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime can be made"), clients)
}

/// What a client of a crowd needs to know of an answer.
#[derive(Debug)]
pub struct LoadAnswer {
    /// The status code.
    pub status: u16,
    /// After how long the client may try again.
    pub retry_after: Option<Duration>,
    /// Whether the server says that it closes the connection.
    pub closes: bool,
    /// The body.
    pub body: Vec<u8>,
}

/// What a create comes to under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// The plant is on disk.
    Created,
    /// The server was too busy, and nothing was written: try again after this time.
    Refused(Duration),
}

impl LoadAnswer {
    /// Claims that it is the success of a create, or 503 with 5003 and `Retry-After`.
    ///
    /// # Panics
    ///
    /// When it is something else.
    #[must_use]
    #[track_caller]
    pub fn create_outcome(&self) -> LoadOutcome {
        let is_busy = || {
            serde_json::from_slice::<serde_json::Value>(&self.body)
                .is_ok_and(|body| body["error"] == 5003)
        };
        match (self.status, self.retry_after) {
            (200, _) => LoadOutcome::Created,
            (503, Some(retry_after)) if is_busy() => LoadOutcome::Refused(retry_after),
            _ => panic!("neither a plant nor 5003: {self:?}"),
        }
    }
}

/// One of thousands of connections.
#[derive(Debug)]
pub struct LoadConnection {
    stream: TcpStream,
    /// What has arrived and belongs to no answer yet.
    received: Vec<u8>,
}

impl LoadConnection {
    /// A new connection.
    ///
    /// # Errors
    ///
    /// When the server takes none.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends bytes.
    ///
    /// # Errors
    ///
    /// When the server does not take them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Receives the next answer, whose body has a length.
    ///
    /// # Errors
    ///
    /// When none comes.
    pub async fn receive(&mut self) -> io::Result<LoadAnswer> {
        loop {
            if let Some((length, answer)) = parse(&self.received)? {
                self.received.drain(..length);
                return Ok(answer);
            }
            if self.receive_some().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits until the server has closed the connection, and says how many bytes came before.
    ///
    /// # Errors
    ///
    /// When the server keeps it.
    pub async fn wait_for_close(&mut self) -> io::Result<usize> {
        let mut length = 0;
        loop {
            match self.receive_some().await {
                Ok(0) => return Ok(length),
                Ok(more) => length += more,
                Err(cause) if cause.kind() == ErrorKind::ConnectionReset => return Ok(length),
                Err(cause) => return Err(cause),
            }
            self.received.clear();
        }
    }

    async fn receive_some(&mut self) -> io::Result<usize> {
        let received = self.stream.read_buf(&mut self.received);
        timeout(ANSWER_DEADLINE, received).await.map_err(|_| ErrorKind::TimedOut)?
    }
}

/// The first answer in `bytes` and its length, when it is whole.
fn parse(bytes: &[u8]) -> io::Result<Option<(usize, LoadAnswer)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_length) = head.parse(bytes).map_err(io::Error::other)?
    else {
        return Ok(None);
    };
    let header = |name: &str| {
        let header = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let length: usize = match header("content-length").map(str::parse) {
        Some(Ok(length)) => length,
        None if head.code == Some(100) => 0,
        other => return Err(io::Error::other(format!("body length {other:?}"))),
    };
    let Some(body) = bytes.get(head_length..head_length + length) else { return Ok(None) };
    let answer = LoadAnswer {
        status: head.code.unwrap_or_default(),
        retry_after: header("retry-after").and_then(|s| s.parse().ok()).map(Duration::from_secs),
        closes: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
        body: body.to_vec(),
    };
    Ok(Some((head_length + length, answer)))
}

/// Clients that create plants at the same time, each on a connection of its own and one plant after the
/// other. They honor `Retry-After`.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many they are.
    pub clients: u32,
    /// How many plants each of them creates before it is done; without it, as many as it can.
    pub creates_each: Option<u32>,
    /// For how long they begin creates.
    pub duration: Duration,
    /// The id of the first plant; the others follow it.
    pub first_id: i64,
}

/// What came out for a crowd.
#[derive(Debug, Default)]
pub struct CrowdReport {
    /// How many plants were created.
    pub created: u64,
    /// How many creates of the client with the fewest of them succeeded.
    pub fewest_created: u64,
    /// How many clients got through with all that they wanted.
    pub done_clients: u32,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// How long the successful requests took.
    pub creating: Latencies,
    /// How long the requests took that were refused.
    pub refusing: Latencies,
}

impl CrowdReport {
    /// How many plants were created in a second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "it is a figure for people")]
    pub fn rate(&self) -> f64 {
        self.created as f64 / self.elapsed.as_secs_f64()
    }
}

/// How long requests took.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// How many they were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// One more.
    pub fn push(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// What `percent` of them did not take longer than.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, all] =
            [50, 99, 100].map(|percent| self.percentile(percent).as_secs_f64() * 1000.0);
        write!(formatter, "p50 {p50:.1} ms, p99 {p99:.1} ms, longest {all:.1} ms")
    }
}

/// What the clients of a crowd share.
struct Shared {
    crowd: Crowd,
    address: SocketAddr,
    next_id: Cell<i64>,
    /// They begin together, when all of them are connected.
    begin: Barrier,
    report: RefCell<CrowdReport>,
}

impl Crowd {
    /// Runs until everyone is done, or the time is over and everyone has the answer to what it has sent.
    ///
    /// # Panics
    ///
    /// When an answer does not come, or is neither a plant nor 503 with 5003 and `Retry-After`.
    #[must_use]
    pub fn run(self, address: SocketAddr) -> CrowdReport {
        run_load(async move {
            let shared = Rc::new(Shared {
                crowd: self,
                address,
                next_id: Cell::new(self.first_id),
                begin: Barrier::new(usize::try_from(self.clients).expect("a usize has 32 bits")),
                report: RefCell::new(CrowdReport {
                    fewest_created: u64::MAX,
                    ..CrowdReport::default()
                }),
            });
            let clients: Vec<_> = (0..self.clients)
                .map(|_| tokio::task::spawn_local(client(Rc::clone(&shared))))
                .collect();
            for client in clients {
                client.await.expect("no client panicked");
            }
            shared.report.take()
        })
    }
}

impl Shared {
    fn count(&self, outcome: LoadOutcome, latency: Duration, elapsed: Duration) {
        let mut report = self.report.borrow_mut();
        report.elapsed = report.elapsed.max(elapsed);
        match outcome {
            LoadOutcome::Created => {
                report.created += 1;
                report.creating.push(latency);
            }
            LoadOutcome::Refused(_) => report.refusing.push(latency),
        }
    }
}

async fn client(shared: Rc<Shared>) {
    let Crowd { creates_each, duration, .. } = shared.crowd;
    let mut connection = LoadConnection::open(shared.address).await.expect("a connection");
    shared.begin.wait().await;
    let begun = Instant::now();
    let mut created = 0;
    'creates: while creates_each.is_none_or(|creates| created < u64::from(creates)) {
        let id = shared.next_id.replace(shared.next_id.get() + 1);
        let request = create_request(&plant_body(id, "Rosa canina", Some("Rosaceae")));
        loop {
            if begun.elapsed() > duration {
                break 'creates;
            }
            let sent = Instant::now();
            connection.send(&request).await.expect("the server takes the request");
            let answer = connection.receive().await.expect("every request is answered");
            let (outcome, latency) = (answer.create_outcome(), sent.elapsed());
            shared.count(outcome, latency, begun.elapsed());
            match outcome {
                LoadOutcome::Created => break,
                LoadOutcome::Refused(retry_after) => {
                    // Some later than others, so that they do not all come back at once.
                    sleep(retry_after.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
                }
            }
        }
        created += 1;
    }
    let mut report = shared.report.borrow_mut();
    report.fewest_created = report.fewest_created.min(created);
    if creates_each.is_some_and(|creates| created == u64::from(creates)) {
        report.done_clients += 1;
    }
}
