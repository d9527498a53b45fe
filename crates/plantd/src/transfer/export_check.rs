//! Checks that the answer of a server is an export.

use anyhow::{anyhow, ensure};
use plant_domain::PlantId;
use plant_http::transfer::{ReadRow, RowReader, TransferFormat};

/// Checks that each row of an export is a plant with a greater id than the one before.
pub(crate) struct ExportCheck {
    rows: RowReader,
    ends_with_line: bool,
    /// How many plants were read.
    pub(crate) plants: u64,
    /// The id of the last one.
    pub(crate) last: Option<PlantId>,
}

impl ExportCheck {
    pub(crate) fn new(format: TransferFormat) -> Self {
        let rows = RowReader::new(format.into());
        Self { rows, ends_with_line: true, plants: 0, last: None }
    }

    /// Checks the next part.
    pub(crate) fn read(&mut self, part: &[u8]) -> anyhow::Result<()> {
        if let Some(byte) = part.last() {
            self.ends_with_line = *byte == b'\n';
        }
        let mut rows = Vec::new();
        self.rows.read(part, &mut rows)?;
        self.check(rows)
    }

    /// Checks that the export does not end within a row.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        ensure!(self.ends_with_line, "it ends within a row, after {} whole ones", self.plants);
        let mut rows = Vec::new();
        self.rows.finish(&mut rows)?;
        self.check(rows)
    }

    fn check(&mut self, rows: Vec<ReadRow>) -> anyhow::Result<()> {
        for (line, plant) in rows {
            let plant = plant.map_err(|error| anyhow!("line {line} is no plant: {error}"))?;
            let id = plant.id();
            if let Some(last) = self.last.replace(id) {
                ensure!(last < id, "line {line} has the plant {id} behind the plant {last}");
            }
            self.plants += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_smaller_id_than_the_one_before_is_no_export() {
        let mut check = ExportCheck::new(TransferFormat::Csv);
        check.read(b"id,name,tag\n1,Rosa,\n3,Sa").unwrap();
        check.read(b"lix,\n").unwrap();
        check.finish().unwrap();
        assert_eq!((check.plants, check.last), (2, Some(3.into())));
        assert!(check.read(b"2,Acer,\n").is_err());
    }
}
