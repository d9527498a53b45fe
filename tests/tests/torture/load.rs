//! More clients than there is room for, and clients that take up room for nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::{
    Client, Crowd, CrowdReport, Format, Latencies, Launch, LoadConnection, NewPlant, TestServer,
    plant_body, raise_descriptor_limit, raw_head, run_load, torture, wait_until,
};
use tokio::sync::watch;
use tokio::time::timeout;

/// How much memory a connection may take at most: less than its buffers would, were they kept.
const CONNECTION_KIB: u64 = 24;

/// How much memory the store may take more than before, for what it holds more.
fn store_kib() -> u64 {
    u64::from(torture::times(24, 256)) * 1024
}

/// How much later than stated a connection may be closed, on a machine that has much to do.
const CLOSE_SLACK: Duration = Duration::from_secs(10);

/// The thread that syncs before anything is acknowledged.
const COMMIT_THREAD: &str = "plant-commit";

/// How long each sync takes on a slow disk.
const SLOW_SYNC: Duration = Duration::from_millis(500);

/// A client with a connection, after whose first answer the server has all threads and descriptors of its
/// own.
fn client_of_started(server: &TestServer) -> Client {
    let client = server.client();
    assert_eq!(client.get("/livez").status, 200);
    client
}

/// How much memory a server took with few connections, to hold against it what it takes with many.
struct MemoryBase {
    peak_kib: u64,
}

impl MemoryBase {
    /// What it took at most by now. From now on its peak is measured anew.
    fn take(server: &mut TestServer) -> Self {
        let peak_kib = server.process().peak_resident_kib();
        server.process().reset_peak_resident();
        Self { peak_kib }
    }

    fn mib(&self) -> u64 {
        self.peak_kib / 1024
    }

    /// Claims that the memory has grown with nothing but the connections. Returns the peak since then
    /// in MiB.
    #[track_caller]
    fn assert_bounded(&self, server: &mut TestServer, connections: u32) -> u64 {
        let peak_kib = server.process().peak_resident_kib();
        let grown_kib = peak_kib.saturating_sub(self.peak_kib);
        let bound_kib = store_kib() + u64::from(connections) * CONNECTION_KIB;
        assert!(grown_kib <= bound_kib, "{grown_kib} KiB more for {connections} connections");
        peak_kib / 1024
    }
}

#[test]
fn clients_that_a_slow_disk_has_no_room_for_are_refused_and_get_all_they_want_in_the_end() {
    // More than wait in the queue and in a group together.
    const CLIENTS: u32 = 3000;
    raise_descriptor_limit();
    let creates_each = torture::times(2, 10);
    let mut server = TestServer::start();
    let client = client_of_started(&server);
    let descriptors = server.process().descriptors();
    let crowd = Crowd {
        clients: CLIENTS,
        creates_each: Some(creates_each),
        duration: Duration::from_secs(300),
        first_id: 1,
    };
    let few = Crowd { clients: 100, creates_each: Some(3), first_id: -1_000_000, ..crowd };
    let of_few = few.run(server.address()).created;
    let base = MemoryBase::take(&mut server);
    let slow = server.process().slow_down_syncs(COMMIT_THREAD, SLOW_SYNC);
    let report = crowd.run(server.address());
    drop(slow);
    assert_eq!(report.done_clients, CLIENTS, "somebody starved");
    assert_eq!(report.created, u64::from(CLIENTS * creates_each));
    assert!(report.refusing.count() > 0, "nobody was refused");
    let total = client.list("limit=1");
    assert_eq!(total.header("x-total-count"), Some(&*(of_few + report.created).to_string()));
    wait_until("the descriptors to come back", || server.process().descriptors() <= descriptors);
    let peak_mib = base.assert_bounded(&mut server, CLIENTS);
    torture::Figures::of("load", "who is refused is told so at once, and nobody starves")
        .with(CLIENTS, &format!("clients on a disk that takes {SLOW_SYNC:?} for each sync"))
        .with(report.created, "creates")
        .with(report.refusing.count(), "answers 503 with 5003")
        .with(report.refusing, "until the refusal")
        .with(peak_mib, &format!("MiB of memory at most, {} before", base.mib()))
        .print();
}

/// How many clients are tried in the search of the best number.
const TRIED: [u32; 6] = [16, 32, 64, 128, 256, 512];

/// How often each of them is tried.
const SEARCH_ROUNDS: usize = 3;

/// How many clients come before a crowd.
const FEW: u32 = 64;

/// More clients than the queue has room for, which is 1024.
const TOO_MANY: u32 = 4096;

/// What a crowd comes to on a server of its own, for a store that earlier crowds have filled is slower.
struct CrowdRun {
    report: CrowdReport,
    base_mib: u64,
    peak_mib: u64,
}

