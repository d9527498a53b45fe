//! More clients than the server has room for, and clients that occupy connections without using them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::{Latencies, Report, is_long, time, times};
use plantd_tests::{
    Client, Crowd, CrowdReport, Format, Launch, LoadConnection, NewPlant, TOKEN, TestServer,
    create_request, plant_body, raise_descriptor_limit, raw_head, run_load, wait_until,
};
use tokio::sync::watch;
use tokio::time::timeout;

/// The memory limit of a connection: less than its buffers would take if they were kept.
const CONNECTION_KIB: u64 = 24;

/// The memory limit for the growth of the store.
fn store_kib() -> u64 {
    u64::from(times(24, 256)) * 1024
}

/// How much later than its deadline the server may close a connection, on a busy machine.
const CLOSE_SLACK: Duration = Duration::from_secs(10);

/// The thread that syncs before anything is acknowledged.
const COMMIT_THREAD: &str = "plant-commit";

const SLOW_SYNC: Duration = Duration::from_millis(500);

fn usize_of(number: u32) -> usize {
    usize::try_from(number).expect("a usize has 32 bits")
}

/// A server's state with few connections, to compare with its state under load.
struct Base {
    client: Client,
    sockets: usize,
    peak_kib: u64,
}

impl Base {
    /// Waits for a first answer, because the server then has all its threads.
    fn of_started(server: &mut TestServer) -> Self {
        let client = server.client();
        assert_eq!(client.get("/livez").status, 200);
        Self { client, sockets: server.process().sockets(), peak_kib: 0 }
    }

    /// Records the peak of the memory so far, and resets it.
    fn take_memory(&mut self, server: &mut TestServer) {
        self.peak_kib = server.process().peak_resident_kib();
        server.process().reset_peak_resident();
    }

    /// Asserts that all connections are closed again, and that only they have made the memory grow. Returns the
    /// peaks, now and before, in MiB.
    #[track_caller]
    fn assert_bounded(&self, server: &mut TestServer, connections: u32) -> (u64, u64) {
        wait_until("the connections to be closed", || server.process().sockets() <= self.sockets);
        let peak_kib = server.process().peak_resident_kib();
        let grown_kib = peak_kib.saturating_sub(self.peak_kib);
        let bound_kib = store_kib() + u64::from(connections) * CONNECTION_KIB;
        assert!(grown_kib <= bound_kib, "{grown_kib} KiB more for {connections} connections");
        (peak_kib / 1024, self.peak_kib / 1024)
    }
}

#[test]
fn clients_too_many_for_a_slow_disk_are_refused_and_create_all_their_plants_in_the_end() {
    // More than fit into the queue and a group.
    const CLIENTS: u32 = 3000;
    raise_descriptor_limit();
    let creates_each = times(2, 10);
    let mut server = TestServer::start();
    let mut base = Base::of_started(&mut server);
    let crowd = Crowd {
        clients: CLIENTS,
        creates_each: Some(creates_each),
        duration: Duration::from_secs(300),
        first_id: 1,
    };
    let few = Crowd { clients: 100, creates_each: Some(3), first_id: -1_000_000, ..crowd };
    let of_few = few.run(server.address()).created;
    base.take_memory(&mut server);
    // On a machine that is busy with other tests, all of the clients arrive during one sync only if the sync is longer.
    let slow_sync = SLOW_SYNC * times(4, 1);
    let slow = server.process().slow_down_syncs(COMMIT_THREAD, slow_sync);
    let report = crowd.run(server.address());
    drop(slow);
    assert_eq!(report.done_clients, CLIENTS, "a client starved");
    assert_eq!(report.created, u64::from(CLIENTS * creates_each));
    assert!(report.refusing.count() > 0, "nobody was refused");
    let total = base.client.list("limit=1");
    assert_eq!(total.header("x-total-count"), Some(&*(of_few + report.created).to_string()));
    let (peak_mib, before_mib) = base.assert_bounded(&mut server, CLIENTS);
    Report {
        test: "load",
        promise: "A server that is too busy says so at once, and no client starves",
        disturbances: format!(
            "{} clients at once, {} for each sync of the disk",
            CLIENTS,
            time(slow_sync)
        ),
        losses: format!("0 of {} creates", report.created),
        details: format!(
            "{} refusals, {} each; {peak_mib} MiB of memory at most, {before_mib} MiB before",
            report.refusing.count(),
            report.refusing
        ),
    }
    .print();
}

/// The numbers of clients in the search for the best.
const TRIED: [u32; 6] = [16, 32, 64, 128, 256, 512];

/// How often each of them is tried.
const SEARCH_ROUNDS: usize = 3;

