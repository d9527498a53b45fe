//! What clients have written, and what was acknowledged of it: what a store must hold whatever has
//! happened to it.
//!
//! A write that was neither acknowledged nor refused is in doubt: it may be carried out or not, and of an
//! import the first rows alone may be. The writes of a client come one after the other, so where one is
//! carried out, those before it are.

mod account;
mod store;
mod write;

use std::thread;

use fastrand::Rng;
use tempfile::TempDir;

use self::account::{Account, REQUEST_ID_PREFIX};
pub use self::store::{Plants, TAGS, plants_in, store_of};
pub use self::write::Told;
use crate::client::Client;
use crate::server::TestServer;

/// What some clients have written. Each of them has plants of its own.
#[derive(Debug)]
pub struct Ledgers {
    accounts: Vec<Account>,
    /// How many rows an import has at most.
    most_rows: usize,
    /// Where each client has a file, which stays when a test fails.
    folder: TempDir,
}

impl Ledgers {
    /// Empty ledgers for so many clients, whose imports have so many rows at most.
    ///
    /// # Panics
    ///
    /// When their files cannot be made.
    #[must_use]
    pub fn of_clients(clients: i64, most_rows: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let accounts = (0..clients).map(|number| Account::new(number, folder.path())).collect();
        Self { accounts, most_rows, folder }
    }

    /// How many writes were ever acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.accounts.iter().map(|account| account.total).sum()
    }

    /// Whether a request with this id was a write of a ledger.
    #[must_use]
    pub fn is_request_id(id: &str) -> bool {
        id.starts_with(REQUEST_ID_PREFIX)
    }

    /// How many writes are in doubt.
    #[must_use]
    pub fn doubts(&self) -> usize {
        self.accounts.iter().map(Account::doubts).sum()
    }

    /// Lets all clients create, replace, change, delete and import plants, each until it is told
    /// something that ends it, and something else happen meanwhile. Returns what each was told last.
    ///
    /// # Panics
    ///
    /// When an answer is not what it should be.
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

    /// As [`Self::write`], where the clients are these in turn, whichever servers these belong to. Whoever
    /// makes a claim meanwhile sees to it that the clients end also when it does not hold.
    ///
    /// # Panics
    ///
    /// When an answer is not what it should be.
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
            told.map(|told| told.expect("every client is answered as it should be")).collect()
        })
    }

    /// As [`Self::write`], where each client ends after so many writes, all of which are answered.
    ///
    /// # Panics
    ///
    /// When one is not.
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
    ///
    /// # Panics
    ///
    /// When one of them was never sent.
    #[track_caller]
    pub fn see(&mut self, shown: &Plants) {
        self.accounts.iter_mut().for_each(|account| account.see(shown));
    }

    /// Compares a store with the ledgers: everything that was acknowledged, or shown by a read, is
    /// there, a write in doubt is there whole or not at all, and there is nothing that nobody sent.
    /// Returns how many changes to single plants have led there since it was settled.
    ///
    /// # Panics
    ///
    /// When that does not hold.
    #[track_caller]
    pub fn compare(&self, store: &Plants) -> usize {
        self.assert_all_owned(store);
        let mut changes = 0;
        for account in &self.accounts {
            let sent = account.acknowledged + account.doubts();
            changes += assert_agrees(account.check(store, account.acknowledged, sent));
        }
        changes
    }

    /// As [`Self::compare`], and what the store holds then counts as settled.
    #[track_caller]
    pub fn compare_and_settle(&mut self, store: &Plants) -> usize {
        let changes = self.compare(store);
        self.settle(store);
        changes
    }

    /// As [`Self::compare`], for a store as it was when `is_answered` said of a request id whether it
    /// had been answered with success. Returns how many had been.
    ///
    /// # Panics
    ///
    /// When a claim does not hold.
    #[track_caller]
    pub fn compare_then(&self, store: &Plants, is_answered: impl Fn(&str) -> bool) -> usize {
        self.assert_all_owned(store);
        let mut sum = 0;
        for account in &self.accounts {
            let acknowledged = account.acknowledged_in(&is_answered);
            let sent = (acknowledged + 1).min(account.acknowledged + account.doubts());
            assert_agrees(account.check(store, acknowledged, sent));
            sum += acknowledged;
        }
        sum
    }

    #[track_caller]
    fn assert_all_owned(&self, store: &Plants) {
        for id in store.keys() {
            let is_owned = self.accounts.iter().any(|account| account.owns(*id));
            assert!(is_owned, "nobody sent plant {id}");
        }
    }

    /// Takes the store as it is for what there was before all that comes.
    pub fn settle(&mut self, store: &Plants) {
        self.accounts.iter_mut().for_each(|account| account.settle(store));
    }
}

#[track_caller]
fn assert_agrees(checked: Result<usize, String>) -> usize {
    match checked {
        Ok(changes) => changes,
        Err(difference) => panic!("the store is not as its clients know it: {difference}"),
    }
}

impl Drop for Ledgers {
    #[allow(clippy::print_stderr, reason = "a test that fails shows where to look")]
    fn drop(&mut self) {
        if thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("what the clients have written: {}", self.folder.path().display());
        }
    }
}

/// When a claim has failed, nobody goes on writing to the server.
struct KilledOnPanic<'a>(&'a mut TestServer);

impl Drop for KilledOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() && self.0.process().is_running() {
            self.0.kill();
        }
    }
}
