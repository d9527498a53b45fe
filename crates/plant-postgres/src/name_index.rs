//! The indexes for searches by a part of a name.
//!
//! The trigram index needs the extension pg_trgm, and finds parts with three letters or digits in a row. The character
//! index needs no extension, and finds parts with a character outside ASCII, however short. For other parts, and
//! without the extension, a search scans plants by ascending id.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use plant_store::PAGE_MAX_WORK;
use tokio::sync::Mutex;
use tokio_postgres::Row;

use crate::config::PostgresConfig;
use crate::page_statements::{FIND_NAME_INDEXES, NameIndex};
use crate::sessions::{Session, SessionError, Sessions};

/// How long a reader trusts what it knows of the indexes, because another server may make them, and an administrator
/// may drop them.
const KNOWN_FOR: Duration = Duration::from_secs(2);

/// Finds the schema of the extension, if installed, as quoted SQL.
const EXTENSION_SCHEMA: &str = "SELECT quote_ident(nspname) FROM pg_extension \
     JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'pg_trgm'";

/// Not in the schema of the plants: dropping that schema would drop the indexes of all other schemas too.
const MAKE_EXTENSION: &str = "CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public";

/// GIN collects the entries of new names in a pending list, which each search reads, and sorts them in at 64 MB at the
/// latest. The larger the batch, the cheaper each name: 100,000 names cost half as much as 8,000.
const TRIGRAM_INDEX: &str = "plants_by_name ON SCHEMA.plants \
     USING gin (folded_name OPERATORS.gin_trgm_ops) WITH (gin_pending_list_limit = 65536)";

/// The indexes that exist.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameIndexes {
    has_trigrams: bool,
    has_letters: bool,
    /// Whether pg_trgm takes characters outside ASCII for letters.
    knows_letters: bool,
}

impl NameIndexes {
    /// The index that narrows down a search for a part of a folded name the most, if any does.
    pub(super) fn for_part(self, part: &str) -> Option<NameIndex> {
        let letters: Vec<char> = part.chars().collect();
        let finds = |trigram: fn(&[char], bool) -> bool| {
            self.has_trigrams && trigram(&letters, self.knows_letters)
        };
        if finds(has_trigram_in_a_word) {
            Some(NameIndex::Trigrams)
        } else if self.has_letters && !part.is_ascii() {
            Some(NameIndex::Letters)
        } else {
            finds(has_trigram_at_a_gap).then_some(NameIndex::Trigrams)
        }
    }
}

// A part without a trigram would make pg_trgm read its whole index. pg_trgm pads each word with two spaces in front and
// one behind, but a part may begin and end within a word.

fn has_trigram_in_a_word(part: &[char], knows_letters: bool) -> bool {
    part.windows(3).any(|three| three.iter().all(|letter| is_of_word(*letter, knows_letters)))
}

/// Such a trigram includes padding, so many names have it.
fn has_trigram_at_a_gap(part: &[char], knows_letters: bool) -> bool {
    let is_of_word = |letter| is_of_word(letter, knows_letters);
    let is_gap = |letter: char| letter.is_ascii() && !letter.is_ascii_alphanumeric();
    part.windows(2).any(|pair| is_gap(pair[0]) && is_of_word(pair[1]))
        || part
            .windows(3)
            .any(|three| is_of_word(three[0]) && is_of_word(three[1]) && is_gap(three[2]))
}

fn is_of_word(letter: char, knows_letters: bool) -> bool {
    letter.is_ascii_alphanumeric() || knows_letters && !letter.is_ascii() && letter.is_alphabetic()
}

pub(super) fn letters(part: &str) -> Vec<String> {
    part.chars().collect::<BTreeSet<_>>().into_iter().map(String::from).collect()
}

