//! Tests the clusters that other tests use.

use std::path::Path;

use test_postgres::{Cluster, Database, fresh_schema_name, shared};

#[test]
fn what_was_committed_is_there_after_a_crash() {
    let mut cluster = Cluster::start_with(&[("work_mem", "5MB")]);
    assert_eq!(cluster.query("SHOW fsync"), "on");
    assert_eq!(cluster.query("SHOW work_mem"), "5MB");
    cluster.query("CREATE TABLE kept (number integer)");
    let (url, port) = (cluster.url(), cluster.port());
    for (number, stop) in
        (1..).zip([Cluster::stop_immediate, Cluster::stop_fast, Cluster::kill, Cluster::kill])
    {
        cluster.query(&format!("INSERT INTO kept VALUES ({number})"));
        stop(&mut cluster);
        assert!(!cluster.is_running());
        cluster.database().try_query("SELECT 1").expect_err("nobody answers");
        cluster.start_again();
        assert!(cluster.is_running());
        assert_eq!((cluster.url(), cluster.port()), (url.clone(), port));
        let kept = cluster.query("SELECT count(*), max(number) FROM kept");
        assert_eq!(kept, format!("{number}|{number}"));
    }
    let over_tcp = Database::at(&cluster.tcp_url());
    assert_eq!(over_tcp.query("SELECT count(*) FROM kept"), "4");
    cluster.freeze();
    cluster.unfreeze();
    assert_eq!(over_tcp.query("SELECT count(*) FROM kept"), "4");
    let turkish = cluster
        .create_database("turkish", "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'");
    assert_eq!(turkish.query("SELECT lower('I')"), "ı");
    cluster.set("work_mem", "6MB");
    assert_eq!(cluster.query("SHOW work_mem"), "6MB");
}

#[test]
fn what_a_synchronous_standby_has_confirmed_is_there_when_it_is_promoted() {
    let mut primary = Cluster::start();
    let standby = primary.standby();
    primary.wait_for_commits_on(&standby);
    primary.query("CREATE TABLE kept (number integer)");
    for number in 0..20 {
        primary.query(&format!("INSERT INTO kept VALUES ({number})"));
    }
    standby.database().try_query("CREATE TABLE other ()").expect_err("a standby is for reads");
    primary.kill();
    standby.promote();
    assert_eq!(standby.query("SELECT count(*) FROM kept"), "20");
    standby.query("CREATE TABLE other ()");
}

#[test]
fn a_cluster_that_is_dropped_leaves_nothing() {
    let cluster = Cluster::start();
    let (folder, port) = (cluster.socket_folder().to_owned(), cluster.port());
    drop(cluster);
    assert!(!folder.exists(), "{}", folder.display());
    std::net::TcpListener::bind(("127.0.0.1", port)).expect("nobody listens there");
}

#[test]
fn tests_that_share_a_database_have_schemas_of_their_own() {
    let names = [fresh_schema_name(), fresh_schema_name()];
    assert_ne!(names[0], names[1]);
    for name in names {
        shared().query(&format!("CREATE SCHEMA {name}"));
        shared().query(&format!("DROP SCHEMA {name}"));
    }
    let failure = shared().try_query("SELECT nothing").expect_err("there is no such column");
    assert!(failure.contains("nothing"), "{failure}");
}

/// What [`nothing_is_left_of_a_process_that_was_killed`] runs in its own process.
#[test]
#[ignore = "it ends its process"]
fn a_process_that_is_killed() {
    let cluster = Cluster::start();
    std::fs::write(
        std::env::var_os("TEST_POSTGRES_FOLDER").unwrap(),
        format!("{}\n", cluster.socket_folder().display()),
    )
    .unwrap();
    std::process::abort();
}

#[test]
fn nothing_is_left_of_a_process_that_was_killed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "a_process_that_is_killed"])
        .env("TEST_POSTGRES_FOLDER", file.path())
        .output()
        .unwrap();
    assert!(!status.status.success());
    let folder = std::fs::read_to_string(file.path()).unwrap();
    let folder = Path::new(folder.trim_end());
    assert!(folder.is_absolute(), "{folder:?}: {status:?}");
    let begun = std::time::Instant::now();
    while folder.exists() {
        assert!(begun.elapsed().as_secs() < 30, "{} is still there", folder.display());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
