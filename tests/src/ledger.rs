//! What clients have written, and what the server acknowledged: what a store must hold whatever happened to it.
//!
//! A write that was neither acknowledged nor refused is in doubt: it may be carried out or not, and of an
//! import the first rows alone may be. A client sends one write after the other, so if a write was carried
//! out, so were those before it.

mod account;
mod store;
mod write;

use std::thread;

use fastrand::Rng;

use self::account::{Account, REQUEST_ID_PREFIX};
pub use self::store::{Plants, TAGS, plants_in, store_of};
pub use self::write::Told;
use crate::client::Client;
use crate::server::TestServer;

/// The ledgers of some clients, each of which has plants of its own.
#[derive(Debug)]
pub struct Ledgers {
    accounts: Vec<Account>,
    /// The most rows of an import.
    most_rows: usize,
}

impl Ledgers {
    /// Empty ledgers for so many clients, whose imports have at most so many rows.
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

    /// Lets all clients create, replace, change, delete and import plants, each until its own end says so of
    /// what it was told, and `meanwhile` happen beside them. Returns what each client was told last.
    #[track_caller]
    pub fn write<IsOver: FnMut(Told) -> bool + Send>(
        &mut self,
        server: &mut TestServer,
        chance: &mut Rng,
        new_end: impl Fn() -> IsOver,
        meanwhile: impl FnOnce(&mut TestServer),
    ) -> Vec<Told> {
        let clients: Vec<Client> = self.accounts.iter().map(|_| server.client()).collect();
        self.write_through(&clients, chance, new_end, || {
            let server = KilledOnPanic(server);
            meanwhile(&mut *server.0);
        })
    }

    /// As [`Self::write`], through these clients in turn, whichever servers they belong to. A claim in
    /// `meanwhile` has to end the clients also when it fails.
    #[track_caller]
    pub fn write_through<IsOver: FnMut(Told) -> bool + Send>(
        &mut self,
        clients: &[Client],
        chance: &mut Rng,
        new_end: impl Fn() -> IsOver,
        meanwhile: impl FnOnce(),
    ) -> Vec<Told> {
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

    /// As [`Self::write`], where each client ends after so many writes, and none may be in doubt.
    #[track_caller]
    pub fn write_some(&mut self, server: &mut TestServer, chance: &mut Rng, writes: usize) {
        let new_end = || {
            let mut written = 0;
            move |told: Told| {
                assert!(!told.is_in_doubt(), "{told:?}");
                written += usize::from(told != Told::Refused);
                written == writes
            }
        };
        self.write(server, chance, new_end, |_| {});
    }

    /// Remembers the newest plants that reads have shown: they must stay, or be followed by newer ones.
    #[track_caller]
    pub fn see(&mut self, shown: &Plants) {
        self.accounts.iter_mut().for_each(|account| account.see(shown));
    }

    /// Compares a store with the ledgers: every write that was acknowledged or shown by a read is there, a
    /// write in doubt is there whole or not at all, and there is nothing that nobody sent. Returns how many
    /// changes of single plants were made since the ledgers were settled.
    #[track_caller]
    pub fn compare(&self, store: &Plants) -> usize {
        self.compare_to(store, |account| (account.acknowledged, account.sent()))
    }

    /// As [`Self::compare`], and takes the store as the state before all later writes.
    #[track_caller]
    pub fn compare_and_settle(&mut self, store: &Plants) -> usize {
        let changes = self.compare(store);
        self.settle(store);
        changes
    }

    /// As [`Self::compare`], for a store of an earlier moment, when exactly the requests of which
    /// `is_answered` says so were answered with success. Returns how many writes that were.
    #[track_caller]
    pub fn compare_then(&self, store: &Plants, is_answered: impl Fn(&str) -> bool) -> usize {
        let acknowledged = |account: &Account| account.acknowledged_in(&is_answered);
        self.compare_to(store, |account| {
            (acknowledged(account), account.sent().min(acknowledged(account) + 1))
        });
        self.accounts.iter().map(acknowledged).sum()
    }

    /// Compares a store, where `progress` says of each client how many of its writes were acknowledged, and how
    /// many were sent.
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

/// Kills the server when a claim has failed, which ends its clients.
struct KilledOnPanic<'a>(&'a mut TestServer);

impl Drop for KilledOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() && self.0.process().is_running() {
            self.0.kill();
        }
    }
}
