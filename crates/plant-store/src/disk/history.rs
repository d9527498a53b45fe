//! The history in an archive: the groups that follow a backup, up to a moment.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};

use super::archive::{pieces, read_piece};
use super::change::{ChangeGroup, Totals};
use super::event_log::cursor;
use super::position::{Position, Until};
use crate::EventCursor;
use crate::event::to_millis;

/// An archive, and the moment up to which it is to be replayed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The folder of the archive.
    pub archive: PathBuf,
    /// The last moment to restore; `None` for everything in the archive.
    pub until: Option<Until>,
}

impl Replay {
    /// Everything in the archive.
    pub fn of(archive: impl Into<PathBuf>) -> Self {
        Self { archive: archive.into(), until: None }
    }
}

/// Says that an archive is whole only up to a position.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeUpTo(pub(super) Position);

impl fmt::Display for WholeUpTo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the archive is whole up to the change {}", self.0.cursor)
    }
}

/// The groups of one log after a backup.
pub(super) struct History<'a> {
    archive: &'a Path,
    event_log: u32,
    until: Option<Until>,
    /// What the backup and the groups that were taken so far add up to.
    totals: Totals,
}

impl<'a> History<'a> {
    /// The history after a backup of the log `event_log` that adds up to `totals`.
    pub(super) fn after(replay: &'a Replay, event_log: u32, totals: Totals) -> Self {
        Self { archive: &replay.archive, event_log, until: replay.until, totals }
    }

    /// Gives each group to `apply`, and returns what all of them and the backup add up to. An error about the content of the
    /// archive says [`WholeUpTo`].
    pub(super) fn replay(
        mut self,
        mut apply: impl FnMut(ChangeGroup) -> anyhow::Result<()>,
    ) -> anyhow::Result<Totals> {
        self.check_until_is_later()?;
        let mut pieces = pieces(self.archive)?;
        pieces.retain(|piece| piece.event_log == self.event_log);
        let whole = |history: &Self| {
            let Totals { last_sequence, last_at_ms, .. } = history.totals;
            WholeUpTo(Position::of(history.event_log, last_sequence, last_at_ms))
        };
        ensure!(
            !pieces.is_empty(),
            "{} has no piece of the log that the backup is of",
            self.archive.display()
        );
        for piece in pieces {
            if piece.last_sequence <= self.totals.last_sequence {
                continue;
            }
            if self.is_at_end() {
                return Ok(self.totals);
            }
            let next = self.totals.last_sequence + 1;
            if piece.first_sequence > next {
                let cause = anyhow!(
                    "{} lacks the changes {next} to {}",
                    self.archive.display(),
                    piece.first_sequence - 1
                );
                return Err(cause.context(whole(&self)));
            }
            let groups =
                read_piece(self.archive, piece).map_err(|error| error.context(whole(&self)))?;
            for group in groups {
                if group.last_sequence() <= self.totals.last_sequence {
                    // The backup has it.
                    continue;
                }
                let Some(group) = self.part_of(group)? else { return Ok(self.totals) };
                let take = || {
                    ensure!(group.follows(&self.totals), "it is of another history");
                    let totals = self.totals.after(&group)?;
                    apply(group)?;
                    Ok(totals)
                };
                self.totals = take()
                    .with_context(|| {
                        format!("{} cannot be applied", piece.path(self.archive).display())
                    })
                    .map_err(|error| error.context(whole(&self)))?;
            }
        }
        match self.until {
            Some(Until::Cursor(until)) if !self.is_at_end() => {
                Err(anyhow!("it ends before the change {until}").context(whole(&self)))
            }
            _ => Ok(self.totals),
        }
    }

    fn newest(&self) -> EventCursor {
        cursor(self.event_log, self.totals.last_sequence, self.totals.last_at_ms)
    }

    /// Whether the change that the user asks for was the last one.
    fn is_at_end(&self) -> bool {
        let until = match self.until {
            Some(Until::Cursor(cursor)) => Some(cursor.revision.get()),
            _ => None,
        };
        until == Some(self.totals.last_sequence)
    }

    fn check_until_is_later(&self) -> anyhow::Result<()> {
        let newest = self.newest();
        let is_later = match self.until {
            None => true,
            Some(Until::Time(time)) => to_millis(time) >= self.totals.last_at_ms,
            Some(Until::Cursor(until)) => {
                ensure!(
                    until.log >> 32 == u64::from(self.event_log),
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

    /// The part of the next group up to the moment that the user asks for; `None` when the whole group is later.
    fn part_of(&self, mut group: ChangeGroup) -> anyhow::Result<Option<ChangeGroup>> {
        match self.until {
            Some(Until::Time(time)) if group.at_ms > to_millis(time) => return Ok(None),
            Some(Until::Cursor(until)) if until.revision.get() < group.first_sequence => {
                return Ok(None);
            }
            Some(Until::Cursor(until)) if until.revision.get() <= group.last_sequence() => {
                let sequence = until.revision.get();
                if until != cursor(self.event_log, sequence, group.at_ms) {
                    bail!("the archive has another change than {until} under its number");
                }
                let kept = sequence - group.first_sequence + 1;
                group.changes.truncate(usize::try_from(kept)?);
            }
            _ => {}
        }
        Ok(Some(group))
    }
}
