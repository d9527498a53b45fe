//! Searches with and without their indexes, and the counts of tags.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plant_domain::{Plant, PlantFilter, PlantId, PlantPatch, TextPatch};
use plant_postgres::PostgresRepository;
use plant_store::{OnConflict, PlantRepository, Preconditions, StoreError, TagPageRequest};
use plantd_tests::wait_until;
use test_postgres::{Cluster, Database};
use tokio::task::JoinSet;

use crate::schema::{Resting, Schema, filter, list, plant, wait_until_blocked, wait_until_folded};
use crate::user::User;

/// More plants than a search examines in order before it uses an index.
const PLANTS: i64 = 3_000;

/// A search text with a trigram, texts with characters special to `LIKE`, and texts without a trigram.
const PARTS: [&str; 18] = [
    "salix",
    "SALIX 29",
    "alix 2",
    "%",
    "_",
    "\\",
    "\\%",
    "a%a",
    "a_a",
    "100 % _ \\ 'q' \"",
    "×",
    "× a",
    "é",
    "ΑΣ",
    "ας",
    "x",
    "ti",
    "木",
];

/// Imports plants of which only the last have rare names.
async fn fill(repository: &PostgresRepository) {
    let plants = (0..PLANTS).map(|id| {
        let name = match PLANTS - id {
            1 => "100 % _ \\ 'q' \"".to_owned(),
            2 => "a%a".to_owned(),
            3 => "a_a \\%".to_owned(),
            4 => "Épine".to_owned(),
            5 => "ΑΣΤΈΡΙ".to_owned(),
            6 => "Mentha × alba".to_owned(),
            7 => "a\\a aba".to_owned(),
            8..100 => format!("Salix {id}"),
            _ => format!("Rosa arvensis {id}"),
        };
        plant(id, &name, (id % 2 == 0).then_some("even"))
    });
    repository.import(plants.collect(), OnConflict::Error, None).await.expect("imports");
}

/// Compares the results of searches with all plants that match.
async fn check_searches(repository: &PostgresRepository) {
    let (all, _) = list(repository, &PlantFilter::default(), 1_000).await;
    assert_eq!(i64::try_from(all.len()), Ok(PLANTS));
    for part in PARTS {
        for tag in [None, Some("even")] {
            let filter = filter(Some(part), tag);
            let is_match = |plant: &Plant| filter.matches(plant.name(), plant.tag());
            let matching = all.iter().filter(|stored| is_match(&stored.plant));
            let matching: Vec<_> = matching.cloned().collect();
            for limit in [2, 1_000] {
                assert_eq!(list(repository, &filter, limit).await.0, matching, "{filter:?}");
            }
        }
    }
}

fn is_made(schema: &Schema) -> bool {
    let valid = "SELECT count(*) FROM pg_index WHERE indisvalid \
                 AND indexrelid = to_regclass('SCHEMA.plants_by_name')";
    schema.query(valid) == "1"
}

/// How often the trigram index was used. PostgreSQL counts it when a session ends.
fn searches_by_index(schema: &Schema) -> i64 {
    let scans = "SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes \
                 WHERE indexrelid = to_regclass('SCHEMA.plants_by_name')";
    schema.query(scans).parse().expect("a number")
}

