//! What clients have sent, and what the server has acknowledged. A ledger determines what a store must hold after any
//! disturbance.
//!
//! A write that was neither acknowledged nor refused is in doubt: it may have been carried out, an import also in part,
//! from its first row on, and a batch as a whole. A client sends one write after the other, so if a write was carried
//! out, so were those before it.

mod account;
mod store;
mod write;

use std::thread;

use fastrand::Rng;

use self::account::{Account, REQUEST_ID_PREFIX};
pub use self::store::{Plants, TAGS, counted, plants_in, store_of};
pub use self::write::WriteOutcome;
use crate::client::Client;
use crate::server::TestServer;

/// The ledgers of some clients, each of which has its own plants.
#[derive(Debug)]
pub struct Ledgers {
    accounts: Vec<Account>,
    /// The most rows of an import.
    most_rows: usize,
}

impl Ledgers {
    /// Empty ledgers for this many clients, whose imports have at most this many rows.
    pub fn of_clients(clients: i64, most_rows: usize) -> Self {
        Self { accounts: (0..clients).map(Account::new).collect(), most_rows }
    }

    /// How many writes were ever acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.accounts.iter().map(|account| account.total).sum()
    }

    /// Whether a request with this id was a write of a ledger.
    pub fn is_request_id(id: &str) -> bool {
        id.starts_with(REQUEST_ID_PREFIX)
    }

    /// How many writes are in doubt.
    pub fn doubts(&self) -> usize {
        self.accounts.iter().map(Account::doubts).sum()
    }

    /// All clients create, replace, change, delete and import plants, one by one and in batches, each until its end
    /// condition accepts an outcome. `meanwhile` runs concurrently. Returns the last outcome of each client.
    #[track_caller]
    pub fn write<IsOver: FnMut(WriteOutcome) -> bool + Send>(
        &mut self,
        server: &mut TestServer,
        chance: &mut Rng,
        new_end: impl Fn() -> IsOver,
        meanwhile: impl FnOnce(&mut TestServer),
    ) -> Vec<WriteOutcome> {
        let clients: Vec<Client> = self.accounts.iter().map(|_| server.client()).collect();
        self.write_through(&clients, chance, new_end, || {
            let server = KilledOnPanic(server);
            meanwhile(&mut *server.0);
        })
    }

    /// Like [`Self::write`], but through these clients in turn, which may belong to different servers. A failed
    /// assertion in `meanwhile` must end the clients too.
    #[track_caller]
    pub fn write_through<IsOver: FnMut(WriteOutcome) -> bool + Send>(
        &mut self,
        clients: &[Client],
        chance: &mut Rng,
        new_end: impl Fn() -> IsOver,
        meanwhile: impl FnOnce(),
    ) -> Vec<WriteOutcome> {
        let most_rows = self.most_rows;
        thread::scope(|scope| {
            let clients = clients.iter().cycle();
            let writing = self.accounts.iter_mut().zip(clients).map(|(account, client)| {
                let (mut chance, is_over) = (chance.fork(), new_end());
                scope.spawn(move || account.write(client, &mut chance, most_rows, is_over))
            });
            let writing: Vec<_> = writing.collect();
            meanwhile();
            let told = writing.into_iter().map(|writing| writing.join());
            told.map(|told| told.expect("every answer is as it should be")).collect()
        })
    }

    /// Like [`Self::write`], but each client ends after this many writes, and no write may be in doubt.
    #[track_caller]
    pub fn write_some(&mut self, server: &mut TestServer, chance: &mut Rng, writes: usize) {
        let new_end = || {
            let mut written = 0;
            move |told: WriteOutcome| {
                assert!(!told.is_in_doubt(), "{told:?}");
                written += usize::from(told != WriteOutcome::Refused);
                written == writes
            }
        };
        self.write(server, chance, new_end, |_| {});
    }

    /// Records plants that reads have shown: they must stay, or be replaced by newer ones.
    #[track_caller]
    pub fn see(&mut self, shown: &Plants) {
        self.accounts.iter_mut().for_each(|account| account.see(shown));
    }

    /// Compares a store with the ledgers. Every write that was acknowledged or shown by a read is there, a write in
    /// doubt is there whole or not at all, and nothing is there that was never sent. Returns how many changes of
    /// single plants were made since the ledgers were settled.
    #[track_caller]
    pub fn compare(&self, store: &Plants) -> usize {
        self.compare_to(store, |account| (account.acknowledged, account.sent()))
    }

    /// Like [`Self::compare`], and then settles the ledgers on this store.
    #[track_caller]
    pub fn compare_and_settle(&mut self, store: &Plants) -> usize {
        let changes = self.compare(store);
        self.settle(store);
        changes
    }

    /// Like [`Self::compare`], but for a store at the earlier moment when exactly the requests selected by
    /// `is_answered` had succeeded. Returns the number of those writes.
    #[track_caller]
    pub fn compare_then(&self, store: &Plants, is_answered: impl Fn(&str) -> bool) -> usize {
        let acknowledged = |account: &Account| account.acknowledged_in(&is_answered);
        self.compare_to(store, |account| {
            (acknowledged(account), account.sent().min(acknowledged(account) + 1))
        });
        self.accounts.iter().map(acknowledged).sum()
    }

    /// Compares a store. `progress` returns the numbers of acknowledged and of sent writes of a client.
    #[track_caller]
    fn compare_to(&self, store: &Plants, progress: impl Fn(&Account) -> (usize, usize)) -> usize {
        for id in store.keys() {
            let is_owned = self.accounts.iter().any(|account| account.owns(*id));
            assert!(is_owned, "nobody sent plant {id}");
        }
        let mut changes = 0;
        for account in &self.accounts {
            let (acknowledged, sent) = progress(account);
            match account.check(store, acknowledged, sent) {
                Ok(of_account) => changes += of_account,
                Err(difference) => panic!("the store differs from the ledgers: {difference}"),
            }
        }
        changes
    }

    /// Takes the store as the state before all later writes.
    pub fn settle(&mut self, store: &Plants) {
        self.accounts.iter_mut().for_each(|account| account.settle(store));
    }
}

/// Kills the server after a failed assertion, which ends its clients.
struct KilledOnPanic<'a>(&'a mut TestServer);

impl Drop for KilledOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() && self.0.process().is_running() {
            self.0.kill();
        }
    }
}
