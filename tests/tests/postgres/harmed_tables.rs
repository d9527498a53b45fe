//! Tables that are changed or damaged under a running server: PostgreSQL refuses some writes, or all of them.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plantd_tests::torture::SetOnDrop;
use plantd_tests::{Counts, Format, Launch, TestServer, at_once, wait_until};
use test_postgres::{fresh_schema_name, shared};

use crate::postgres_command::is_ready;
use crate::user::User;

/// A server whose database user may use the tables but does not own them.
struct OnTables {
    schema: String,
    user: User,
    server: TestServer,
}

impl OnTables {
    fn start() -> Self {
        let (schema, user) = (fresh_schema_name(), User::new(shared()));
        let migrate = Launch::new().postgres(shared().url(), &schema).arguments(["migrate"]);
        migrate.spawn().assert_exit_code(0);
        user.grant_tables(&schema);
        let server = TestServer::start_with(Launch::new().postgres(&user.url(), &schema));
        Self { schema, user, server }
    }

    fn another_server(&self) -> TestServer {
        TestServer::start_with(Launch::new().postgres(&self.user.url(), &self.schema))
    }

    /// Runs statements, with the names for `SCHEMA` and `USER`.
    #[track_caller]
    fn query(&self, sql: &str) -> String {
        shared().query(&sql.replace("SCHEMA", &self.schema).replace("USER", &self.user.name))
    }

    /// Runs statements. `RAISE` with an error code makes PostgreSQL raise that error before it writes plants that
    /// meet the condition.
    #[track_caller]
    fn harm(&self, harm: &str, condition: &str) {
        let Some((_, sqlstate)) = harm.split_once("RAISE ") else {
            self.query(harm);
            return;
        };
        self.query(&format!(
            "CREATE OR REPLACE FUNCTION SCHEMA.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
               RAISE EXCEPTION 'not this one' USING ERRCODE = '{sqlstate}'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON SCHEMA.plants FOR EACH ROW \
               WHEN ({condition}) EXECUTE FUNCTION SCHEMA.refuse()"
        ));
    }
}