/// A schema that belongs to a user who may not create extensions, in a database without pg_trgm.
fn without_extension(database: &Database) -> (Schema, Schema, User) {
    let schema = Schema::of(database);
    let (of_user, user) = schema.for_new_user();
    let create = format!("CREATE SCHEMA {} AUTHORIZATION {}", schema.config.schema, user.name);
    schema.query(&create);
    (schema, of_user, user)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_extension_searches_find_the_same_plants_and_later_the_index_is_made() {
    let cluster = Cluster::start();
    let (schema, of_user, user) = without_extension(cluster.database());
    let migration = PostgresRepository::migrate(&of_user.config).await.expect("migrates");
    assert!(migration.made_tables);
    let missing = migration.missing_index.expect("the index cannot be made");
    for words in ["permission denied to create extension", "CREATE EXTENSION pg_trgm", "migrate"] {
        assert!(missing.contains(words), "{missing}");
    }
    let repository = of_user.open().await;
    fill(&repository).await;
    check_searches(&repository).await;
    assert!(!is_made(&schema));

    // A running server uses an index that another one makes.
    schema.query("CREATE SCHEMA \"Other Extensions\"");
    schema.query("CREATE EXTENSION pg_trgm SCHEMA \"Other Extensions\"");
    schema.query(&format!("GRANT USAGE ON SCHEMA \"Other Extensions\" TO {}", user.name));
    let migration = PostgresRepository::migrate(&of_user.config).await.expect("migrates");
    assert_eq!((migration.made_tables, migration.missing_index), (false, None));
    assert!(is_made(&schema));
    let salix = filter(Some("salix"), None);
    loop {
        assert_eq!(list(&repository, &salix, 1_000).await.0.len(), 92);
        if searches_by_index(&schema) > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    check_searches(&repository).await;

    // A start also makes the index, even after an interrupted attempt has left an invalid one.
    schema.query("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'SCHEMA.plants_by_name'::regclass");
    drop(repository);
    let repository = of_user.open().await;
    wait_until("a start to make the index", || is_made(&schema));
    check_searches(&repository).await;
}

// Tags.

const COUNT_EVENT_BY_HAND: &str = "UPDATE SCHEMA.counters SET events = events + 1 WHERE slot = 0";

/// Compares the counts of tags on pages with those of the plants.
async fn check_tags(schema: &Schema, repository: &PostgresRepository) {
    let request = TagPageRequest { limit: 1_000, ..TagPageRequest::default() };
    let page = repository.tags(request).await.expect("reads");
    let shown: BTreeMap<_, _> = page.tags.into_iter().map(|it| (it.tag, it.plants)).collect();
    let counted = schema.query(
        "SELECT tag || '=' || count(*) FROM SCHEMA.plants WHERE tag IS NOT NULL GROUP BY tag ORDER BY tag",
    );
    let lines: Vec<_> = shown.iter().map(|(tag, plants)| format!("{tag}={plants}")).collect();
    assert_eq!(lines.join("\n"), counted.trim());
    for (tag, plants) in shown {
        assert_eq!(repository.count(Some(&tag)).await.expect("counts"), plants, "{tag}");
    }
}

/// Writes plants with few ids, so that writers conflict.
async fn write_at_random(repository: Arc<PostgresRepository>, seed: i64) {
    const TURNS: i64 = 60;
    for turn in 0..TURNS {
        let number = (seed * 7_919 + turn * 104_729) % 1_000;
        let (id, tag) = (
            number % 12,
            [Some("a"), Some("b"), Some("c"), Some("d"), None]
                [usize::try_from(number / 12 % 5).expect("small")],
        );
        let new_plant = plant(id, &format!("plant {number}"), tag);
        let any = Preconditions::default();
        let outcome = match number % 5 {
            0 => repository.create(new_plant, None).await.map(drop),
            1 => repository.delete(PlantId::from(id), any).await,
            2 => {
                let tag = tag.map_or(TextPatch::Remove, |tag| TextPatch::Set(tag.to_owned()));
                let patch = PlantPatch::new(None, tag).expect("valid");
                repository.patch(PlantId::from(id), patch, any).await.map(drop)
            }
            3 => {
                let rows = (0..4).map(|more| plant((id + more) % 12, "imported", tag)).collect();
                repository.import(rows, OnConflict::Replace, None).await.map(drop)
            }
            _ => repository.put(new_plant, any).await.map(drop),
        };
        match outcome {
            Ok(()) | Err(StoreError::IdTaken(_) | StoreError::NoSuchPlant(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_tags_are_exact_after_conflicting_writes_by_two_servers() {
    let schema = Schema::new();
    let repositories = schema.open_two().await;
    let mut writers = JoinSet::new();
    for seed in 0..16 {
        let repository = Arc::clone(&repositories[usize::try_from(seed % 2).expect("small")]);
        writers.spawn(write_at_random(repository, seed));
    }
    while !writers.is_empty() {
        // A recount during writes must neither lose nor double a change.
        schema.query("DELETE FROM SCHEMA.counters WHERE slot = 0");
        schema.migrate().await;
        let _ = writers.try_join_next().transpose().expect("a writer");
    }
    // Each round changes counts that were folded in the round before.
    for round in 1..=3 {
        for repository in &repositories {
            check_tags(&schema, repository).await;
        }
        wait_until_folded(&schema);
        for repository in &repositories {
            check_tags(&schema, repository).await;
            write_at_random(Arc::clone(repository), 100 * round).await;
        }
    }
    wait_until_folded(&schema);
    let unused = schema.query("SELECT count(*) FROM SCHEMA.tag_counts WHERE plants <= 0");
    assert_eq!(unused, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_tags_stay_exact_when_another_server_changes_the_row_of_a_write() {
    let schema = Schema::new();
    let repository = schema.open().await;
    repository.create(plant(1, "Rosa", Some("a")), None).await.expect("the id is free");
    // The other server gives the plant another tag, and commits while this repository waits for the row.
    let change = "WITH block AS (SELECT nextval('SCHEMA.event_blocks') AS number) \
                  UPDATE SCHEMA.plants SET tag = 'b', revision = block.number * 1024 FROM block WHERE id = 1; \
                  INSERT INTO SCHEMA.events (block, revisions, kinds, ids) \
                    SELECT revision / 1024, ARRAY[revision], ARRAY[2::smallint], ARRAY[id] FROM SCHEMA.plants; \
                  INSERT INTO SCHEMA.tag_changes SELECT revision / 1024, ARRAY['a', 'b'], ARRAY[-1, 1] FROM SCHEMA.plants";
    let other = Resting::between(&schema, change, COUNT_EVENT_BY_HAND);
    let repository = Arc::new(repository);
    let put = tokio::spawn({
        let repository = Arc::clone(&repository);
        async move { repository.put(plant(1, "Rosa", Some("c")), Preconditions::default()).await }
    });
    wait_until_blocked(&schema, "UPDATE");
    other.commit();
    put.await.expect("a put").expect("the put is carried out");
    check_tags(&schema, &repository).await;
    assert_eq!(repository.count(Some("c")).await.expect("counts"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_counts_of_tags_are_recounted_by_migrate() {
    let schema = Schema::new();
    let repository = schema.open().await;
    fill(&repository).await;
    schema.query("TRUNCATE SCHEMA.tag_counts, SCHEMA.tag_changes, SCHEMA.counters");
    assert!(!schema.migrate().await);
    check_tags(&schema, &repository).await;
    repository.delete(PlantId::from(0), Preconditions::default()).await.expect("the plant exists");
    check_tags(&schema, &repository).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_tags_have_the_prefix_and_come_after_the_given_tag() {
    let schema = Schema::new();
    let repository = schema.open().await;
    let tags = ["R", "R ", "R%", "R_", "Ra", "r", "é", "木", "🌱"];
    for (id, tag) in (0..).zip(tags) {
        repository.create(plant(id, "Rosa", Some(tag)), None).await.expect("the id is free");
    }
    for after in [None, Some("R"), Some("R\0"), Some("Rz"), Some("\0"), Some("z")] {
        for prefix in ["", "R", "R%", "R_", "é", "R\0", "x"] {
            let after = after.map(str::to_owned);
            let request = TagPageRequest { prefix: prefix.to_owned(), after, limit: 2 };
            let expected: Vec<_> = tags.into_iter().filter(|tag| request.selects(tag)).collect();
            let page = repository.tags(request.clone()).await.expect("reads");
            let shown: Vec<_> = page.tags.iter().map(|count| count.tag.as_str()).collect();
            assert_eq!(shown, expected[..expected.len().min(2)], "{request:?}");
            assert_eq!(page.next.is_some(), expected.len() > 2, "{request:?}");
        }
    }
    assert_eq!(repository.count(Some("R\0")).await.expect("counts"), 0);
}
