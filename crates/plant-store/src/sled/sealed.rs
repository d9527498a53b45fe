//! Content behind a magic number and its checksum: the manifest, and parts of backups and archives.

use anyhow::{Context as _, ensure};
use xxhash_rust::xxh3::xxh3_64;

/// The magic number of a kind of sealed content, and its name in errors.
pub(crate) struct Seal {
    pub(crate) magic: [u8; 8],
    pub(crate) name: &'static str,
}

impl Seal {
    pub(crate) fn seal(&self, content: &[u8]) -> Vec<u8> {
        [&self.magic, &xxh3_64(content).to_le_bytes(), content].concat()
    }

    pub(crate) fn open<'a>(&self, sealed: &'a [u8]) -> anyhow::Result<&'a [u8]> {
        let content = sealed.strip_prefix(&self.magic).and_then(<[u8]>::split_first_chunk);
        let (expected, content) =
            content.with_context(|| format!("it does not begin as {} does", self.name))?;
        ensure!(
            xxh3_64(content).to_le_bytes() == *expected,
            "the checksum of {} is wrong",
            self.name
        );
        Ok(content)
    }
}