impl CrowdRun {
    fn of(clients: u32, duration: Duration) -> Self {
        let mut server = TestServer::start();
        let _client = client_of_started(&server);
        let descriptors = server.process().descriptors();
        let few = Crowd { clients: FEW, creates_each: None, duration: duration / 8, first_id: 1 };
        assert!(few.run(server.address()).created > 0);
        let base = MemoryBase::take(&mut server);
        let crowd = Crowd { clients, duration, first_id: 1_000_000_000, ..few };
        let report = crowd.run(server.address());
        // Of too many, some may have to wait longer than this is.
        let may_wait = clients == TOO_MANY;
        assert!(report.fewest_created > 0 || may_wait, "one of {clients} clients got nothing");
        let peak_mib = base.assert_bounded(&mut server, clients);
        wait_until("the descriptors to come back", || {
            server.process().descriptors() <= descriptors
        });
        Self { report, base_mib: base.mib(), peak_mib }
    }

    fn rate(&self) -> f64 {
        self.report.rate()
    }
}

/// Runs these numbers of clients in turns, and backwards in every other round, so that what the machine
/// does meanwhile meets all of them. For each number, its runs.
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

/// The number of clients with the best rate, the median of several rounds.
fn best_number() -> u32 {
    let runs = in_turns(TRIED, SEARCH_ROUNDS, Duration::from_secs(4));
    let rates = runs.map(|runs| median_of(runs.iter().map(CrowdRun::rate)));
    let best = rates.iter().zip(TRIED).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or(TRIED[0], |(_, clients)| clients)
}

#[allow(clippy::cast_precision_loss, reason = "it is a figure for people")]
fn percentage(part: usize, all: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / all as f64)
}

fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of the ratios of two rates in the same round.
fn median_ratio(runs: &[CrowdRun], to: &[CrowdRun]) -> f64 {
    median_of(runs.iter().zip(to).map(|(run, to)| run.rate() / to.rate()))
}

#[test]
fn with_ten_times_the_clients_of_its_best_rate_the_server_goes_on() {
    raise_descriptor_limit();
    let rounds = torture::times(1, 7);
    let duration = Duration::from_secs(u64::from(torture::times(1, 8)));
    // In the short form the rates are no claim, and nobody looks for the best.
    let best = if torture::is_long() { best_number() } else { FEW };
    let crowded = 10 * best;
    let [alone, mut crowd, mut too_many] =
        in_turns([best, crowded, TOO_MANY], rounds as usize, duration);

    let ratio = median_ratio(&crowd, &alone);
    let rate = |runs: &[CrowdRun]| format!("{:.0}/s", median_of(runs.iter().map(CrowdRun::rate)));
    let figures =
        torture::Figures::of("load", "ten times the clients get at least 90 % of the best rate")
            .with(rounds, "rounds in turns")
            .with(rate(&alone), &format!("with the best number of clients, {best} (median)"))
            .with(rate(&crowd), &format!("with {crowded} (median)"))
            .with(format!("{ratio:.2}"), "is the median of the ratios");
    let fewest = crowd.iter().map(|run| run.report.fewest_created).min().unwrap_or_default();
    let last = crowd.pop().expect("there is a round").report;
    figures
        .with(fewest, "creates of the client that got the fewest in a round")
        .with(last.creating, "for a create")
        .with(last.refusing.count(), "answers 503 with 5003")
        .print();

    let ratio_of_too_many = median_ratio(&too_many, &alone);
    let last = too_many.pop().expect("there is a round");
    let refused = last.report.refusing.count();
    torture::Figures::of(
        "load",
        "with more clients than its queue has room for the server goes on",
    )
    .with(TOO_MANY, "clients")
    .with(format!("{ratio_of_too_many:.2}"), "of the best rate of the same run (median)")
    .with(percentage(refused, last.report.created + refused as u64), "of the answers 503 with 5003")
    .with(last.report.refusing, "until the refusal")
    .with(last.peak_mib, &format!("MiB of memory at most, {} with {FEW} clients", last.base_mib))
    .print();
    // The long form is a measurement that somebody reads, on a machine that does nothing else.
    assert!(!torture::is_long() || ratio >= 0.9, "only {ratio:.2} of the best rate is left");
}

/// How a client takes up a connection.
#[derive(Clone, Copy, Debug)]
enum Nuisance {
    /// It sends nothing.
    Silent,
    /// It sends its first head byte by byte.
    SlowFirstHead,
    /// It sends its second head byte by byte.
    SlowLaterHead,
    /// It sends its body byte by byte.
    SlowBody,
    /// It rests after a request.
    Resting,
    /// It asks for everything, and takes nothing of it.
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

    /// How many do so, in the short form and in the long one.
    fn clients(self) -> u32 {
        match self {
            Self::Silent | Self::SlowFirstHead | Self::SlowLaterHead | Self::SlowBody => {
                torture::times(120, 1000)
            }
            // The time that they have would make the short form long.
            Self::Resting => torture::times(0, 10_000),
            Self::NotReading => torture::times(4, 40),
        }
    }

