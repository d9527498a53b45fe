//! Taking many plants at once.

/// What to do with a plant whose id is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse it.
    #[default]
    Error,
    /// Keep the plant that is there.
    Skip,
    /// Replace the plant that is there.
    Replace,
}

/// What became of one plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// Its id was free: it was created.
    Created,
    /// It is in the place of the one that was there, from which it may not differ at all.
    Replaced,
    /// Its id was taken, so it was left out, as [`OnConflict::Skip`] says.
    Skipped,
    /// Its id was taken, and it was refused, as [`OnConflict::Error`] says.
    IdTaken,
}
