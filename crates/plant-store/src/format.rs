//! Versions of what is on disk: each kind of record, the manifest, backups and archives have one of their own.
//!
//! A reader knows the newest version of a format and the one before. Of plants and events, which keep the version in which
//! they were written, a reader knows all versions. So a new optional member of a plant costs another version of its
//! [record](crate::record), and a default in its one decoder.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A kind of bytes: one byte with the version, and then the content as postcard writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// What to call the bytes in errors.
    pub(crate) name: &'static str,
    /// The first version that can be read.
    pub(crate) oldest: u8,
    /// The version that is written.
    pub(crate) newest: u8,
}

/// Another version of the program wrote the bytes, which are then not damaged.
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
    /// The bytes of a value in the newest version; `capacity` is about how many there will be.
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

    /// Decodes a value whose versions do not differ.
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
