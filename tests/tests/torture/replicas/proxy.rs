//! A proxy between the servers and PostgreSQL, which disturbs their connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// The size of the forwarding buffer, in bytes.
const BUFFER: usize = 8192;

/// The longest delay of the last bytes of a cut connection, in milliseconds.
const LATE_MS: u64 = 300;

/// The message that commits, as PostgreSQL gets it.
const COMMIT: &[u8] = b"COMMIT\0";

/// The beginning of the prepared statement that commits by itself.
const CREATE: &[u8] = b"\0WITH block AS";

/// When commits are cut, one in this many is.
const CUT_COMMITS: u8 = 8;

/// The same for the statement that commits by itself, which is rare while most writes are to existing plants.
const CUT_CREATES: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Network {
    #[default]
    Open,
    /// Bytes are held, and forwarded once the network is open again, even if the sender has disconnected.
    Held,
    /// Bytes are lost silently. Once the network is open again, connections that lost some are cut.
    Lost,
}

/// Forwards connections to PostgreSQL, until this is dropped.
pub(super) struct Proxy {
    address: SocketAddr,
    pub(super) control: Arc<Control>,
    _end: oneshot::Sender<()>,
}

/// What tests change while a proxy runs.
#[derive(Default)]
pub(super) struct Control {
    network: watch::Sender<Network>,
    /// Changes with each cut of all connections.
    cuts: watch::Sender<u64>,
    /// If not 0, each new connection is cut after fewer bytes than this in one direction.
    pub(super) cut_within: AtomicUsize,
    /// Whether to cut some connections at a commit, which may still reach PostgreSQL later.
    pub(super) cuts_commits: AtomicBool,
    /// Whether to cut the connection of the next commit as soon as PostgreSQL has the commit, and then to hold all
    /// bytes.
    pub(super) loses_answer: AtomicBool,
    /// How many connections were cut.
    pub(super) cut: AtomicUsize,
    /// How many of them were cut at the statement that commits by itself.
    pub(super) cut_at_create: AtomicUsize,
    /// How many of them were cut at a `COMMIT`.
    pub(super) cut_at_commit: AtomicUsize,
}

impl Proxy {
    /// A proxy in front of a port of this machine.
    pub(super) fn before(port: u16) -> Self {
        let control = Arc::<Control>::default();
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        let (end, is_over) = oneshot::channel();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a socket can be told so");
        let address = listener.local_addr().expect("the listener has an address");
        thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime can be made").block_on(async {
                    let listener =
                        TcpListener::from_std(listener).expect("the listener is a socket");
                    tokio::select! {
                        () = take_connections(&listener, target, &control) => {}
                        _ = is_over => {}
                    }
                });
            }
        });
        Self { address, control, _end: end }
    }

    /// The URL of PostgreSQL through the proxy.
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address)
    }
}

impl Control {
    pub(super) fn set_network(&self, network: Network) {
        self.network.send_replace(network);
    }

    pub(super) fn cut_all(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How a connection ends at a commit; `None` if it does not. PostgreSQL does not have the bytes `commit` yet; one
    /// commit in `cut_one_in` is cut.
    fn end_at_commit(&self, commit: &[u8], cut_one_in: u8) -> Option<End> {
        let late = |delay| Some(End::Late(commit.to_vec(), delay));
        if self.loses_answer.swap(false, Ordering::Relaxed) {
            self.set_network(Network::Held);
            return late(Duration::ZERO);
        }
        if !self.cuts_commits.load(Ordering::Relaxed) || fastrand::u8(..cut_one_in) > 0 {
            return None;
        }
        match fastrand::u8(..3) {
            0 => Some(End::Cut),
            1 => late(Duration::ZERO),
            _ => late(any_delay()),
        }
    }
}

async fn take_connections(listener: &TcpListener, target: SocketAddr, control: &Arc<Control>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(carry(client, target, Arc::clone(control)));
    }
}

/// Forwards one connection up to its end.
async fn carry(mut client: TcpStream, target: SocketAddr, control: Arc<Control>) {
    // If PostgreSQL is away, the client is disconnected.
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    // Nagle's algorithm would delay each answer by 40 ms, until the acknowledgment of the one before.
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return;
    }
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
    // Half of them end with a reset, the others with a close.
    let is_late = matches!(end, End::Late(..));
    for stream in [Some(&client), Some(&server).filter(|_| !is_late)].into_iter().flatten() {
        if fastrand::bool() {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
    drop(client);
    if let End::Late(rest, late) = end {
        // The bytes reach PostgreSQL while the server already looks for their outcome.
        tokio::time::sleep(late).await;
        if server.write_all(&rest).await.is_ok() && server.shutdown().await.is_ok() {
            let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    /// A side has closed it.
    Over,
    Cut,
    /// It is cut, and these bytes reach PostgreSQL after this delay.
    Late(Vec<u8>, Duration),
}

fn any_end(rest: &[u8]) -> End {
    if fastrand::bool() { End::Cut } else { End::Late(rest.to_vec(), any_delay()) }
}

fn any_delay() -> Duration {
    Duration::from_millis(fastrand::u64(..LATE_MS))
}

/// Forwards one direction until the end, or for this many bytes.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    control: &Control,
    mut bytes_left: Option<usize>,
    is_from_client: bool,
) -> End {
    let mut network = control.network.subscribe();
    // The name of the prepared statement that commits by itself, as messages contain it.
    let mut create: Option<Vec<u8>> = None;
    let (mut buffer, mut has_lost) = ([0; BUFFER], false);
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            is_open = network.wait_for(|network| has_lost && *network == Network::Open) => {
                drop(is_open);
                return End::Cut;
            }
        };
        let Ok(length @ 1..) = read else { return End::Over };
        let Ok(current) =
            network.wait_for(|network| *network != Network::Held).await.map(|network| *network)
        else {
            return End::Over;
        };
        if current == Network::Lost {
            has_lost = true;
            continue;
        }
        if has_lost {
            return End::Cut;
        }
        let sent_now = &buffer[..length];
        if let Some(end) = sent_now.windows(CREATE.len()).position(|bytes| bytes == CREATE) {
            // Names are `s` and a number. The bytes of a length come before, and may look like letters.
            let digits = sent_now[..end].iter().rev().take_while(|byte| byte.is_ascii_digit());
            let name = &sent_now[end.saturating_sub(digits.count() + 1)..end];
            create = Some([b"\0", name, b"\0"].concat());
        }
        let has = |wanted: &[u8]| sent_now.windows(wanted.len()).any(|bytes| bytes == wanted);
        let cut_here = if has(COMMIT) {
            Some((&control.cut_at_commit, CUT_COMMITS))
        } else {
            let is_create = create.as_deref().is_some_and(has);
            is_create.then_some((&control.cut_at_create, CUT_CREATES))
        };
        if is_from_client
            && let Some((cut_here, cut_one_in)) = cut_here
            && let Some(end) = control.end_at_commit(sent_now, cut_one_in)
        {
            cut_here.fetch_add(1, Ordering::Relaxed);
            return end;
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