/// The number of clients to compare a crowd with, without a search for the best.
const FEW: u32 = 64;

/// Ten times the clients must get at least this share of the best rate. On the machine of `docs/reliability.md`, even
/// a server that stores nothing falls to two thirds, because the state of so many connections exceeds the processor's
/// caches; other work on the machine costs more.
const LEAST_SHARE: f64 = 0.4;

/// More clients than the queue holds, which is 1024.
const TOO_MANY: u32 = 4096;

/// The run of a crowd on a new server, because a filled store is slower.
struct CrowdRun {
    report: CrowdReport,
    peak_mib: u64,
    before_mib: u64,
}

impl CrowdRun {
    fn of(clients: u32, duration: Duration) -> Self {
        let mut server = TestServer::start();
        let mut base = Base::of_started(&mut server);
        let few = Crowd { clients: FEW, creates_each: None, duration: duration / 8, first_id: 1 };
        assert!(few.run(server.address()).created > 0);
        base.take_memory(&mut server);
        let crowd = Crowd { clients, duration, first_id: 1_000_000_000, ..few };
        let report = crowd.run(server.address());
        // Some of too many clients may wait for longer than this run.
        let may_wait = clients == TOO_MANY;
        assert!(report.fewest_created > 0 || may_wait, "one of {clients} clients got nothing");
        let (peak_mib, before_mib) = base.assert_bounded(&mut server, clients);
        Self { report, peak_mib, before_mib }
    }
}

/// Runs these numbers of clients in turn, every other round in reverse, so that changes in the machine's speed affect
/// all of them. Returns the runs of each number.
fn in_turns<const N: usize>(
    numbers: [u32; N],
    rounds: usize,
    duration: Duration,
) -> [Vec<CrowdRun>; N] {
    let mut runs = numbers.map(|_| Vec::new());
    for round in 0..rounds {
        let mut turns: Vec<usize> = (0..N).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            runs[turn].push(CrowdRun::of(numbers[turn], duration));
        }
    }
    runs
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn median_rate(runs: &[CrowdRun]) -> f64 {
    median(runs.iter().map(|run| run.report.rate()))
}

/// The median of the ratios of two rates in the same round.
fn median_ratio(runs: &[CrowdRun], to: &[CrowdRun]) -> f64 {
    median(runs.iter().zip(to).map(|(run, to)| run.report.rate() / to.report.rate()))
}

fn best_number() -> u32 {
    let runs = in_turns(TRIED, SEARCH_ROUNDS, Duration::from_secs(4));
    let rates = runs.map(|runs| median_rate(&runs));
    let best = rates.iter().zip(TRIED).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or(TRIED[0], |(_, clients)| clients)
}

#[allow(clippy::cast_precision_loss, reason = "it is a figure for people")]
fn percentage(part: usize, all: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / all as f64)
}

#[test]
fn with_ten_times_the_clients_of_its_best_rate_the_server_goes_on() {
    raise_descriptor_limit();
    let rounds = times(1, 7);
    let duration = Duration::from_secs(u64::from(times(1, 8)));
    // The short form asserts nothing about rates, so it needs no best number.
    let best = if is_long() { best_number() } else { FEW };
    let crowded = 10 * best;
    let [alone, mut crowd, mut too_many] =
        in_turns([best, crowded, TOO_MANY], usize_of(rounds), duration);

    let ratio = median_ratio(&crowd, &alone);
    let rates = [&alone, &crowd].map(|runs| format!("{:.0}", median_rate(runs)));
    let created: u64 = crowd.iter().map(|run| run.report.created).sum();
    let fewest = crowd.iter().map(|run| run.report.fewest_created).min().unwrap_or_default();
    let last = crowd.pop().expect("there is a round").report;
    Report {
        test: "load",
        promise: "Ten times the clients get at least 40 % of the best rate",
        disturbances: format!("{crowded} clients instead of {best}, {rounds} rounds in turns"),
        losses: format!("0 of {created} creates"),
        details: format!("{} creates/s with {best} clients, {} with {crowded} (medians); {ratio:.2} is the median of the \
             ratios; at least {fewest} creates for each client; a create took {}; {} refusals", rates[0], rates[1], last.creating, last.refusing.count()),
    }
    .print();

    let ratio_of_too_many = median_ratio(&too_many, &alone);
    let created: u64 = too_many.iter().map(|run| run.report.created).sum();
    let CrowdRun { report: last, peak_mib, before_mib } = too_many.pop().expect("there is a round");
    let refused = last.refusing.count();
    Report {
        test: "load",
        promise: "With more clients than its queue has room for the server goes on",
        disturbances: format!("{} clients at once, {rounds} rounds in turns", TOO_MANY),
        losses: format!("0 of {created} creates"),
        details: format!(
            "{ratio_of_too_many:.2} of the best rate (median); {} of the answers are refusals, {} each; \
             {peak_mib} MiB of memory at most, {before_mib} MiB with {FEW} clients",
            percentage(refused, last.created + refused as u64),
            last.refusing
        ),
    }
    .print();
    // The long form measures, on an otherwise idle machine.
    assert!(!is_long() || ratio >= LEAST_SHARE, "only {ratio:.2} of the best rate is left");
}

