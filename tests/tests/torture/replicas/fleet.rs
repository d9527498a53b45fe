//! Three servers on one PostgreSQL, with clients that write to all of them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use plantd_tests::torture::{Report, SetOnDrop};
use plantd_tests::{
    Answer, Client, Followers, Ledgers, NewPlant, Plants, WriteOutcome, newest_cursor,
    replacement_body, revision_of, store_of, wait_until,
};
use test_postgres::{Database, fresh_schema_name};

use super::log::{assert_leads_to, read_log};
use super::replica::Replica;

pub(super) const SERVERS: usize = 3;

const CLIENTS: i64 = 12;

/// The deadline after a disturbance for all servers to take writes.
const RETURN_DEADLINE: Duration = Duration::from_secs(10);

const MOST_ROWS: usize = 64;

const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// The name of plants that probe whether writes are taken.
const PROBE_NAME: &str = "Rosa";

/// Servers that share their plants, the ledgers of the clients that write to all of them, and the followers that read
/// from any of them.
pub(super) struct Fleet {
    pub(super) installation: Installation,
    ledgers: Ledgers,
    /// The number of changes by clients.
    changes: usize,
    /// The longest time from the end of a disturbance until all servers took writes.
    pub(super) longest_return: Duration,
}

/// The part of a fleet that a disturbance may use while clients write.
pub(super) struct Installation {
    // Before the servers, because followers must end before another server gets one of their ports.
    followers: Followers,
    pub(super) replicas: Vec<Replica>,
    /// The URL of PostgreSQL for the servers.
    pub(super) url: String,
    /// The database, to look at its tables.
    pub(super) database: Database,
    pub(super) schema: String,
    pub(super) probes: Probes,
    pub(super) answers: Arc<Answers>,
}

#[derive(Debug, Default)]
pub(super) struct Answers {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    none: AtomicU64,
}

