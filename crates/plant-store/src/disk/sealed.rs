//! Content behind a magic number and its checksum: the manifest, and parts of backups and archives.

use anyhow::{Context as _, ensure};

use super::block::checksum;

/// What a kind of sealed content begins with, and what to call it in errors.
pub(super) struct Seal {
    pub(super) magic: [u8; 8],
    pub(super) name: &'static str,
}

impl Seal {
    pub(super) fn seal(&self, content: &[u8]) -> Vec<u8> {
        [&self.magic, &checksum(content).to_le_bytes(), content].concat()
    }

    pub(super) fn open<'a>(&self, sealed: &'a [u8]) -> anyhow::Result<&'a [u8]> {
        let content = sealed.strip_prefix(&self.magic).and_then(<[u8]>::split_first_chunk);
        let (expected, content) =
            content.with_context(|| format!("it does not begin as {} does", self.name))?;
        ensure!(
            checksum(content).to_le_bytes() == *expected,
            "the checksum of {} is wrong",
            self.name
        );
        Ok(content)
    }
}
