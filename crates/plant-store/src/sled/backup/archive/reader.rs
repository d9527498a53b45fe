//! Reads an archive: the groups that follow a backup, up to a moment.

use std::path::{Path, PathBuf};
use std::vec;

use anyhow::{Context as _, anyhow, ensure};

use crate::event::to_millis;
use crate::sled::backup::archive::{PieceName, pieces, read_piece};
use crate::sled::backup::position::{Position, Until};
use crate::sled::backup::restore_error::RestoreError;
use crate::sled::commit::change::{ChangeGroup, Totals};
use crate::sled::events::cursor;

/// An archive, and the moment up to which it continues a backup: the target of a point-in-time recovery.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PointInTime {
    /// The folder of the archive.
    pub archive: PathBuf,
    /// The last moment to restore; `None` for everything in the archive.
    pub until: Option<Until>,
}

impl PointInTime {
    /// Everything in the archive.
    pub fn newest(archive: impl Into<PathBuf>) -> Self {
        Self { archive: archive.into(), until: None }
    }
}

/// What the archive has after the restored moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of changes.
    pub changes: u64,
    /// How many of them are not later than the requested time, because the clock was set back.
    pub not_later: u64,
}

/// The groups of one log after a backup, up to a moment.
pub(crate) struct ArchiveReader<'a> {
    archive: &'a Path,
    event_log: u32,
    until: Option<Until>,
    /// The totals after the backup and the groups so far.
    totals: Totals,
    /// The sequence number of the newest change in the archive.
    newest: u64,
    pieces: vec::IntoIter<PieceName>,
    /// The current piece, and its remaining groups.
    current: Option<(PieceName, vec::IntoIter<ChangeGroup>)>,
}

impl<'a> ArchiveReader<'a> {
    /// The groups after a backup of the log `event_log` with these `totals`.
    pub(crate) fn after(
        moment: &'a PointInTime,
        event_log: u32,
        totals: Totals,
    ) -> Result<Self, RestoreError> {
        let PointInTime { archive, until } = moment;
        check_is_later(*until, event_log, &totals).map_err(RestoreError::no_such_moment)?;
        let find = || {
            let pieces = pieces_of(archive, event_log)?;
            ensure!(
                !pieces.is_empty(),
                "{} has no piece of the log that the backup is of",
                archive.display()
            );
            Ok(after(pieces, &totals))
        };
        let pieces = find().map_err(RestoreError::unusable)?;
        let newest = pieces.as_slice().last().map_or(0, |piece| piece.last_sequence);
        Ok(Self { archive, event_log, until: *until, totals, newest, pieces, current: None })
    }

    /// The newest change so far, in the backup or in a group.
    pub(crate) fn position(&self) -> Position {
        Position::newest(self.event_log, &self.totals)
    }

    /// What the archive has after the groups so far. Reads the rest of the archive if a time was requested; the times
    /// of changes after a damaged piece are unknown.
    pub(crate) fn left_out(&self) -> LeftOut {
        let changes = self.newest.saturating_sub(self.totals.last_sequence);
        let mut not_later = 0;
        if let Some(Until::Time(time)) = self.until {
            let to_the_end = PointInTime::newest(self.archive);
            let rest = ArchiveReader::after(&to_the_end, self.event_log, self.totals);
            let mut rest = rest.ok();
            while let Some(Ok(Some(group))) = rest.as_mut().map(ArchiveReader::next) {
                let is_not_later = group.at_ms <= to_millis(time);
                not_later += if is_not_later { group.changes.len() as u64 } else { 0 };
            }
        }
        LeftOut { changes, not_later }
    }

    /// The next group, cut at the moment; `None` at the moment or at the end of the archive.
    ///
    /// # Errors
    ///
    /// [`RestoreError::NotWhole`] when the archive is not whole up to the moment.
    pub(crate) fn next(&mut self) -> Result<Option<ChangeGroup>, RestoreError> {
        loop {
            let rest_of_piece = self.current.as_mut();
            let next = rest_of_piece.and_then(|(piece, groups)| Some((*piece, groups.next()?)));
            let Some((piece, group)) = next else {
                if !self.begin_piece()? {
                    return Ok(None);
                }
                continue;
            };
            if group.last_sequence() <= self.totals.last_sequence {
                // The backup has this group.
                continue;
            }
            let Some(group) = self.part_of(group).map_err(RestoreError::no_such_moment)? else {
                return Ok(None);
            };
            self.totals =
                self.totals_after(&group, piece).map_err(|cause| self.not_whole(cause))?;
            return Ok(Some(group));
        }
    }