/// The pattern of `LIKE` for a part of a name.
pub(super) fn pattern(part: &str) -> String {
    let mut pattern = String::from("%");
    for letter in part.chars() {
        if matches!(letter, '\\' | '%' | '_') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// The indexes that a reader last found, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownNameIndexes {
    found: Arc<Mutex<Option<(Instant, NameIndexes)>>>,
}

impl KnownNameIndexes {
    pub(super) async fn get(&self, session: &Session) -> anyhow::Result<NameIndexes> {
        let mut found = self.found.lock().await;
        if let Some((since, indexes)) = *found
            && since.elapsed() < KNOWN_FOR
        {
            return Ok(indexes);
        }
        let indexes = of_row(&session.row(FIND_NAME_INDEXES, &[]).await?)?;
        *found = Some((Instant::now(), indexes));
        Ok(indexes)
    }
}

fn of_row(row: &Row) -> Result<NameIndexes, tokio_postgres::Error> {
    Ok(NameIndexes {
        has_trigrams: row.try_get("has_trigrams")?,
        has_letters: row.try_get("has_letters")?,
        knows_letters: row.try_get("knows_letters")?,
    })
}

/// Whether the trigram index exists and is complete.
pub(super) async fn is_made(session: &Session) -> anyhow::Result<bool> {
    Ok(of_row(&session.row(FIND_NAME_INDEXES, &[]).await?)?.has_trigrams)
}

/// The schema of the extension. Installs a missing one.
pub(super) async fn extension_schema(session: &Session) -> anyhow::Result<String> {
    let find = async || -> anyhow::Result<Option<String>> {
        let rows = session.rows(EXTENSION_SCHEMA, &[]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    };
    if let Some(schema) = find().await? {
        return Ok(schema);
    }
    let made = session.answer(session.client()?.batch_execute(MAKE_EXTENSION)).await;
    // If the statement failed, another program may have installed the extension at the same moment.
    let found = find().await?;
    match (found, made) {
        (Some(schema), _) => Ok(schema),
        (None, Err(error)) => Err(anyhow!(error).context("the extension pg_trgm cannot be made")),
        (None, Ok(())) => Err(anyhow!("the extension pg_trgm was dropped at once")),
    }
}

/// The statement that makes the trigram index in new tables.
pub(super) fn make_in_new_tables(extension_schema: &str) -> String {
    format!("CREATE INDEX IF NOT EXISTS {TRIGRAM_INDEX}").replace("OPERATORS", extension_schema)
}

/// Makes the trigram index in existing tables without blocking writes, unless another server is doing so.
pub(super) async fn make(config: &PostgresConfig, extension_schema: &str) -> anyhow::Result<()> {
    try_to_make(config, extension_schema).await.context("the index over names cannot be made")
}

async fn try_to_make(config: &PostgresConfig, extension_schema: &str) -> anyhow::Result<()> {
    let session = Sessions::new(config, 1, Arc::default())?.get().await?;
    let client = session.client()?;
    let answered = |answer: Result<(), tokio_postgres::Error>| answer.map_err(SessionError::from);
    // With millions of plants, the statement takes minutes.
    answered(client.batch_execute("SET statement_timeout = 0").await)?;
    // One server makes the index. The lock ends with the session.
    let lock = session.sql("SELECT pg_try_advisory_lock(hashtext('SCHEMA.plants_by_name'))");
    let row = client.query_one(&lock, &[]).await.map_err(SessionError::from)?;
    if !row.try_get::<_, bool>(0)? || is_made(&session).await? {
        return Ok(());
    }
    log::info!("making the index over names; until it is made, searches are slower");
    let begun = Instant::now();
    // An interrupted attempt leaves an incomplete index.
    let drop = session.sql("DROP INDEX CONCURRENTLY IF EXISTS SCHEMA.plants_by_name");
    answered(client.batch_execute(&drop).await)?;
    let make = format!("CREATE INDEX CONCURRENTLY {TRIGRAM_INDEX}");
    let make = session.sql(&make.replace("OPERATORS", extension_schema));
    answered(client.batch_execute(&make).await)?;
    log::info!("made the index over names in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// The message for an index that cannot be made.
pub(super) fn missing(cause: &anyhow::Error) -> String {
    format!(
        "{cause:#}; a page of a search by name examines at most {PAGE_MAX_WORK} plants, and may be short: have a user who may \
         run CREATE EXTENSION pg_trgm in the database, and then migrate as the owner of the tables"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_a_trigram_does_not_use_the_trigram_index() {
        use NameIndex::{Letters, Trigrams};
        for (part, in_utf8, in_c) in [
            ("ros", Some(Trigrams), Some(Trigrams)),
            ("a r", Some(Trigrams), Some(Trigrams)),
            ("ab ", Some(Trigrams), Some(Trigrams)),
            ("1025", Some(Trigrams), Some(Trigrams)),
            ("a", None, None),
            ("ab", None, None),
            ("a ", None, None),
            ("%_", None, None),
            ("×", Some(Letters), Some(Letters)),
            ("a×b", Some(Letters), Some(Letters)),
            ("× a", Some(Letters), Some(Letters)),
            ("× alba", Some(Trigrams), Some(Trigrams)),
            ("ασ", Some(Letters), Some(Letters)),
            ("αστερι", Some(Trigrams), Some(Letters)),
            ("木木木", Some(Trigrams), Some(Letters)),
        ] {
            let indexes = |knows_letters| NameIndexes {
                has_trigrams: true,
                has_letters: true,
                knows_letters,
            };
            assert_eq!(indexes(true).for_part(part), in_utf8, "{part:?}");
            assert_eq!(indexes(false).for_part(part), in_c, "{part:?}");
            assert_eq!(NameIndexes::default().for_part(part), None, "{part:?}");
        }
    }
}
