//! Versions of the formats on disk: each kind of record, the manifest, backups and archives have their own.
//!
//! A reader reads the newest version of a format and the one before. Plants and events keep the version that wrote
//! them, so their readers read all versions. A new optional member of a plant therefore costs another version of its
//! [record](crate::record), and a default in its one decoder.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A format: one byte with the version, then the content as postcard encodes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// What errors call the bytes.
    pub(crate) name: &'static str,
    /// The oldest version that is read.
    pub(crate) oldest: u8,
    /// The version that is written.
    pub(crate) newest: u8,
}

/// The bytes are not damaged, but of another version of the program.
#[derive(Debug, Error)]
#[error(
    "{name} has {found}, and this version of the program reads {known}; export the plants with the version that wrote \
     it, and import them with this one"
)]
pub(crate) struct OtherFormat {
    pub(crate) name: &'static str,
    pub(crate) found: String,
    pub(crate) known: String,
}

impl Format {
    /// Encodes a value in the newest version. `capacity` is about the number of bytes.
    pub(crate) fn encode(self, value: &impl Serialize, capacity: usize) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(self.newest);
        Ok(postcard::to_extend(value, bytes)?)
    }

    /// The version of these bytes, and their content.
    pub(crate) fn version_of(self, bytes: &[u8]) -> anyhow::Result<(u8, &[u8])> {
        let (version, content) = bytes.split_first().context("it is empty")?;
        let known = self.oldest..=self.newest;
        ensure!(
            known.contains(version),
            OtherFormat {
                name: self.name,
                found: format!("version {version}"),
                known: format!("version {} to {}", known.start(), known.end()),
            }
        );
        Ok((*version, content))
    }

    /// Decodes a value that is encoded alike in all versions.
    pub(crate) fn decode<'a, T: Deserialize<'a>>(self, bytes: &'a [u8]) -> anyhow::Result<T> {
        whole(self.version_of(bytes)?.1)
    }
}

/// Decodes a value that takes up all bytes.
pub(crate) fn whole<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> anyhow::Result<T> {
    let (decoded, rest) = postcard::take_from_bytes(bytes)?;
    ensure!(rest.is_empty(), "there are {} bytes after the end", rest.len());
    Ok(decoded)
}