#[test]
fn writes_and_reads_go_on_after_the_tables_were_changed_under_a_running_server() {
    let tables = OnTables::start();
    let client = tables.server.client();
    for (round, kind) in (0..).zip(["varchar(255)", "text COLLATE \"C\""]) {
        let id = 10 * round;
        client.create(id, "Rosa", Some("a")).assert_plant("Rosa", Some("a"));
        client.put(id + 1, r#"{"name":"Rosa"}"#).assert_made("Rosa", None);
        client.patch(id, r#"{"tag":"b"}"#).assert_plant("Rosa", Some("b"));
        tables.query(&format!(
            "ALTER TABLE SCHEMA.plants ALTER COLUMN name TYPE {kind}, ALTER COLUMN folded_name TYPE {kind}, \
               ALTER COLUMN tag TYPE {kind}"
        ));
        client.read(id).assert_new_plant(id, "Rosa", Some("b"));
        assert_eq!(client.list_all(&format!("name=ros&after={}", id - 1)).len(), 2);
        client.create(id + 2, "Abies", None).assert_plant("Abies", None);
        client.put(id + 3, r#"{"name":"Abies"}"#).assert_made("Abies", None);
        client.put(id, r#"{"name":"Salix"}"#).assert_plant("Salix", None);
        client.patch(id + 1, r#"{"tag":"c"}"#).assert_plant("Rosa", Some("c"));
        client.delete(id + 1).assert_no_content();
        assert!(is_ready(&client));
    }
}

/// A fault that prevents writes, its remedy, and whether `/readyz` reports the fault before a write.
const NO_WRITES: [(&str, &str, bool); 10] = [
    ("REVOKE INSERT ON SCHEMA.events FROM USER", "GRANT INSERT ON SCHEMA.events TO USER", true),
    ("REVOKE UPDATE ON SCHEMA.plants FROM USER", "GRANT UPDATE ON SCHEMA.plants TO USER", true),
    (
        "REVOKE ALL ON SEQUENCE SCHEMA.event_blocks FROM USER",
        "GRANT USAGE, SELECT ON SEQUENCE SCHEMA.event_blocks TO USER",
        false,
    ),
    (
        "ALTER TABLE SCHEMA.plants RENAME COLUMN folded_name TO hidden",
        "ALTER TABLE SCHEMA.plants RENAME COLUMN hidden TO folded_name",
        true,
    ),
    (
        "CREATE TABLE SCHEMA.saved AS TABLE SCHEMA.counters; TRUNCATE SCHEMA.counters",
        "INSERT INTO SCHEMA.counters TABLE SCHEMA.saved",
        true,
    ),
    (
        "ALTER TABLE SCHEMA.plants ADD CONSTRAINT nothing CHECK (false) NOT VALID",
        "ALTER TABLE SCHEMA.plants DROP CONSTRAINT nothing",
        false,
    ),
    (
        "CREATE FUNCTION SCHEMA.drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER drop_row BEFORE INSERT OR UPDATE ON SCHEMA.plants FOR EACH ROW \
           EXECUTE FUNCTION SCHEMA.drop_row()",
        "DROP TRIGGER drop_row ON SCHEMA.plants",
        false,
    ),
    (
        "CREATE TABLE SCHEMA.sequence AS SELECT last_value FROM SCHEMA.event_blocks; \
         SELECT setval('SCHEMA.event_blocks', 1)",
        "SELECT setval('SCHEMA.event_blocks', last_value + 1000) FROM SCHEMA.sequence",
        false,
    ),
    ("RAISE 53100", "DROP TRIGGER refuse ON SCHEMA.plants", false),
    ("RAISE 25006", "DROP TRIGGER refuse ON SCHEMA.plants", false),
];

#[test]
fn while_postgres_takes_no_writes_readyz_says_so_until_that_is_repaired() {
    at_once(&NO_WRITES, |(harm, mend, is_seen)| {
        let tables = OnTables::start();
        let client = tables.server.client();
        // More blocks than a write has tries, so that a sequence that restarts stays below them.
        for id in -100..=0 {
            client.create(id, "Rosa", None).assert_plant("Rosa", None);
        }
        tables.harm(harm, "true");
        if *is_seen {
            wait_until("/readyz to say no", || !is_ready(&client));
        }
        // A change, which each of these faults prevents.
        let put = r#"{"name":"Salix"}"#;
        let said = client.put(0, put).assert_error(503, 5003);
        assert!(said.contains("database") && said.contains("nothing was written"), "{said}");
        // The only requests are to /readyz, until it answers 200.
        for _ in 0..2 {
            assert!(!is_ready(&client), "the server is ready");
        }
        tables.query(mend);
        wait_until("/readyz to say yes", || is_ready(&client));
        client.create(1, "Abies", None).assert_plant("Abies", None);
        client.put(0, put).assert_plant("Salix", None);
        assert_eq!(client.list("").total_count(), Some(102));
    });
}

#[test]
fn without_an_index_that_writes_need_readyz_says_no_and_no_id_is_taken_twice() {
    let tables = OnTables::start();
    let client = tables.server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    // The index that shows whether a group was committed.
    tables.query("ALTER TABLE SCHEMA.events DROP CONSTRAINT events_group_id_key");
    wait_until("/readyz to say no", || !is_ready(&client));
    tables.query("ALTER TABLE SCHEMA.events ADD UNIQUE (group_id)");
    wait_until("/readyz to say yes", || is_ready(&client));

    tables.query("ALTER TABLE SCHEMA.plants DROP CONSTRAINT plants_pkey");
    let fresh = tables.another_server();
    for client in [&client, &fresh.client()] {
        client.create(1, "Abies", None).assert_error(503, 5003);
        client.put(2, r#"{"name":"Abies"}"#).assert_error(503, 5003);
        assert!(!is_ready(client));
    }
    tables.query("ALTER TABLE SCHEMA.plants ADD PRIMARY KEY (id)");
    for client in [&client, &fresh.client()] {
        wait_until("/readyz to say yes", || is_ready(client));
        client.create(1, "Abies", None).assert_error(400, 3001);
    }
}

#[test]
fn a_new_server_tells_a_refused_write_from_a_database_that_takes_none() {
    let tables = OnTables::start();
    for id in [1, 2] {
        tables.server.client().create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    tables.harm("RAISE P0001", "true");
    let server = tables.another_server();
    let client = server.client();
    client.create(3, "Abies", None).assert_error(503, 5003);
    assert!(!is_ready(&client));
    tables.query("DROP TRIGGER refuse ON SCHEMA.plants");
    wait_until("/readyz to say yes", || is_ready(&client));

    tables.harm("RAISE P0001", "NEW.id = 3");
    let server = tables.another_server();
    let client = server.client();
    client.create(3, "Abies", None).assert_error(500, 5005);
    assert!(is_ready(&client));
}

/// The plant that PostgreSQL refuses.
const REFUSED: i64 = 7;

#[test]
fn a_write_that_postgres_refuses_is_refused_alone_each_time() {
    const GOOD_CLIENTS: i64 = 8;
    const WRITES: i64 = 25;
    let harms = [
        "UPDATE SCHEMA.plants SET revision = 9223372036854775807 WHERE id = 7",
        "RAISE P0001",
        "RAISE 42501",
        "ALTER TABLE SCHEMA.plants ADD CONSTRAINT good CHECK (id <> 7) NOT VALID",
        "CREATE FUNCTION SCHEMA.drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER drop_row BEFORE INSERT OR UPDATE ON SCHEMA.plants FOR EACH ROW \
           WHEN (NEW.id = 7) EXECUTE FUNCTION SCHEMA.drop_row()",
    ];
    at_once(&harms, |harm| {
        let tables = OnTables::start();
        let client = tables.server.client();
        client.create(REFUSED, "Rosa", None).assert_plant("Rosa", None);
        tables.harm(harm, "NEW.id = 7");
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            for guilty in 0..2 {
                let (client, is_done) = (tables.server.client(), &is_done);
                scope.spawn(move || {
                    let mut refused = 0;
                    while refused < 3 || !is_done.load(Ordering::Relaxed) {
                        let put = format!(r#"{{"name":"guilty {guilty}"}}"#);
                        let said = client.put(REFUSED, &put).assert_error(500, 5005);
                        assert!(said.contains("nothing was written"), "{said}");
                        refused += 1;
                    }
                });
            }
            let good = (1..=GOOD_CLIENTS).map(|number| {
                let client = tables.server.client();
                scope.spawn(move || {
                    for id in number * 1000..number * 1000 + WRITES {
                        client.create(id, "Abies", None).assert_plant("Abies", None);
                        client.put(id, r#"{"name":"Salix"}"#).assert_plant("Salix", None);
                    }
                })
            });
            let good: Vec<_> = good.collect();
            let failed = good.into_iter().filter_map(|client| client.join().err()).count();
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(failed, 0, "clients whose writes are good");
        });
        assert!(is_ready(&client));
        let all = GOOD_CLIENTS * WRITES + 1;
        assert_eq!(client.list("").total_count(), usize::try_from(all).ok());
        client.read(REFUSED).assert_new_plant(REFUSED, "Rosa", None);
        // The log has a line for each refusal.
        wait_until("the log line", || tables.server.stderr().contains("error=5005"));
    });
}

#[test]
fn a_row_of_an_import_that_postgres_refuses_fails_alone() {
    let tables = OnTables::start();
    let client = tables.server.client();
    tables.query("ALTER TABLE SCHEMA.plants ADD CONSTRAINT good CHECK (name <> 'guilty')");
    let row = |id: i64| {
        let name = if id % 100 == 42 { "guilty" } else { "Rosa" };
        format!("{{\"id\":{id},\"name\":\"{name}\"}}\n")
    };
    let body: String = (1..=300).map(row).collect();
    let answer = client.import(Format::Ndjson, "", body);
    let errors = answer.assert_report(Counts { created: 297, failed: 3, ..Counts::default() });
    assert_eq!(errors, [(42, 5005), (142, 5005), (242, 5005)]);
    assert_eq!(client.list("").total_count(), Some(297));
    wait_until("the log line", || tables.server.stderr().contains("good"));
    assert!(is_ready(&client));
}

/// The newest plants, by which `/readyz` and a refused write learn whether PostgreSQL takes writes.
const NEWEST: RangeInclusive<i64> = 1..=5;

/// A server whose newest plants are these alone.
fn with_newest_plants() -> OnTables {
    let tables = OnTables::start();
    for id in NEWEST {
        tables.server.client().create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    tables
}

#[test]
fn a_refused_write_leaves_the_server_ready_even_if_postgres_protects_the_plants_that_were_written_last()
 {
    let tables = with_newest_plants();
    tables.harm("RAISE P0001", "NOT (NEW.id > 5 OR NEW.id < 1)");
    let client = tables.server.client();
    for id in NEWEST {
        client.put(id, r#"{"name":"Abies"}"#).assert_error(500, 5005);
        assert!(is_ready(&client), "one refused write makes the server unready");
    }
    client.create(6, "Abies", None).assert_plant("Abies", None);
}

#[test]
fn writes_in_the_group_of_a_refused_one_are_tried_even_if_postgres_takes_nothing_else() {
    let tables = with_newest_plants();
    tables.harm("RAISE P0001", "NOT (NEW.name = 'good')");
    let client = tables.server.client();
    // An import is one group.
    let row = |id: i64, name: &str| format!("{{\"id\":{id},\"name\":\"{name}\"}}\n");
    let rows = [row(11, "guilty"), row(12, "guilty"), row(13, "good"), row(14, "guilty")].concat();
    let answer = client.import(Format::Ndjson, "", rows);
    let errors = answer.assert_report(Counts { created: 1, failed: 3, ..Counts::default() });
    assert_eq!(errors, [(1, 5005), (2, 5005), (4, 5005)]);
    assert!(is_ready(&client));
}

#[test]
fn a_write_that_waits_in_vain_for_others_fails_no_other_write_of_its_group() {
    let tables = with_newest_plants();
    tables.query(
        "CREATE FUNCTION SCHEMA.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF NEW.id = 11 THEN RAISE EXCEPTION 'not this one' USING ERRCODE = 'P0001'; END IF; \
           RAISE EXCEPTION 'not now' USING ERRCODE = '40001'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON SCHEMA.plants FOR EACH ROW \
           WHEN (NEW.id IN (11, 12)) EXECUTE FUNCTION SCHEMA.refuse()",
    );
    let client = tables.server.client();
    // An import is one group. Its answer does not say that nothing was written, because rows may be tried again.
    let rows: String =
        (11..=14).map(|id| format!("{{\"id\":{id},\"name\":\"Abies\"}}\n")).collect();
    assert_eq!(client.import(Format::Ndjson, "", rows).status, 503);
    for id in [11, 12] {
        client.read(id).assert_error(404, 3002);
    }
    for id in [13, 14] {
        client.read(id).assert_new_plant(id, "Abies", None);
    }
}

#[test]
fn a_refused_write_learns_from_the_changes_of_others_that_postgres_takes_writes() {
    let tables = with_newest_plants();
    // Others change a plant each time between its read and its rehearsal.
    tables.query(
        "CREATE FUNCTION SCHEMA.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           PERFORM pg_sleep(0.3); RETURN NULL; END $$; \
         CREATE TRIGGER wait BEFORE UPDATE ON SCHEMA.plants FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.wait()",
    );
    tables.harm("RAISE P0001", "NOT (NEW.id BETWEEN 1 AND 5 AND NEW.name <> 'guilty')");
    let (client, is_over) = (tables.server.client(), AtomicBool::new(false));
    let refused = thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                tables.query(
                    "SET LOCAL session_replication_role = replica; \
                     UPDATE SCHEMA.plants SET revision = revision + 1 WHERE id > 1",
                );
            }
        });
        client.create(11, "guilty", None)
    });
    refused.assert_error(500, 5005);
    assert!(!tables.server.stderr().contains("takes no writes"), "{}", tables.server.stderr());
}
