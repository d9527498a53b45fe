//! Whether what a server sends is an export.

use anyhow::{anyhow, ensure};
use plant_domain::{Error, PlantId};
use plant_http::transfer::{ReadRow, RowReader, TransferFormat};

/// Makes sure that each row of an export is a plant, with a greater id than the one before it.
pub(crate) struct ExportCheck {
    rows: RowReader,
    ends_with_line: bool,
    plants: u64,
    last: Option<PlantId>,
}

impl ExportCheck {
    /// A check that has read nothing yet.
    pub(crate) fn new(format: TransferFormat) -> Self {
        let rows = RowReader::new(format.into());
        Self { rows, ends_with_line: true, plants: 0, last: None }
    }

    /// Reads the next part of the export.
    ///
    /// # Errors
    ///
    /// When a row is no plant, or its id is not greater than the one before.
    pub(crate) fn read(&mut self, part: &[u8]) -> anyhow::Result<()> {
        if let Some(byte) = part.last() {
            self.ends_with_line = *byte == b'\n';
        }
        let read = self.rows.read(part);
        self.check(read)
    }

    /// The export is at its end.
    ///
    /// # Errors
    ///
    /// As those of [`read`](Self::read), and when it ends within a row.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        ensure!(self.ends_with_line, "it ends within a row, after {} whole ones", self.plants);
        let read = self.rows.finish();
        self.check(read)
    }

    /// How many plants there are in what was read.
    pub(crate) const fn plants(&self) -> u64 {
        self.plants
    }

    /// The id of the last of them.
    pub(crate) const fn last(&self) -> Option<PlantId> {
        self.last
    }

    fn check(&mut self, rows: Result<Vec<ReadRow>, Error>) -> anyhow::Result<()> {
        for (line, plant) in rows? {
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
        assert_eq!((check.plants(), check.last()), (2, Some(3.into())));
        assert!(check.read(b"2,Acer,\n").is_err());
    }
}
