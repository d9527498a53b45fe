//! One sled database, with a guard for each way in which sled can fail.
//!
//! This is the only file that names the sled crate. `docs/storage.md` lists the hazards of sled 0.34.7, and the guards.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

use anyhow::{Context as _, anyhow};

/// How long an open waits for the lock: sled's threads release the lock a moment after a close.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// sled refuses a smaller cache.
const CACHE_MIN_BYTES: u64 = 256;

/// The cache of a table that is being filled or sealed, in bytes. Small, because hardly anything is read again.
pub(super) const FILL_CACHE_BYTES: u64 = 1024 * 1024;

/// Bytes that sled shares with its cache.
pub(crate) type SharedBytes = ::sled::IVec;

/// A sorted map of a table, for one kind of entry. Backups have the maps in this order, under these numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Map {
    #[default]
    Tags,
    Events,
    Plants,
    Search,
}

impl Map {
    pub(crate) const ALL: [Self; 4] = [Self::Tags, Self::Events, Self::Plants, Self::Search];

    /// The maps that merges and backups copy. The search index is built again.
    pub(crate) const COPIED: [Self; 3] = [Self::Tags, Self::Events, Self::Plants];

    /// The name of the map's tree in sled.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tags => "tags",
            Self::Events => "events",
            Self::Plants => "plants",
            Self::Search => "search",
        }
    }
}

/// The tree for what an open table keeps in memory, in pieces.
const KEPT: &str = "kept";

/// The key of the summary, in sled's default tree.
const SUMMARY: &str = "summary";

/// The key of the padding, in sled's default tree.
const PADDING_KEY: &str = "padding";

/// sled would write much larger values to files of their own.
const PADDING_BYTES: usize = 64 * 1024;

/// The size of a segment of sled's log, in bytes.
pub(super) const SEGMENT_BYTES: usize = 512 * 1024;

#[derive(Debug)]
struct Trees {
    database: ::sled::Db,
    maps: [::sled::Tree; Map::ALL.len()],
    kept: ::sled::Tree,
}

/// An open database. Each map has blocks under their first keys.
#[derive(Debug)]
pub(super) struct Database {
    /// Present until the database is closed.
    trees: Option<Trees>,
}

/// The blocks of a map from some key on; none by default.
#[derive(Default)]
pub(crate) struct Blocks(Option<(::sled::Tree, ::sled::Iter)>);

/// How often a block is touched after a single read. More touches keep less in memory, and each takes about 0.4 µs.
const TOUCHES: u32 = 4;

/// Reads a block again. This is cheap, because its page is in memory, and brings sled's next eviction nearer.
fn touch(map: &::sled::Tree, first_key: &[u8]) -> ::sled::Result<()> {
    map.get(first_key).map(drop)
}

impl Database {
    /// Opens the database in a folder, or makes a new one. `cache_bytes` bounds sled's cache, except for pages that
    /// were read recently: each of the cache's 256 shards considers an eviction only after every 64th read. So up to
    /// 16,384 pages of about 9 KiB stay in memory whatever the bound; [`touch`] makes them fewer.
    pub(super) fn open(folder: &Path, cache_bytes: u64) -> anyhow::Result<Self> {
        let config = ::sled::Config::new()
            .path(folder)
            .segment_size(SEGMENT_BYTES)
            .cache_capacity(cache_bytes.max(CACHE_MIN_BYTES))
            // Otherwise a thread of sled would write at any time.
            .flush_every_ms(None);
        let begun = Instant::now();
        let open = || loop {
            match config.open() {
                Err(::sled::Error::Io(cause))
                    if is_about_lock(&cause) && begun.elapsed() < LOCK_PATIENCE =>
                {
                    thread::sleep(LOCK_RETRY_INTERVAL);
                }
                opened => {
                    let database = opened?;
                    let [tags, events, plants, search] = Map::ALL.map(Map::name);
                    let maps = [
                        database.open_tree(tags)?,
                        database.open_tree(events)?,
                        database.open_tree(plants)?,
                        database.open_tree(search)?,
                    ];
                    let kept = database.open_tree(KEPT)?;
                    return Ok(Trees { database, maps, kept });
                }
            }
        };
        Ok(Self { trees: Some(guard(open)?) })
    }

    fn trees(&self) -> anyhow::Result<&Trees> {
        self.trees.as_ref().context("the table is closed")
    }

    fn map(&self, map: Map) -> anyhow::Result<&::sled::Tree> {
        Ok(&self.trees()?.maps[map as usize])
    }

    /// Adds a block. A batch would be no faster, and would block all reads of all databases meanwhile.
    pub(super) fn insert(&self, map: Map, first_key: &[u8], block: Vec<u8>) -> anyhow::Result<()> {
        let map = self.map(map)?;
        guard(|| map.insert(first_key, block).map(drop))
    }

