//! Simulates the next version of a record, with one more optional member, to test that records of this version stay
//! readable.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use serde::{Deserialize, Serialize};

use crate::format::{Format, whole};

static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

/// The value of the new member in each new record.
const HABITAT: &str = "hedges";

/// A record with the new member.
#[derive(Serialize, Deserialize)]
struct Next<'a, T> {
    record: T,
    habitat: Option<&'a str>,
}

/// Makes this process write the next version, or this version again.
pub fn switch(is_written: bool) {
    IS_WRITTEN.store(is_written, Ordering::SeqCst);
}

pub(crate) fn is_written() -> bool {
    IS_WRITTEN.load(Ordering::Relaxed)
}

/// The record in the version after this one.
pub(crate) fn encode(format: Format, record: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    next(format).encode(&Next { record, habitat: Some(HABITAT) }, 0)
}

/// Decodes a record of this version or the next one.
pub(crate) fn decode<'a, T: Deserialize<'a>>(format: Format, bytes: &'a [u8]) -> anyhow::Result<T> {
    let (version, content) = next(format).version_of(bytes)?;
    let Next { record, habitat } = if version == format.newest {
        Next { record: whole(content)?, habitat: None }
    } else {
        whole(content)?
    };
    match habitat {
        None | Some(HABITAT) => Ok(record),
        Some(other) => bail!("the habitat of a plant became {other:?}"),
    }
}

const fn next(format: Format) -> Format {
    Format { newest: format.newest + 1, ..format }
}