/// How a client occupies a connection.
#[derive(Clone, Copy, Debug)]
enum Nuisance {
    Silent,
    /// It sends its first head byte by byte.
    SlowFirstHead,
    /// It sends its second head byte by byte.
    SlowLaterHead,
    /// It sends its body byte by byte.
    SlowBody,
    /// The client sends nothing after a first request.
    Resting,
    /// The client requests an export, and reads nothing of it.
    NotReading,
}

impl Nuisance {
    const ALL: [Self; 6] = [
        Self::Silent,
        Self::SlowFirstHead,
        Self::SlowLaterHead,
        Self::SlowBody,
        Self::Resting,
        Self::NotReading,
    ];

    fn clients(self) -> u32 {
        match self {
            Self::Silent | Self::SlowFirstHead | Self::SlowLaterHead | Self::SlowBody => {
                times(120, 1000)
            }
            // Their deadline is too long for the short form.
            Self::Resting => times(0, 10_000),
            Self::NotReading => times(4, 40),
        }
    }

    /// The documented deadline after which the server closes the connection.
    fn stated(self) -> Duration {
        Duration::from_secs(match self {
            Self::Silent | Self::SlowFirstHead | Self::SlowLaterHead | Self::SlowBody => 10,
            Self::Resting => 60,
            Self::NotReading => 20,
        })
    }

    /// Occupies a connection until the server closes it, or, without reading, until `gone`. Returns for how long.
    async fn be(self, address: SocketAddr, mut gone: watch::Receiver<bool>) -> Duration {
        let mut connection = LoadConnection::open(address).await.expect("a connection");
        let is_kept = matches!(self, Self::SlowLaterHead | Self::Resting);
        if is_kept {
            let request = raw_head("GET /livez", "");
            connection.send(request).await.expect("the server takes the request");
            assert_eq!(connection.receive().await.expect("an answer").status, 200);
        }
        let begun = Instant::now();
        let begin = match self {
            Self::Silent | Self::Resting => String::new(),
            Self::SlowFirstHead | Self::SlowLaterHead => "GET /livez HTTP/1.1\r\nX: ".to_owned(),
            Self::SlowBody => raw_head(
                "POST /plants",
                "Content-Type: application/json\r\nContent-Length: 1000\r\n",
            ),
            Self::NotReading => raw_head("GET /plants/export", ""),
        };
        connection.send(begin).await.expect("the server takes the beginning");
        let is_slow = matches!(self, Self::SlowFirstHead | Self::SlowLaterHead | Self::SlowBody);
        if let Self::NotReading = self {
            gone.wait_for(|gone| *gone).await.expect("the test says when");
        } else if is_slow {
            while timeout(Duration::from_secs(1), connection.wait_for_close()).await.is_err() {
                if connection.send("x").await.is_err() {
                    break;
                }
            }
        } else {
            connection.wait_for_close().await.expect("the server closes the connection");
        }
        begun.elapsed()
    }
}