    /// The only block that can have `key`, after the first key of that block.
    pub(super) fn block_of(
        &self,
        map: Map,
        key: &[u8],
        touches: bool,
    ) -> anyhow::Result<Option<(SharedBytes, SharedBytes)>> {
        let map = self.map(map)?;
        guard(|| {
            let found = map.range(..=key).next_back().transpose()?;
            if touches && let Some((first_key, _)) = &found {
                (0..TOUCHES).try_for_each(|_| touch(map, first_key))?;
            }
            Ok(found)
        })
    }

    /// The blocks whose first keys are not less than a key.
    pub(super) fn blocks_from(&self, map: Map, first_key: &[u8]) -> anyhow::Result<Blocks> {
        let map = self.map(map)?;
        Ok(Blocks(Some((map.clone(), map.range(first_key..)))))
    }

    pub(super) fn write_summary(&self, summary: &[u8]) -> anyhow::Result<()> {
        let trees = self.trees()?;
        guard(|| trees.database.insert(SUMMARY, summary).map(drop))
    }

    pub(super) fn summary(&self) -> anyhow::Result<SharedBytes> {
        let trees = self.trees()?;
        guard(|| trees.database.get(SUMMARY))?.context("it has no summary")
    }

    /// Adds a piece of what an open table keeps in memory. The numbers of the pieces order them.
    pub(super) fn write_kept(&self, number: u32, piece: Vec<u8>) -> anyhow::Result<()> {
        let trees = self.trees()?;
        guard(|| trees.kept.insert(number.to_be_bytes(), piece).map(drop))
    }

    pub(super) fn kept(&self) -> anyhow::Result<Vec<u8>> {
        let trees = self.trees()?;
        let read = || {
            let mut kept = Vec::new();
            for piece in &trees.kept {
                kept.extend_from_slice(&piece?.1);
            }
            Ok(kept)
        };
        guard(read)
    }

    /// Pads sled's log up to a new segment. On damage in the last segment, an open of sled cuts that segment off, so it
    /// must have nothing but padding.
    pub(super) fn end_segment(&self) -> anyhow::Result<()> {
        let trees = self.trees()?;
        let pad = || {
            // sled skips a write of the value that is already there.
            for number in 0..=u8::try_from(SEGMENT_BYTES / PADDING_BYTES).unwrap_or(u8::MAX) {
                trees.database.insert(PADDING_KEY, vec![number; PADDING_BYTES])?;
            }
            trees.database.remove(PADDING_KEY).map(drop)
        };
        guard(pad)
    }

    /// Hands everything to the operating system. sled does not sync all of it: sync the files after the close.
    pub(super) fn flush(&self) -> anyhow::Result<()> {
        let trees = self.trees()?;
        guard(|| trees.database.flush().map(drop))
    }

    /// Closes the database, and releases its lock. Fails if the disk does not take what was written.
    pub(super) fn close(mut self) -> anyhow::Result<()> {
        self.drop_trees()
    }

    /// sled syncs when its last handle is dropped, and panics if that fails.
    fn drop_trees(&mut self) -> anyhow::Result<()> {
        let trees = self.trees.take();
        guard(|| {
            drop(trees);
            Ok(())
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Nothing is lost: a sealed table has nothing to write, and an unsealed one does not count.
        if let Err(cause) = self.drop_trees() {
            log::error!("a table could not be closed: {cause:#}");
        }
    }
}

impl Blocks {
    /// The next block, after its first key.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<(SharedBytes, SharedBytes)>> {
        let Some((map, blocks)) = &mut self.0 else { return Ok(None) };
        let next = guard(|| {
            let next = blocks.next().transpose()?;
            if let Some((first_key, _)) = &next {
                touch(map, first_key)?;
            }
            Ok(next)
        });
        // sled would read on after the end, and would repeat an error.
        if !matches!(next, Ok(Some(_))) {
            self.0 = None;
        }
        next
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Blocks")
    }
}

fn is_about_lock(cause: &io::Error) -> bool {
    cause.to_string().contains("could not acquire lock")
}

/// Calls sled. A panic becomes an error, and an I/O error stays in the chain of causes.
fn guard<T>(call: impl FnOnce() -> ::sled::Result<T>) -> anyhow::Result<T> {
    match panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(::sled::Error::Io(cause))) => Err(cause.into()),
        Ok(Err(cause)) => Err(cause.into()),
        Err(panicked) => Err(anyhow!("sled panicked: {}", message_of(&*panicked))),
    }
}

/// Turns an error of a table whose files only this program has changed into one of the disk: what sled takes for
/// damage, or panics at, is then a failed read or write.
pub(super) fn of_disk(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<io::Error>() {
        Some(_) => error,
        None => io::Error::other(format!("{error:#}")).into(),
    }
}

fn message_of(panicked: &(dyn Any + Send)) -> &str {
    let text = panicked.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