impl Answers {
    fn count(&self, told: WriteOutcome) {
        let counter = match told {
            WriteOutcome::Acknowledged(_) => &self.acknowledged,
            WriteOutcome::Refused => &self.refused,
            WriteOutcome::DiskFull | WriteOutcome::StoreFailed => &self.failed,
            WriteOutcome::NoAnswer => &self.none,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until this many more writes are acknowledged.
    #[track_caller]
    pub(super) fn wait_for(&self, more: u64) {
        let enough = self.acknowledged() + more;
        wait_until("more writes to be acknowledged", || self.acknowledged() >= enough);
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [refused, failed, none] = [&self.refused, &self.failed, &self.none]
            .map(|counter| counter.load(Ordering::Relaxed));
        write!(
            formatter,
            "{refused} writes refused, {failed} told that their outcome is unknown, {none} not answered by a killed server"
        )
    }
}

/// Plants that probe whether writes are taken. Their ids are negative, so no client owns them.
#[derive(Debug, Default)]
pub(super) struct Probes {
    last_id: AtomicI64,
    acknowledged: Mutex<Plants>,
    in_doubt: Mutex<Plants>,
}

impl Probes {
    /// Tries to create plants until one create is acknowledged.
    pub(super) fn create(&self, client: &Client) {
        wait_until("a plant to be created", || {
            let id = self.last_id.fetch_sub(1, Ordering::Relaxed) - 1;
            self.note(id, &client.create(id, PROBE_NAME, None))
        });
    }

    /// Repeats a PUT of this plant until it is acknowledged.
    pub(super) fn put(&self, client: &Client, id: i64) {
        let body = replacement_body(PROBE_NAME, None);
        wait_until("a plant to be put", || self.note(id, &client.put(id, &body)));
    }

    /// Sends a PUT of this plant to a server that is killed during the request.
    pub(super) fn put_without_hope(&self, client: &Client, id: i64) {
        let plant = NewPlant::new(id, PROBE_NAME, None);
        self.in_doubt.lock().expect("no thread has panicked").insert(id, plant);
        let (path, body) = (format!("/plants/{id}"), replacement_body(PROBE_NAME, None));
        let answer = client.try_send("PUT", &path, &[("content-type", "application/json")], &body);
        assert!(answer.is_err(), "nobody may know of it: {answer:?}");
    }

    /// Records an answer. Returns whether it was a success.
    fn note(&self, id: i64, answer: &Answer) -> bool {
        let fate = match answer.status {
            200 | 201 => &self.acknowledged,
            _ if answer.json()["error"] == 5003 => return false,
            _ => {
                answer.assert_error(503, 5002);
                &self.in_doubt
            }
        };
        let plant = NewPlant::new(id, PROBE_NAME, None);
        fate.lock().expect("no thread has panicked").insert(id, plant);
        matches!(answer.status, 200 | 201)
    }

    /// Asserts that the plants have exactly the probes that the answers allow.
    fn assert_are(&self, plants: &Plants) {
        let acknowledged = self.acknowledged.lock().expect("no thread has panicked");
        let in_doubt = self.in_doubt.lock().expect("no thread has panicked");
        for (id, plant) in acknowledged.iter() {
            assert_eq!(plants.get(id), Some(plant), "the probe was acknowledged");
        }
        for (id, plant) in plants {
            assert!([acknowledged.get(id), in_doubt.get(id)].contains(&Some(plant)), "{plant:?}");
        }
    }
}

impl Installation {
    pub(super) fn kill(&mut self, index: usize) {
        self.replicas[index].kill(&self.database);
        let mut others = addresses(&self.replicas);
        others.remove(index);
        self.followers.set_servers(others);
    }

    pub(super) fn restart(&mut self, index: usize) {
        self.replicas[index].restart(&self.url, &self.schema);
        self.followers.set_servers(addresses(&self.replicas));
    }

    /// Waits until `/readyz` of all servers reports that they take writes, or that they do not.
    #[track_caller]
    pub(super) fn wait_for_readiness(&self, is_ready: bool) {
        // Concurrently, because an answer may take a while.
        thread::scope(|scope| {
            for replica in self.replicas.iter() {
                scope.spawn(move || {
                    wait_until("a server to say whether it takes writes", || {
                        replica.is_ready() == is_ready
                    });
                });
            }
        });
    }

    /// Runs `happens` while each server gets creates until it acknowledges one. Returns the result, and when each
    /// server acknowledged.
    pub(super) fn probe_each<T>(&self, happens: impl FnOnce() -> T) -> (T, Vec<Instant>) {
        thread::scope(|scope| {
            let probing = self.replicas.iter().map(|replica| {
                scope.spawn(|| {
                    self.probes.create(&replica.client());
                    Instant::now()
                })
            });
            let probing: Vec<_> = probing.collect();
            let happened = happens();
            let served = probing.into_iter().map(|probing| probing.join());
            let served = served.map(|served| served.expect("each server answers as it should"));
            (happened, served.collect())
        })
    }

    /// Waits until each server has acknowledged a create and says that it takes writes. Returns the moment of the last
    /// acknowledgement.
    pub(super) fn wait_for_service(&self) -> Instant {
        let ((), served) = self.probe_each(|| {});
        self.wait_for_readiness(true);
        served.into_iter().max().expect("there are servers")
    }
}

impl Fleet {
    /// Starts servers that use PostgreSQL at a URL. `database` serves to look at the tables.
    pub(super) fn start(url: &str, database: &Database) -> Self {
        let schema = fresh_schema_name();
        let replicas: Vec<_> = (0..SERVERS).map(|_| Replica::start(url, &schema)).collect();
        Self {
            installation: Installation {
                followers: Followers::of_replicas(addresses(&replicas)),
                replicas,
                url: url.to_owned(),
                database: database.clone(),
                schema,
                probes: Probes::default(),
                answers: Arc::default(),
            },
            ledgers: Ledgers::of_clients(CLIENTS, MOST_ROWS),
            changes: 0,
            longest_return: Duration::ZERO,
        }
    }

    /// Disturbs the fleet after fewer than this many acknowledged writes. Asserts that all servers soon take writes
    /// again, counted from the moment that `disturb` returns.
    pub(super) fn disturb(
        &mut self,
        chance: &mut Rng,
        most_writes: u64,
        disturb: impl FnOnce(&mut Installation) -> Instant,
    ) {
        let before = chance.u64(1..most_writes);
        let took = self.while_written(chance, |installation| {
            installation.answers.wait_for(before);
            let is_over = disturb(installation);
            installation.wait_for_service() - is_over
        });
        assert!(took < RETURN_DEADLINE, "{took:?} until writes were taken again");
        self.longest_return = self.longest_return.max(took);
    }

    /// Runs `meanwhile` while each client writes up to its first write in doubt. Then waits until nothing is in
    /// progress, and makes all assertions. Returns the result of `meanwhile`.
    fn while_written<T>(
        &mut self,
        chance: &mut Rng,
        meanwhile: impl FnOnce(&mut Installation) -> T,
    ) -> T {
        let is_over = AtomicBool::new(false);
        let Self { installation, ledgers, .. } = self;
        let answers = Arc::clone(&installation.answers);
        let clients: Vec<Client> = installation.replicas.iter().map(Replica::client).collect();
        let new_end = || {
            |told: WriteOutcome| {
                answers.count(told);
                if told == WriteOutcome::Refused {
                    thread::sleep(REFUSED_PAUSE);
                }
                told.is_in_doubt() || is_over.load(Ordering::Relaxed)
            }
        };
        let (processes, mut done) = (process_ids(&mut installation.replicas), None);
        let told = ledgers.write_through(&clients, chance, new_end, || {
            let _over = SetOnDrop(&is_over);
            done = Some(meanwhile(&mut *installation));
        });
        let were_killed: Vec<bool> = processes
            .iter()
            .zip(process_ids(&mut installation.replicas))
            .map(|(before, now)| *before != now)
            .collect();
        for (told, was_killed) in told.iter().zip(were_killed.iter().cycle()) {
            assert!(
                *told != WriteOutcome::NoAnswer || *was_killed,
                "a server that lives answers everyone"
            );
        }
        self.check();
        done.expect("the task is done")
    }

    /// Asserts that a random server has the plants of the ledgers, and that the log leads to these plants.
    fn check(&mut self) {
        self.wait_for_rest();
        let replica = fastrand::choice(&self.installation.replicas).expect("some");
        let client = replica.client();
        let all = store_of(&client, "after it was disturbed");
        let mut probed = all.clone();
        let plants = probed.split_off(&0);
        self.changes += self.ledgers.compare_and_settle(&plants);
        self.installation.probes.assert_are(&probed);
        let Installation { followers, database, schema, .. } = &mut self.installation;
        followers.assert_have(&client, &all, "after it was disturbed");
        let log = read_log(database, schema);
        assert_leads_to(&log, &all, database, schema);
        assert_eq!(log.len(), self.changes + probed.len(), "one event for each change");
    }

    /// Waits until no session of the servers is busy.
    fn wait_for_rest(&self) {
        let busy = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '{}%' \
             AND (state <> 'idle' OR backend_xid IS NOT NULL)",
            self.installation.schema
        );
        let database = &self.installation.database;
        wait_until("all sessions to have nothing to do", || database.query(&busy) == "0");
    }

    /// Restarts all servers in order with PostgreSQL at another URL, where commits wait for a standby. Returns once
    /// all followers have a cursor from there: an earlier cursor does not survive a promotion.
    pub(super) fn move_to(&mut self, url: &str) {
        let Installation { followers, replicas, schema, url: old_url, probes, .. } =
            &mut self.installation;
        url.clone_into(old_url);
        followers.set_servers([]);
        for replica in replicas.iter_mut() {
            assert_eq!(replica.server.terminate().code(), Some(0));
            replica.restart(url, schema);
        }
        followers.set_servers(addresses(replicas));
        let client = replicas[0].client();
        probes.create(&client);
        followers.wait_for(revision_of(&newest_cursor(&client)));
    }

    /// Asserts that each follower has seen exactly the log, ends all servers in order, and reports.
    pub(super) fn end(self, promise: &'static str, disturbances: String, details: &str) {
        let Installation { mut followers, replicas, database, schema, answers, .. } =
            self.installation;
        let log = read_log(&database, &schema);
        followers.wait_for(log.last().map_or(0, |event| event.revision));
        for seen in followers.events() {
            let first_difference = (0..seen.len().max(log.len()))
                .map(|index| (index, seen.get(index), log.get(index)))
                .find(|(_, seen, logged)| seen != logged);
            let counts = (seen.len(), log.len());
            assert_eq!(first_difference, None, "an event was missed or seen twice: {counts:?}");
        }
        let followed = followers.end();
        for Replica { mut server, .. } in replicas {
            assert_eq!(server.terminate().code(), Some(0), "{}", server.stderr());
        }
        // Every comparison has succeeded, so nothing is lost.
        let losses = format!(
            "0 of {} acknowledged writes, no write done twice; {followed}",
            answers.acknowledged()
        );
        let details = format!("{details}; {answers}");
        Report { test: "replicas", promise, disturbances, losses, details }.print();
    }
}

fn addresses(replicas: &[Replica]) -> Vec<SocketAddr> {
    replicas.iter().map(|replica| replica.server.address()).collect()
}

fn process_ids(replicas: &mut [Replica]) -> Vec<u32> {
    replicas.iter_mut().map(|replica| replica.server.process().id()).collect()
}
