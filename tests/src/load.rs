//! Thousands of clients in one thread.

use std::cell::{Cell, RefCell};
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

use crate::DEADLINE;
use crate::answer::Answer;
use crate::connection::create_request;
use crate::plant::plant_body;
use crate::torture::Latencies;

/// Raises the descriptor limit of this process and its children to the hard limit.
pub fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .expect("the soft limit may be raised to the hard one");
}

/// Runs clients as tasks on one thread, until `clients` is done.
pub fn run_load<T>(clients: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime can be made"), clients)
}

/// The outcome of a create under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// The plant is on disk.
    Created,
    /// The server was too busy and wrote nothing. The client may try again after this time.
    Refused(Duration),
}

impl LoadOutcome {
    /// Asserts that an answer is the success of a create, or 503 with error 5003 and `Retry-After`.
    #[track_caller]
    pub fn of(answer: &Answer) -> Self {
        if answer.status == 200 {
            return Self::Created;
        }
        answer.assert_error(503, 5003);
        let seconds = answer.header("retry-after").and_then(|seconds| seconds.parse().ok());
        Self::Refused(Duration::from_secs(seconds.expect("a refusal has Retry-After")))
    }
}

/// One of thousands of connections.
#[derive(Debug)]
pub struct LoadConnection {
    stream: TcpStream,
    /// Bytes that have arrived and belong to no answer yet.
    received: Vec<u8>,
}

impl LoadConnection {
    /// A new connection.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Receives the next answer, which must have a `Content-Length`.
    pub async fn receive(&mut self) -> io::Result<Answer> {
        loop {
            if let Some((head, mut answer)) = Answer::parse_head(&self.received)? {
                let end = head + answer.body_length()?;
                if let Some(body) = self.received.get(head..end) {
                    answer.body = body.to_vec();
                    self.received.drain(..end);
                    return Ok(answer);
                }
            }
            if self.receive_some().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits until the server has closed the connection, and discards what arrives before.
    pub async fn wait_for_close(&mut self) -> io::Result<()> {
        loop {
            match self.receive_some().await {
                Ok(0) => return Ok(()),
                Err(cause) if cause.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Ok(_) => self.received.clear(),
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Fails if the server sends nothing for longer than any of its deadlines.
    async fn receive_some(&mut self) -> io::Result<usize> {
        let received = self.stream.read_buf(&mut self.received);
        timeout(DEADLINE, received).await.map_err(|_| ErrorKind::TimedOut)?
    }
}

/// Concurrent clients, each of which creates one plant after the other on its own connection. They honor
/// `Retry-After`.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// The number of clients.
    pub clients: u32,
    /// How many plants each client creates. Without a number, each creates as many as it can.
    pub creates_each: Option<u32>,
    /// How long clients keep starting creates.
    pub duration: Duration,
    /// The id of the first plant; the others follow it.
    pub first_id: i64,
}

/// What a crowd achieved.
#[derive(Debug, Default)]
pub struct CrowdReport {
    /// The number of created plants.
    pub created: u64,
    /// The number of successful creates of the client with the fewest.
    pub fewest_created: u64,
    /// The number of clients that created all their plants.
    pub done_clients: u32,
    /// The time from the first request to the last answer.
    pub elapsed: Duration,
    /// The latencies of the successful requests.
    pub creating: Latencies,
    /// The latencies of the refused requests.
    pub refusing: Latencies,
}

impl CrowdReport {
    /// Created plants per second.
    #[allow(clippy::cast_precision_loss, reason = "it is a figure for people")]
    pub fn rate(&self) -> f64 {
        self.created as f64 / self.elapsed.as_secs_f64()
    }
}

/// The state that the clients of a crowd share.
struct Shared {
    crowd: Crowd,
    address: SocketAddr,
    next_id: Cell<i64>,
    /// The clients begin together, once all are connected.
    begin: Barrier,
    report: RefCell<CrowdReport>,
}

impl Crowd {
    /// Runs until all clients are done, or the time is over and every request is answered.
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
                .map(|_| tokio::task::spawn_local(create_plants(Rc::clone(&shared))))
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

async fn create_plants(shared: Rc<Shared>) {
    let Crowd { creates_each, duration, .. } = shared.crowd;
    let wanted = creates_each.map_or(u64::MAX, u64::from);
    let mut connection = LoadConnection::open(shared.address).await.expect("a connection");
    shared.begin.wait().await;
    let begun = Instant::now();
    let mut created = 0;
    'creates: while created < wanted {
        let id = shared.next_id.replace(shared.next_id.get() + 1);
        let request = create_request(&plant_body(id, "Rosa canina", Some("Rosaceae")));
        loop {
            if begun.elapsed() > duration {
                break 'creates;
            }
            let sent = Instant::now();
            connection.send(&request).await.expect("the server takes the request");
            let answer = connection.receive().await.expect("every request is answered");
            let (outcome, latency) = (LoadOutcome::of(&answer), sent.elapsed());
            shared.count(outcome, latency, begun.elapsed());
            match outcome {
                LoadOutcome::Created => break,
                // Jitter keeps the clients from retrying all at once.
                LoadOutcome::Refused(retry_after) => {
                    sleep(retry_after.mul_f64(1.0 + fastrand::f64() / 2.0)).await;
                }
            }
        }
        created += 1;
    }
    let mut report = shared.report.borrow_mut();
    report.fewest_created = report.fewest_created.min(created);
    report.done_clients += u32::from(created == wanted);
}
