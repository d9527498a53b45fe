//! The SQL of pages of plants.

use plant_domain::PlantId;

use crate::statements::PLANT;

/// Begins a transaction whose reads are all of one moment, that of the first read. After a longer pause between two
/// pages of a snapshot, PostgreSQL ends the transaction, so that none stays open after its machine has gone.
pub(super) const BEGIN_MOMENT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT FROM SCHEMA.layout; \
     SET LOCAL idle_in_transaction_session_timeout = '10min'";

/// In which order plants are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    /// The id that follows.
    pub(super) fn after(self, id: PlantId) -> Option<PlantId> {
        match self {
            Self::Ascending => id.next(),
            Self::Descending => id.previous(),
        }
    }
}

/// At most `$2` rows from id `$1` on.
///
/// With a part of the name (`$4`): among the first `$3` rows, those whose folded name contains it, and always the last
/// row examined. Each row also says whether it matches, and how many rows were examined.
///
/// With a tag (the last parameter), only the index on tags has the requested order. An index scan by id could pass any
/// number of plants with other tags.
pub(super) fn plants_from(direction: Direction, has_tag: bool, has_name_part: bool) -> String {
    let (from, to, order, last) = match direction {
        Direction::Ascending => (">=", "<=", "ASC", "max"),
        Direction::Descending => ("<=", ">=", "DESC", "min"),
    };
    let tag = if has_name_part { "$5" } else { "$3" };
    let (start, ordered) = if has_tag {
        (
            format!("(tag, id) {from} ({tag}, $1) AND tag {to} {tag}"),
            format!("tag {order}, id {order}"),
        )
    } else {
        (format!("id {from} $1"), format!("id {order}"))
    };
    if !has_name_part {
        return format!(
            "SELECT {PLANT} FROM SCHEMA.plants WHERE {start} ORDER BY {ordered} LIMIT $2"
        );
    }
    format!(
        "WITH examined AS (\
           SELECT {PLANT}, folded_name FROM SCHEMA.plants WHERE {start} ORDER BY {ordered} LIMIT $3) \
         SELECT {PLANT}, (SELECT count(*) FROM examined) AS examined, \
           strpos(coalesce(folded_name, ''), $4) > 0 AS is_match \
         FROM examined \
         WHERE strpos(coalesce(folded_name, ''), $4) > 0 OR id = (SELECT {last}(id) FROM examined) \
         ORDER BY id {order} LIMIT $2"
    )
}

/// The character index, over names with a character outside ASCII. It needs no extension, and costs other names
/// nothing.
pub(super) const MAKE_LETTERS_INDEX: &str = "CREATE INDEX IF NOT EXISTS plants_by_letter ON SCHEMA.plants \
     USING gin (string_to_array(folded_name, NULL)) WHERE octet_length(folded_name) > char_length(folded_name)";

/// The index that narrows down a search for a part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameIndex {
    /// The trigram index. `$5` is a pattern.
    Trigrams,
    /// The character index. `$5` has the characters of the part, one of which is outside ASCII.
    Letters,
}

/// A page of at most `$3` plants from id `$1` on whose folded name contains `$4`, and the number of candidates. An
/// index yields at most `$2` candidates, in any order. With a tag (`$6`), only plants with the tag.
///
/// All conditions except the index's apply outside of `found`, so `$2` bounds the rows that are read.
pub(super) fn plants_by_name(direction: Direction, index: NameIndex, has_tag: bool) -> String {
    let (from, order) = match direction {
        Direction::Ascending => (">=", "ASC"),
        Direction::Descending => ("<=", "DESC"),
    };
    let is_candidate = match index {
        NameIndex::Trigrams => "folded_name LIKE $5::text",
        NameIndex::Letters => {
            "string_to_array(folded_name, NULL) @> $5::text[] AND octet_length(folded_name) > char_length(folded_name)"
        }
    };
    let has_the_tag = if has_tag { "AND tag = $6" } else { "" };
    format!(
        "WITH found AS MATERIALIZED (\
           SELECT {PLANT}, folded_name FROM SCHEMA.plants WHERE {is_candidate} LIMIT $2) \
         SELECT page.*, counted.candidates FROM (SELECT count(*) AS candidates FROM found) AS counted \
         LEFT JOIN (\
           SELECT {PLANT} FROM found WHERE id {from} $1 AND strpos(folded_name, $4) > 0 {has_the_tag} \
           ORDER BY id {order} LIMIT $3) AS page ON true \
         ORDER BY page.id {order}"
    )
}

/// Begins the part of a transaction that runs [`plants_by_name`]. The settings leave the planner only bitmap scans, and
/// the indexes by id and tag do not fit the query.
pub(super) const BEGIN_SEARCH: &str = "SAVEPOINT search; SET LOCAL enable_bitmapscan = on; \
     SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL statement_timeout = '1s'";

/// Takes the settings back. The transaction goes on, even if the query has failed.
pub(super) const END_SEARCH: &str = "ROLLBACK TO SAVEPOINT search";

/// Which indexes over names are complete, and whether the database, and so pg_trgm, takes characters outside ASCII for
/// letters.
pub(super) const FIND_NAME_INDEXES: &str = "WITH valid AS MATERIALIZED (\
       SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid \
       WHERE indrelid = to_regclass('SCHEMA.plants') AND indisvalid) \
     SELECT EXISTS (SELECT FROM valid WHERE relname = 'plants_by_name') AS has_trigrams, \
       EXISTS (SELECT FROM valid WHERE relname = 'plants_by_letter') AS has_letters, \
       (SELECT datctype NOT IN ('C', 'POSIX') FROM pg_database WHERE datname = current_database()) AS knows_letters";
