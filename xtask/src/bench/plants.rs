//! The plants of the benches, which are those that the Lua scripts make up.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, ensure};

/// Has the names and the tags, and makes plants in the same way.
const LOAD_SCRIPT: &str = include_str!("scripts/load.lua");
pub(super) const ID_MASK: u64 = (1 << 53) - 1;
pub(super) const ID_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The names and the tags that plants are made up from.
#[derive(Debug)]
pub(super) struct Plants {
    names_and_tags: Vec<(&'static str, &'static str)>,
}

impl Plants {
    pub(super) fn of_the_scripts() -> anyhow::Result<Self> {
        let name_and_tag = |line: &'static str| {
            line.strip_prefix("  { \"")?.strip_suffix("\" },")?.split_once("\", \"")
        };
        let names_and_tags: Vec<_> = LOAD_SCRIPT.lines().filter_map(name_and_tag).collect();
        ensure!(!names_and_tags.is_empty(), "load.lua names no plants");
        Ok(Self { names_and_tags })
    }

    /// A plant as the body of a request, or as a line of NDJSON.
    pub(super) fn json(&self, id: u64) -> anyhow::Result<String> {
        let index = usize::try_from(id)? % self.names_and_tags.len();
        let (name, tag) = self.names_and_tags[index];
        Ok(format!(r#"{{"id":{id},"name":"{name} {id}","tag":"{tag}"}}"#))
    }

    /// Names with their tags; the remainder of an id says which it gets.
    pub(super) fn names_and_tags(&self) -> &[(&'static str, &'static str)] {
        &self.names_and_tags
    }

    /// Writes plants with these ids as NDJSON.
    pub(super) fn write(
        &self,
        path: &Path,
        ids: impl IntoIterator<Item = u64>,
    ) -> anyhow::Result<()> {
        let context = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(context)?);
        for id in ids {
            writeln!(file, "{}", self.json(id)?).with_context(context)?;
        }
        // Synced, so that the disk is at rest when it is read.
        file.into_inner().with_context(context)?.sync_all().with_context(context)
    }
}

/// The id of a plant with a number, somewhere in the range of ids; no two numbers have the same.
pub(super) fn scattered(number: u64) -> u64 {
    number.wrapping_mul(ID_FACTOR) & ID_MASK
}

#[cfg(test)]
mod tests {
    use super::super::wrk::COMMON_SCRIPT;
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn ids_are_scattered_with_the_numbers_of_the_script() {
        assert!(COMMON_SCRIPT.contains(&format!("id_limit = 0x{:X}ULL", ID_MASK + 1)));
        assert!(COMMON_SCRIPT.contains(&format!("id_factor = 0x{ID_FACTOR:X}ULL")));
    }

    #[test]
    fn no_two_numbers_have_the_same_id() {
        let ids: BTreeSet<u64> = (0..1_000).map(scattered).collect();
        assert_eq!(ids.len(), 1_000);
        assert_eq!(scattered(0), 0);
    }

    #[test]
    fn a_plant_has_the_name_and_the_tag_that_the_script_gives_it() {
        let plants = Plants::of_the_scripts().unwrap();
        assert_eq!(plants.names_and_tags.len(), 100);
        assert_eq!(
            plants.json(201).unwrap(),
            r#"{"id":201,"name":"Red maple 201","tag":"Sapindaceae"}"#
        );
    }

    #[test]
    fn a_file_has_a_line_for_each_plant() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plants.ndjson");
        Plants::of_the_scripts().unwrap().write(&path, 1..=3).unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with(r#"{"id":1,"#));
    }
}
