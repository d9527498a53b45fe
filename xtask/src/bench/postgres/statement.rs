//! What pgbench asks of PostgreSQL, on the tables that plantd has made.
//!
//! The plants are the very same that wrk creates and asks for: each has the id that belongs to its number, and the name
//! and the tag that belong to its id.

use crate::bench::load::LIST_LIMIT;
use crate::bench::plants::{ID_FACTOR, ID_MASK, Plants};

/// How many rows are inserted at once where that is compared.
pub(super) const MANY: u32 = 64;

/// How many bits of a factor are multiplied at a time: a number of 64 bits in SQL must not become too large, as it may
/// in Lua. Numbers of plants may have 36 bits.
const LOW_BITS: u32 = 26;

/// A statement by itself, which is a transaction of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement {
    InsertOne,
    InsertMany,
    Read,
    List,
}

impl Statement {
    /// How many rows count for each time that it is carried out.
    pub(super) fn rows(self) -> u32 {
        if self == Self::InsertMany { MANY } else { 1 }
    }

    /// Whether it is about plants that are there before.
    pub(super) fn needs_plants(self) -> bool {
        matches!(self, Self::Read | Self::List)
    }

    /// The script for pgbench, in which `stored` plants are there before.
    pub(super) fn script(self, schema: &str, plants: &Plants, stored: u64) -> String {
        match self {
            Self::InsertOne => format!(
                "\\set number :number + :clients\n\
                 \\set own_number :number + :client_id\n\
                 \\set id {}\n\
                 {}\n\
                 VALUES ({});\n",
                id_of(":own_number"),
                insert(schema),
                columns(plants, "CAST(:id AS bigint)", "CAST(:own_number AS bigint)"),
            ),
            Self::InsertMany => format!(
                "\\set number :number + :clients * {MANY}\n\
                 \\set first :number + :client_id * {MANY}\n\
                 {}\n\
                 {};\n",
                insert(schema),
                rows(plants, "CAST(:first AS bigint)", MANY),
            ),
            Self::Read => format!(
                "{}SELECT id, revision, name, tag FROM {schema}.plants WHERE id = :id;\n",
                any_id(stored)
            ),
            Self::List => format!(
                "{}SELECT id, revision, name, tag FROM {schema}.plants \
                 WHERE id > :id ORDER BY id LIMIT {LIST_LIMIT};\n",
                any_id(stored)
            ),
        }
    }
}

fn insert(schema: &str) -> String {
    format!("INSERT INTO {schema}.plants (id, revision, name, folded_name, tag, idempotency)")
}

/// The plants with so many numbers from `first` on.
fn rows(plants: &Plants, first: &str, count: u32) -> String {
    format!(
        "SELECT {} FROM (SELECT number, {} AS id \
         FROM generate_series({first}, {first} + {count} - 1) AS numbers (number)) AS new",
        columns(plants, "id", "number"),
        id_of("number"),
    )
}

/// The columns of a plant.
fn columns(plants: &Plants, id: &str, number: &str) -> String {
    let names_and_tags = plants.names_and_tags();
    let one_of = |texts: &mut dyn Iterator<Item = String>| {
        let quoted: Vec<String> =
            texts.map(|text| format!("'{}'", text.replace('\'', "''"))).collect();
        format!("(ARRAY[{}])[{id} % {} + 1]", quoted.join(","), names_and_tags.len())
    };
    let names = one_of(&mut names_and_tags.iter().map(|(name, _)| (*name).to_owned()));
    let folded_names = one_of(&mut names_and_tags.iter().map(|(name, _)| name.to_lowercase()));
    let tags = one_of(&mut names_and_tags.iter().map(|(_, tag)| (*tag).to_owned()));
    format!("{id}, {number}, {names} || ' ' || {id}, {folded_names} || ' ' || {id}, {tags}, NULL")
}

/// The variable `id`, as that of any of the plants that are there.
fn any_id(stored: u64) -> String {
    format!("\\set number random(1, {stored})\n\\set id {}\n", id_of(":number"))
}

/// The id that belongs to a number, for pgbench and for PostgreSQL.
fn id_of(number: &str) -> String {
    let factor = ID_FACTOR & ID_MASK;
    let (high, low) = (factor >> LOW_BITS, factor & ((1 << LOW_BITS) - 1));
    let high_mask = ID_MASK >> LOW_BITS;
    format!(
        "(({number} * {low} + ((({number} * {high}) & {high_mask}) << {LOW_BITS})) & {ID_MASK})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::MEASURE_FIRST_COUNTER;
    use crate::bench::plants::scattered;

    #[test]
    fn rows_are_the_plants_that_the_scripts_of_wrk_make_up() {
        let plants = Plants::of_the_scripts().unwrap();
        for first in [1, 100_000_007, MEASURE_FIRST_COUNTER, (1 << 36) - 4] {
            let rows = rows(&plants, &format!("CAST({first} AS bigint)"), 3);
            let columns = "(id, number, name, folded_name, tag, idempotency)";
            let found = test_postgres::shared().query(&format!(
                "SELECT format('{{\"id\":%s,\"name\":\"%s\",\"tag\":\"%s\"}}', id, name, tag), \
                 lower(name) = folded_name, number FROM ({rows}) AS plants {columns}"
            ));
            let plant = |number| plants.json(scattered(number)).unwrap();
            let expected: Vec<String> =
                (first..first + 3).map(|number| format!("{}|t|{number}", plant(number))).collect();
            assert_eq!(found, expected.join("\n"));
        }
    }

    #[test]
    fn a_script_is_of_its_schema_and_of_the_plants_that_are_there() {
        let plants = Plants::of_the_scripts().unwrap();
        for statement in
            [Statement::InsertOne, Statement::InsertMany, Statement::Read, Statement::List]
        {
            let script = statement.script("garden", &plants, 4_711);
            assert!(script.contains(" garden.plants "), "{script}");
            assert!(script.ends_with(";\n"), "{script}");
            assert_eq!(script.contains("random(1, 4711)"), statement.needs_plants(), "{script}");
        }
    }
}
