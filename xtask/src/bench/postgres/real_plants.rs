//! The real plants of the tests, as many as are wanted.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::bench::plants::scattered;

/// With names in many scripts and of many lengths.
const PATH: &str = "tests/data/plants.csv";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Plant {
    id: u64,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

/// Writes so many plants as NDJSON: the real ones over and over, with ids anywhere in the range of ids.
pub(super) fn write(workspace_root: &Path, path: &Path, count: u32) -> anyhow::Result<()> {
    let plants = read(&workspace_root.join(PATH))?;
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    for (number, plant) in (1..=count).zip(plants.iter().cycle()) {
        let plant = Plant { id: scattered(number.into()), ..plant.clone() };
        writeln!(file, "{}", serde_json::to_string(&plant)?).with_context(context)?;
    }
    // Synced, so that the disk is at rest when it is read.
    file.into_inner().with_context(context)?.sync_all().with_context(context)
}

fn read(path: &Path) -> anyhow::Result<Vec<Plant>> {
    let context = || format!("cannot read {}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(context)?;
    let plants: Vec<Plant> =
        reader.deserialize().collect::<Result<_, _>>().with_context(context)?;
    ensure!(!plants.is_empty(), "{} names no plants", path.display());
    Ok(plants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn real_plants_come_again_with_other_ids() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let plants = read(&root.join(PATH)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plants.ndjson");
        let count = plants.len() + 1;
        write(&root, &path, count.try_into().unwrap()).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let written: Vec<Plant> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(written.len(), count);
        assert_eq!(written[0].id, scattered(1));
        let with_id_of = |plant: &Plant, other: &Plant| Plant { id: other.id, ..plant.clone() };
        assert_eq!(written[count - 1], with_id_of(&written[0], &written[count - 1]));
        assert_eq!(written[0], with_id_of(&plants[0], &written[0]));
        assert!(written.iter().any(|plant| !plant.name.is_ascii()));
    }
}
