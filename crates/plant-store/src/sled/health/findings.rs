//! Findings: problems of a database, for which it is refused, or which are listed.

use std::fmt;

use anyhow::anyhow;

use crate::sled::health::errors::is_about_content;

/// How many findings are listed. One damaged block may cause a finding for every plant.
const MAX_LISTED: usize = 1_000;

#[derive(Clone, Debug)]
pub(crate) enum Findings {
    /// For a server: the first finding is an error.
    Refuse,
    /// For a check: every finding is listed.
    List { listed: Vec<String>, unlisted: u64 },
}

impl Findings {
    pub(crate) const fn list() -> Self {
        Self::List { listed: Vec::new(), unlisted: 0 }
    }

    /// Adds a finding. [`Self::Refuse`] returns it as an error.
    pub(crate) fn add(&mut self, finding: impl fmt::Display) -> anyhow::Result<()> {
        self.add_error(anyhow!("{finding}"))
    }

    /// The value, or `None` after adding the error as a finding. Returns an error of the disk or of another format
    /// instead, which says nothing about the content of the database.
    pub(crate) fn value_of<T>(&mut self, looked: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match looked {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.add_error(error).map(|()| None),
        }
    }

    pub(crate) fn into_list(self) -> (Vec<String>, u64) {
        match self {
            Self::Refuse => (Vec::new(), 0),
            Self::List { listed, unlisted } => (listed, unlisted),
        }
    }

    fn add_error(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match self {
            _ if !is_about_content(&error) => return Err(error),
            Self::Refuse => return Err(error),
            Self::List { listed, .. } if listed.len() < MAX_LISTED => {
                let finding = format!("{error:#}");
                // Several readers of a backup may meet the same damage.
                if !listed.contains(&finding) {
                    listed.push(finding);
                }
            }
            Self::List { unlisted, .. } => *unlisted += 1,
        }
        Ok(())
    }
}