    /// Reads the next piece. Returns false if no more are needed.
    fn begin_piece(&mut self) -> Result<bool, RestoreError> {
        let is_at_cursor = match self.until {
            Some(Until::Cursor(until)) => until.revision.get() == self.totals.last_sequence,
            _ => false,
        };
        if is_at_cursor {
            return Ok(false);
        }
        let mut next = self.pieces.next();
        loop {
            let cause = match self.read_piece(next) {
                Ok(groups) => {
                    self.current = next.zip(groups.map(Vec::into_iter));
                    return Ok(self.current.is_some());
                }
                Err(cause) => cause,
            };
            // A server may have merged pieces since they were listed, or while they were.
            let pieces = pieces_of(self.archive, self.event_log).map_err(RestoreError::unusable)?;
            self.pieces = after(pieces, &self.totals);
            let again = self.pieces.next();
            if again == next {
                return Err(self.not_whole(cause));
            }
            next = again;
        }
    }

    /// The groups of the next piece; `None` at the end of the archive.
    fn read_piece(&self, next: Option<PieceName>) -> anyhow::Result<Option<Vec<ChangeGroup>>> {
        let Some(piece) = next else {
            return match self.until {
                Some(Until::Cursor(until)) => {
                    Err(anyhow!("the archive ends before the change {until}"))
                }
                _ => Ok(None),
            };
        };
        let (next, archive) = (self.totals.last_sequence + 1, self.archive.display());
        let last = piece.first_sequence.saturating_sub(1);
        ensure!(last < next, "{archive} lacks the changes {next} to {last}");
        read_piece(self.archive, piece).map(Some)
    }

    fn totals_after(&self, group: &ChangeGroup, piece: PieceName) -> anyhow::Result<Totals> {
        let after = || {
            ensure!(group.follows(&self.totals), "it is of another history");
            self.totals.after(group)
        };
        after().with_context(|| format!("{} cannot be applied", piece.path(self.archive).display()))
    }

    fn not_whole(&self, cause: anyhow::Error) -> RestoreError {
        RestoreError::not_whole(self.position(), cause)
    }

    /// The part of a group up to the requested moment; `None` if the whole group is later.
    fn part_of(&self, mut group: ChangeGroup) -> anyhow::Result<Option<ChangeGroup>> {
        match self.until {
            Some(Until::Time(time)) if group.at_ms > to_millis(time) => return Ok(None),
            Some(Until::Cursor(until)) if until.revision.get() < group.first_sequence => {
                return Ok(None);
            }
            Some(Until::Cursor(until)) if until.revision.get() <= group.last_sequence() => {
                let sequence = until.revision.get();
                ensure!(
                    until == cursor(self.event_log, sequence, group.at_ms),
                    "the archive has another change than {until} under its number"
                );
                let kept = sequence - group.first_sequence + 1;
                group.changes.truncate(usize::try_from(kept)?);
            }
            _ => {}
        }
        Ok(Some(group))
    }
}

/// The pieces of a log without the covered ones.
fn pieces_of(archive: &Path, event_log: u32) -> anyhow::Result<Vec<PieceName>> {
    let mut pieces = pieces(archive)?;
    pieces.retain(|piece| piece.event_log == event_log);
    Ok(pieces)
}

/// The pieces with changes after these totals.
fn after(mut pieces: Vec<PieceName>, totals: &Totals) -> vec::IntoIter<PieceName> {
    pieces.retain(|piece| piece.last_sequence > totals.last_sequence);
    pieces.into_iter()
}

/// Checks that the moment is not before the backup with these `totals`.
fn check_is_later(until: Option<Until>, event_log: u32, totals: &Totals) -> anyhow::Result<()> {
    let newest = Position::newest(event_log, totals).cursor;
    let is_later = match until {
        None => true,
        Some(Until::Time(time)) => to_millis(time) >= totals.last_at_ms,
        Some(Until::Cursor(until)) => {
            ensure!(
                until.log >> 32 == u64::from(event_log),
                "the cursor {until} is not of the log that the backup is of"
            );
            until.revision > newest.revision || until == newest
        }
    };
    ensure!(
        is_later,
        "the backup is of a later moment, with the change {newest}; take an older backup"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
