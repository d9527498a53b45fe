//! A cluster leaves nothing behind. The tests that use clusters also test their crashes, restarts and standbys.

use std::path::Path;

use test_postgres::Cluster;

#[test]
fn a_cluster_that_is_dropped_leaves_nothing() {
    let cluster = Cluster::start();
    let (folder, port) = (cluster.socket_folder().to_owned(), cluster.port());
    drop(cluster);
    assert!(!folder.exists(), "{}", folder.display());
    std::net::TcpListener::bind(("127.0.0.1", port)).expect("nobody listens there");
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
