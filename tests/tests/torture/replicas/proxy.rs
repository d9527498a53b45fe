//! What is between servers and PostgreSQL, and can be disturbed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// How much is sent on at a time at most.
const BUFFER: usize = 8192;

/// How much later what was sent may come where its connection is cut, in milliseconds.
const LATE_MS: u64 = 300;

/// What a client sends to commit.
const COMMIT: &[u8] = b"COMMIT\0";

/// How the statement begins that commits by itself, where it is prepared.
const CREATE: &[u8] = b"\0WITH block AS";

/// One commit in so many is cut, when some are.
const CUT_COMMITS: u8 = 8;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// They are sent on.
    Open,
    /// They are kept, and sent on when the way is open again, also where the sender is gone by then.
    Held,
    /// They are lost, and nobody is told. When the way is open again, such connections are cut.
    Lost,
}

/// Takes connections, and carries each on to PostgreSQL, until this is dropped.
pub(super) struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    _end: oneshot::Sender<()>,
}

struct Control {
    target: SocketAddr,
    way: watch::Sender<Way>,
    /// Changes with each cut of all connections.
    cuts: watch::Sender<u64>,
    /// Where it is not 0, each new connection is cut after less bytes than this in one of its directions.
    cut_within: AtomicUsize,
    /// Whether some connections are cut just when a commit is sent.
    cuts_commits: AtomicBool,
    /// Whether the answer of the next commit is lost, and the way is held from then on.
    loses_answer: AtomicBool,
    /// How many connections were cut.
    cut: AtomicUsize,
}

impl Proxy {
    /// One before a port of this machine.
    pub(super) fn before(port: u16) -> Self {
        let control = Arc::new(Control {
            target: SocketAddr::from(([127, 0, 0, 1], port)),
            way: watch::Sender::new(Way::Open),
            cuts: watch::Sender::new(0),
            cut_within: AtomicUsize::new(0),
            cuts_commits: AtomicBool::new(false),
            loses_answer: AtomicBool::new(false),
            cut: AtomicUsize::new(0),
        });
        let (end, is_over) = oneshot::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a socket can be told so");
        let address = listener.local_addr().expect("it has an address");
        thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime can be made").block_on(async {
                    let listener = TcpListener::from_std(listener).expect("it is a socket");
                    tokio::select! {
                        () = take_connections(&listener, &control) => {}
                        _ = is_over => {}
                    }
                });
            }
        });
        Self { address, control, _end: end }
    }

    /// The URL of PostgreSQL behind it.
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address)
    }

    /// From now on this happens to bytes.
    pub(super) fn set_way(&self, way: Way) {
        self.control.way.send_replace(way);
    }

    /// Cuts all connections that there are.
    pub(super) fn cut_all(&self) {
        self.control.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// From now on each new connection is cut after less than so many bytes in one direction; with 0 none is.
    pub(super) fn cut_new_within(&self, bytes: usize) {
        self.control.cut_within.store(bytes, Ordering::Relaxed);
    }

    /// From now on some connections are cut when a commit is sent, which comes to PostgreSQL, late or not; or none
    /// is.
    pub(super) fn set_cuts_commits(&self, cuts_commits: bool) {
        self.control.cuts_commits.store(cuts_commits, Ordering::Relaxed);
    }

    /// Cuts the next connection that sends a commit when PostgreSQL has that, and holds all others from then on.
    pub(super) fn lose_answer_of_commit(&self) {
        self.control.loses_answer.store(true, Ordering::Relaxed);
    }

    /// How many connections were cut.
    pub(super) fn cut(&self) -> usize {
        self.control.cut.load(Ordering::Relaxed)
    }
}

/// What becomes of a commit.
enum Fate {
    Sent,
    Cut,
    Late(Duration),
}

impl Control {
    fn fate_of_commit(&self) -> Fate {
        if self.loses_answer.swap(false, Ordering::Relaxed) {
            self.way.send_replace(Way::Held);
            return Fate::Late(Duration::ZERO);
        }
        if !self.cuts_commits.load(Ordering::Relaxed) || fastrand::u8(..CUT_COMMITS) > 0 {
            return Fate::Sent;
        }
        match fastrand::u8(..3) {
            0 => Fate::Cut,
            1 => Fate::Late(Duration::ZERO),
            _ => Fate::Late(any_delay()),
        }
    }
}