    /// After how long the server closes the connection, as the documents say.
    fn stated(self) -> Duration {
        Duration::from_secs(match self {
            Self::Silent | Self::SlowFirstHead | Self::SlowLaterHead | Self::SlowBody => 10,
            Self::Resting => 60,
            Self::NotReading => 20,
        })
    }

    /// Takes up a connection until it is closed, and says for how long; one that is not read, until
    /// `gone`.
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

/// Creates plants until `is_over`, each of which has to succeed, on kept connections and on new ones.
fn create_meanwhile(address: SocketAddr, is_over: &AtomicBool) -> Latencies {
    let mut latencies = Latencies::default();
    let new_client = || Client::new(address, Some(plantd_tests::TOKEN));
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
fn clients_that_take_up_connections_for_nothing_are_closed_and_nobody_else_notices() {
    // More than the buffers of a socket take.
    const PLANTS: i64 = 10_000;
    raise_descriptor_limit();
    let mut server = TestServer::start();
    let address = server.address();
    let long = "𝒑".repeat(255);
    let plants: Vec<_> = (0..PLANTS).map(|id| NewPlant::new(id, &long, Some(&long))).collect();
    let client = client_of_started(&server);
    let report = client.import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    assert_eq!(report.json()["created"], PLANTS);
    let descriptors = server.process().descriptors();
    // An export fills the cache, as those of the clients will that read nothing of theirs.
    drop(client.export(Format::Ndjson));
    let base = MemoryBase::take(&mut server);

    let is_over = Arc::new(AtomicBool::new(false));
    let normal = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || create_meanwhile(address, &is_over)
    });
    let (gone, is_gone) = watch::channel(false);
    let nuisances = thread::spawn(move || run_load(be_nuisances(address, is_gone)));
    let readers = usize::try_from(Nuisance::NotReading.clients()).expect("a usize has 32 bits");
    let all: u32 = Nuisance::ALL.into_iter().map(Nuisance::clients).sum();
    wait_until("all connections", || {
        server.process().descriptors() >= descriptors + usize::try_from(all).expect("as above")
    });
    let open = server.process().descriptors();
    let longest_stated = Nuisance::ALL.into_iter().map(Nuisance::stated).max().unwrap_or_default();
    let later = usize::try_from(Nuisance::Resting.clients()).expect("a usize has 32 bits");
    let mut readers_closed = None;
    let begun = Instant::now();
    while server.process().descriptors() > descriptors + 2 {
        assert!(begun.elapsed() < longest_stated + CLOSE_SLACK, "connections stay open");
        assert!(!normal.is_finished(), "the others noticed");
        // Nobody sees it who does not read, but those that are closed later than these are few.
        if server.process().descriptors() <= descriptors + 2 + later {
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
    wait_until("the descriptors to come back", || server.process().descriptors() <= descriptors);
    let peak_mib = base.assert_bounded(&mut server, all);
    let after_mib = server.process().resident_kib() / 1024;

    let mut figures = torture::Figures::of(
        "load",
        "clients that take up connections for nothing are closed in time",
    )
    .with(open, "descriptors at once")
    .with(descriptors, "before and after");
    for (nuisance, closed) in Nuisance::ALL.into_iter().zip(closed) {
        if nuisance.clients() > 0 && !matches!(nuisance, Nuisance::NotReading) {
            let longest = closed.percentile(100);
            assert!(longest < nuisance.stated() + CLOSE_SLACK, "{nuisance:?}: {longest:?}");
            let stated = nuisance.stated().as_secs();
            figures = figures
                .with(nuisance.clients(), &format!("{nuisance:?} (stated: {stated} s): {closed}"));
        }
    }
    figures
        .with(
            readers,
            &format!(
                "NotReading (stated: {} s); the last was closed after {readers_closed:.1?}",
                stated.as_secs()
            ),
        )
        .with(latencies.count(), "creates of others meanwhile, all of them answered")
        .with(latencies, "for one of these")
        .with(
            format!("{} MiB before, {peak_mib} MiB at most, {after_mib} MiB", base.mib()),
            "after",
        )
        .print();
}

/// All of them at once; for each kind, how long they lasted.
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
    // The soft limit alone would be too low for the connections that the server takes here.
    let mut server = TestServer::start_with(Launch::new().descriptor_limits(32, 128));
    let kept = server.client();
    kept.create(1, "Rosa", None).assert_plant("Rosa", None);
    let silent: Vec<_> = (0..100).map(|_| server.connect()).collect();
    wait_until("the last connection that is taken", || server.stderr().contains("others wait"));
    assert!(server.process().descriptors() > 64, "the soft limit was not raised");
    let mut waiting = server.connect();
    waiting.send(plantd_tests::create_request(&plant_body(2, "Abies", None)));
    for id in 3..100 {
        kept.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    drop(silent);
    waiting.receive().assert_plant("Abies", None);
    assert!(!server.stderr().contains("ERROR"), "descriptors ran out");
}