/// Creates plants on kept and on new connections until `is_over`. Each create must succeed.
fn create_meanwhile(address: SocketAddr, is_over: &AtomicBool) -> Latencies {
    let mut latencies = Latencies::default();
    let new_client = || Client::new(address, Some(TOKEN));
    let mut client = new_client();
    for id in (-1_000_000_i64..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
        if id % 16 == 0 {
            client = new_client();
        }
        let sent = Instant::now();
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
        latencies.push(sent.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
    latencies
}

#[test]
fn clients_that_only_occupy_connections_are_disconnected_and_others_are_served() {
    // More than the buffers of a socket hold.
    const PLANTS: i64 = 10_000;
    raise_descriptor_limit();
    let mut server = TestServer::start();
    let address = server.address();
    let long = "𝒑".repeat(255);
    let plants: Vec<_> = (0..PLANTS).map(|id| NewPlant::new(id, &long, Some(&long))).collect();
    let mut base = Base::of_started(&mut server);
    let report = base.client.import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    assert_eq!(report.json()["created"], PLANTS);
    let sockets = base.sockets;
    // Fills the cache as the exports of the clients that do not read will.
    drop(base.client.export(Format::Ndjson));
    base.take_memory(&mut server);

    let is_over = Arc::new(AtomicBool::new(false));
    let normal = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || create_meanwhile(address, &is_over)
    });
    let (gone, is_gone) = watch::channel(false);
    let nuisances = thread::spawn(move || run_load(be_nuisances(address, is_gone)));
    let all: u32 = Nuisance::ALL.into_iter().map(Nuisance::clients).sum();
    wait_until("all connections", || server.process().sockets() >= sockets + usize_of(all));
    let open = server.process().sockets();
    let longest_stated = Nuisance::ALL.into_iter().map(Nuisance::stated).max().unwrap_or_default();
    let later = usize_of(Nuisance::Resting.clients());
    let mut readers_closed = None;
    let begun = Instant::now();
    while server.process().sockets() > sockets + 2 {
        assert!(begun.elapsed() < longest_stated + CLOSE_SLACK, "connections stay open");
        assert!(!normal.is_finished(), "the others noticed");
        // A client that does not read cannot see the close. Only resting clients are disconnected later.
        if server.process().sockets() <= sockets + 2 + later {
            readers_closed.get_or_insert_with(|| begun.elapsed());
        }
        thread::sleep(Duration::from_millis(100));
    }
    let readers_closed = readers_closed.unwrap_or_else(|| begun.elapsed());
    let stated = Nuisance::NotReading.stated();
    assert!(readers_closed < stated + CLOSE_SLACK, "NotReading: {readers_closed:?}");
    gone.send_replace(true);
    let closed = nuisances.join().expect("all connections were closed");
    is_over.store(true, Ordering::Relaxed);
    let latencies = normal.join().expect("the others did not notice");
    let (peak_mib, before_mib) = base.assert_bounded(&mut server, all);
    let after_mib = server.process().resident_kib() / 1024;

    let mut details = vec![format!("{open} sockets at once, {sockets} before and after")];
    for (nuisance, closed) in Nuisance::ALL.into_iter().zip(closed) {
        let (clients, stated) = (nuisance.clients(), nuisance.stated());
        if clients == 0 {
            continue;
        }
        let closed = if matches!(nuisance, Nuisance::NotReading) {
            format!("the last after {}", time(readers_closed))
        } else {
            let longest = closed.percentile(100);
            assert!(longest < stated + CLOSE_SLACK, "{nuisance:?}: {longest:?}");
            closed.to_string()
        };
        details.push(format!("{clients} {nuisance:?} (stated: {} s): {closed}", stated.as_secs()));
    }
    details.push(format!("a create of others took {latencies}"));
    details
        .push(format!("{before_mib} MiB of memory before, {peak_mib} at most, {after_mib} after"));
    Report {
        test: "load",
        promise: "Clients that occupy connections for nothing are disconnected in time",
        disturbances: format!("{all} idle, slow or unreading clients at once"),
        losses: format!("0 of {} creates of other clients", latencies.count()),
        details: details.join("; "),
    }
    .print();
}

/// Runs all nuisances at once. Returns for each kind how long the connections lasted.
async fn be_nuisances(address: SocketAddr, gone: watch::Receiver<bool>) -> Vec<Latencies> {
    let mut running = Vec::new();
    for nuisance in Nuisance::ALL {
        let clients = (0..nuisance.clients())
            .map(|_| tokio::task::spawn_local(nuisance.be(address, gone.clone())));
        running.push(clients.collect::<Vec<_>>());
    }
    let mut all = Vec::new();
    for clients in running {
        let mut latencies = Latencies::default();
        for client in clients {
            latencies.push(client.await.expect("no client panicked"));
        }
        all.push(latencies);
    }
    all
}

#[test]
fn where_descriptors_run_out_kept_connections_go_on_and_new_ones_wait() {
    // The soft limit alone would be too low for these connections.
    let mut server = TestServer::start_with(Launch::new().descriptor_limits(32, 192));
    let kept = server.client();
    kept.create(1, "Rosa", None).assert_plant("Rosa", None);
    let silent: Vec<_> = (0..100).map(|_| server.connect()).collect();
    wait_until("the last connection that is taken", || server.stderr().contains("others wait"));
    assert!(server.process().descriptors() > 64, "the soft limit was not raised");
    let mut waiting = server.connect();
    waiting.send(create_request(&plant_body(2, "Abies", None)));
    for id in 3..100 {
        kept.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    drop(silent);
    waiting.receive().assert_plant("Abies", None);
    assert!(!server.stderr().contains("ERROR"), "descriptors ran out");
}
