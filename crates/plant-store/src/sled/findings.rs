//! What is wrong with a database: a reason to refuse it, or something to list.

use std::fmt;

use anyhow::anyhow;

use super::ordered_map::guarded::is_of_disk;

/// How many findings are listed. A damaged page may make one of every plant.
const MAX_LISTED: usize = 1_000;

/// Takes what is found to be wrong.
#[derive(Clone, Debug)]
pub(super) enum Findings {
    /// For a server, which goes no further: the first finding is an error.
    Refuse,
    /// For a check, which tells of all of them.
    List { listed: Vec<String>, unlisted: u64 },
}

impl Findings {
    /// A list that is empty.
    pub(super) const fn list() -> Self {
        Self::List { listed: Vec::new(), unlisted: 0 }
    }

    /// Something is wrong.
    ///
    /// # Errors
    ///
    /// The finding itself, where the database is refused because of it.
    pub(super) fn add(&mut self, finding: impl fmt::Display) -> anyhow::Result<()> {
        self.add_error(anyhow!("{finding}"))
    }

    /// What was looked at, unless that failed, which is a finding too.
    ///
    /// # Errors
    ///
    /// As for [`Self::add`], and when it is the disk that failed.
    pub(super) fn value_of<T>(&mut self, looked: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match looked {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.add_error(error).map(|()| None),
        }
    }

    /// What is listed, and how many more there were.
    pub(super) fn into_list(self) -> (Vec<String>, u64) {
        match self {
            Self::Refuse => (Vec::new(), 0),
            Self::List { listed, unlisted } => (listed, unlisted),
        }
    }

    fn add_error(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match self {
            // A disk that fails says nothing about the database.
            _ if is_of_disk(&error) => return Err(error),
            Self::Refuse => return Err(error),
            Self::List { listed, .. } if listed.len() < MAX_LISTED => {
                listed.push(format!("{error:#}"));
            }
            Self::List { unlisted, .. } => *unlisted += 1,
        }
        Ok(())
    }
}
