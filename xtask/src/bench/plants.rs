//! The plants of every load, derived from their ids: a name of genus and epithet, and one of 70 families as the tag.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context as _;

/// Ids have 53 bits, so that every JSON reader represents them exactly.
const ID_MASK: u64 = (1 << 53) - 1;

/// Odd, so that no two numbers have the same id. 40 bits, so that PostgreSQL can multiply it by numbers of 23 bits
/// without overflow; the scripts in bench/pgbench do.
const ID_FACTOR: u64 = 679_535_556_991;

/// The id of the plant with this number: below 2^53, in no order.
pub(super) fn scattered(number: u64) -> u64 {
    number.wrapping_mul(ID_FACTOR) & ID_MASK
}

/// Genera with their families, and epithets.
type Names = (Vec<(&'static str, &'static str)>, Vec<&'static str>);

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let words = include_str!("plant_words.txt");
    let (families, epithets) = words.split_once("\n\n").unwrap_or_default();
    let genera = families
        .lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(family, genera)| genera.split(' ').map(move |genus| (genus, family)));
    (genera.collect(), epithets.split_whitespace().collect())
});

/// The plant with an id.
pub(super) fn json(id: u64) -> String {
    let (genera, epithets) = &*NAMES;
    // The square makes the first families the most common ones.
    let (place, id_index) = ((id % 4096) as usize, (id / 4096) as usize);
    let (genus, family) = genera[place * place * genera.len() / (4096 * 4096)];
    let epithet = epithets[id_index % epithets.len()];
    format!(r#"{{"id":{id},"name":"{genus} {epithet}","tag":"{family}"}}"#)
}

pub(super) fn write_file(path: &Path, ids: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    for id in ids {
        writeln!(file, "{}", json(id)).with_context(context)?;
    }
    // Synced, so that the disk is at rest when a measurement begins.
    file.into_inner()?.sync_all().with_context(context)
}
