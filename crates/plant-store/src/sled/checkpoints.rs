//! Checkpoints in one small file, which is replaced as a whole. Saves that wait at the same time are written together.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;

use crate::format::Format;
use crate::sled::files::replace;
use crate::sled::regular_file::read_own;
use crate::sled::sealed::Seal;

const FILE: &str = "checkpoints";

const SEAL: Seal = Seal { magic: *b"plcheck1", name: "a file of checkpoints" };

const FORMAT: Format = Format { name: "the file of checkpoints", oldest: 1, newest: 1 };

type Contents = BTreeMap<String, Vec<u8>>;

/// The checkpoints of a database that is open.
#[derive(Clone, Debug)]
pub(super) struct CheckpointFile {
    directory: PathBuf,
    contents: Arc<Mutex<Numbered>>,
    /// The number of the contents that are on disk. Locked while the file is written.
    written: Arc<AsyncMutex<u64>>,
}

#[derive(Debug)]
struct Numbered {
    contents: Contents,
    /// Grows with each change.
    number: u64,
}

impl Numbered {
    /// Counts a change. Returns the number of the contents with it.
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl CheckpointFile {
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let contents = Arc::new(Mutex::new(Numbered { contents: read(directory)?, number: 0 }));
        Ok(Self { directory: directory.to_owned(), contents, written: Arc::default() })
    }

    /// The bytes of a name, which from now on may be changed. After a write that failed, memory is ahead of the disk, so the
    /// write is repeated first.
    pub(super) async fn hold(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let number = self.contents().number;
        self.write_up_to(number).await?;
        Ok(self.contents().contents.entry(name.to_owned()).or_default().clone())
    }

    /// Changes the bytes of a name. Returns false if the name was never held, or is forgotten.
    pub(super) async fn save(&self, name: &str, content: Vec<u8>) -> anyhow::Result<bool> {
        let number = {
            let mut numbered = self.contents();
            let Some(saved) = numbered.contents.get_mut(name) else { return Ok(false) };
            *saved = content;
            numbered.next()
        };
        self.write_up_to(number).await?;
        Ok(true)
    }

    /// Forgets the other names.
    pub(super) async fn retain(&self, names: &[String]) -> anyhow::Result<()> {
        let number = {
            let mut numbered = self.contents();
            let before = numbered.contents.len();
            numbered.contents.retain(|name, _| names.contains(name));
            if numbered.contents.len() == before {
                return Ok(());
            }
            numbered.next()
        };
        self.write_up_to(number).await
    }

    /// Waits until the contents with this number, or newer ones, are on disk.
    async fn write_up_to(&self, number: u64) -> anyhow::Result<()> {
        let mut written = Arc::clone(&self.written).lock_owned().await;
        if *written >= number {
            return Ok(());
        }
        let file = self.clone();
        // The write holds the lock, because a canceled caller does not stop the write.
        let write = spawn_blocking(move || {
            let (number, content) = {
                let numbered = file.contents();
                (numbered.number, FORMAT.encode(&numbered.contents, 0)?)
            };
            replace(&file.directory, FILE, &SEAL.seal(&content))?;
            *written = number;
            anyhow::Ok(())
        });
        write.await.context("writing checkpoints panicked").flatten()
    }

    fn contents(&self) -> MutexGuard<'_, Numbered> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The checkpoints on disk, by name.
pub(super) fn read(directory: &Path) -> anyhow::Result<Contents> {
    let path = directory.join(FILE);
    let bytes = match read_own(&path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Contents::new()),
        bytes => bytes.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let decoded = SEAL.open(&bytes).and_then(|content| FORMAT.decode(content));
    decoded.with_context(|| {
        format!(
            "{} cannot be used; move it away: then each webhook reports that events are lost",
            path.display()
        )
    })
}