async fn take_connections(listener: &TcpListener, control: &Arc<Control>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(carry(client, Arc::clone(control)));
    }
}

/// Carries one connection to its end.
async fn carry(mut client: TcpStream, control: Arc<Control>) {
    // PostgreSQL may be away: then the client is too.
    let Ok(mut server) = TcpStream::connect(control.target).await else { return };
    let cut_within = control.cut_within.load(Ordering::Relaxed);
    let bytes = (cut_within > 0).then(|| fastrand::usize(..cut_within));
    let is_first = fastrand::bool();
    let end = {
        let mut cuts = control.cuts.subscribe();
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();

        tokio::select! {
            end = pump(from_client, to_server, &control, bytes.filter(|_| is_first), true) => end,
            end = pump(from_server, to_client, &control, bytes.filter(|_| !is_first), false) => match end {
                End::Late(..) => End::Cut,
                end => end,
            },
            _ = cuts.changed() => End::Cut,
        }
    };
    if end == End::Over {
        return;
    }
    control.cut.fetch_add(1, Ordering::Relaxed);
    // Half of them end with a reset, the others as if someone had closed them.
    let is_late = matches!(end, End::Late(..));
    for stream in [Some(&client), Some(&server).filter(|_| !is_late)].into_iter().flatten() {
        if fastrand::bool() {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
    drop(client);
    if let End::Late(rest, late) = end {
        // What was sent comes to PostgreSQL all the same, while its client looks what became of it.
        tokio::time::sleep(late).await;
        if server.write_all(&rest).await.is_ok() && server.shutdown().await.is_ok() {
            let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
        }
    }
}

/// How a connection ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// One of both has ended it.
    Over,
    Cut,
    /// It is cut, and this is sent on so much later: a server to which nobody listens does no more.
    Late(Vec<u8>, Duration),
}

fn any_end(rest: &[u8]) -> End {
    if fastrand::bool() { End::Cut } else { End::Late(rest.to_vec(), any_delay()) }
}

fn any_delay() -> Duration {
    Duration::from_millis(fastrand::u64(..LATE_MS))
}

/// Sends on what comes, to the end, or to so many bytes.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    control: &Control,
    mut bytes_left: Option<usize>,
    is_from_client: bool,
) -> End {
    let mut way = control.way.subscribe();
    // How the statement that commits by itself is asked for, by the name that it was given.
    let mut create: Option<Vec<u8>> = None;
    let (mut buffer, mut has_lost) = ([0; BUFFER], false);
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            is_open = way.wait_for(|way| has_lost && *way == Way::Open) => {
                drop(is_open);
                return End::Cut;
            }
        };
        let Ok(length @ 1..) = read else { return End::Over };
        let Ok(current) = way.wait_for(|way| *way != Way::Held).await.map(|way| *way) else {
            return End::Over;
        };
        if current == Way::Lost {
            has_lost = true;
            continue;
        }
        if has_lost {
            return End::Cut;
        }
        let sent_now = &buffer[..length];
        if let Some(end) = sent_now.windows(CREATE.len()).position(|bytes| bytes == CREATE) {
            let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric();
            let name = sent_now[..end].iter().rev().take_while(is_of_name).count();
            create = Some([b"\0", &sent_now[end - name..end], b"\0"].concat());
        }
        let has = |wanted: &[u8]| sent_now.windows(wanted.len()).any(|bytes| bytes == wanted);
        let has_commit = || has(COMMIT) || create.as_deref().is_some_and(has);
        if is_from_client && has_commit() {
            match control.fate_of_commit() {
                Fate::Sent => {}
                Fate::Cut => return End::Cut,
                Fate::Late(late) => return End::Late(buffer[..length].to_vec(), late),
            }
        }
        let sent = bytes_left.map_or(length, |left| left.min(length));
        if to.write_all(&buffer[..sent]).await.is_err() {
            return End::Over;
        }
        match &mut bytes_left {
            Some(left) if *left == sent => return any_end(&buffer[sent..length]),
            Some(left) => *left -= sent,
            None => {}
        }
    }
}
