//! `--archive`: the metrics of an archive, and when an archive makes the server unready.

use std::fs;
use std::path::PathBuf;

use plantd_tests::{
    Launch, Scrape, TestServer, store_is_on_disk, temporary_folder, wait_until, wait_until_archived,
};
use tempfile::TempDir;

const FAILURES: &str = "plantd_archive_failures_total";
const LOST_CHANGES: &str = "plantd_archive_lost_changes_total";
const ARCHIVED_REVISION: &str = "plantd_archived_revision";
const WAITING_SECONDS: &str = "plantd_archive_waiting_seconds";

struct ArchivedServer {
    server: TestServer,
    archive: PathBuf,
    _folder: TempDir,
}

impl ArchivedServer {
    /// Starts a server with these arguments too; `None` where PostgreSQL has the plants.
    fn start(arguments: &[&str]) -> Option<Self> {
        if !store_is_on_disk("PostgreSQL archives its own log") {
            return None;
        }
        let folder = temporary_folder();
        let archive = folder.path().join("archive");
        let launch = Launch::new().environment("PLANTD_ARCHIVE", &archive);
        let server = TestServer::start_with(launch.arguments(arguments.iter().copied()));
        Some(Self { server, archive, _folder: folder })
    }

    #[track_caller]
    fn create(&self, id: i64) {
        self.server.client().create(id, "Rosa", None).assert_plant("Rosa", None);
    }

    #[track_caller]
    fn scrape(&self) -> Scrape {
        Scrape::of(&self.server.client())
    }

    #[track_caller]
    fn readiness(&self) -> u16 {
        self.server.client().get("/readyz").status
    }

    /// Where the archive is while it is unmounted.
    fn elsewhere(&self) -> PathBuf {
        self.archive.with_file_name("elsewhere")
    }

    /// Puts an empty folder in the place of the archive, as if its disk were unmounted.
    fn unmount_archive(&self) {
        fs::rename(&self.archive, self.elsewhere()).expect("a file can be renamed");
        fs::create_dir(&self.archive).expect("a folder can be made");
    }

    fn mount_archive_again(&self) {
        fs::remove_dir(&self.archive).expect("nothing was written into the wrong folder");
        fs::rename(self.elsewhere(), &self.archive).expect("a file can be renamed");
    }
}

#[test]
fn a_server_without_an_archive_measures_none() {
    let server = TestServer::start();
    let scrape = Scrape::of(&server.client());
    for name in [FAILURES, LOST_CHANGES, ARCHIVED_REVISION, WAITING_SECONDS] {
        assert!(!scrape.has(name), "{name}");
    }
}

#[test]
fn an_archive_that_fails_is_measured_and_stops_no_write_and_readiness_only_if_it_is_required() {
    for (arguments, unready) in [(&[][..], 200), (&["--archive-required"], 503)] {
        let Some(archived) = ArchivedServer::start(arguments) else { return };
        assert_eq!((archived.readiness(), archived.scrape().value(ARCHIVED_REVISION)), (200, 0.0));
        archived.create(1);
        wait_until_archived(&archived.server.client());
        let before = archived.scrape().value(ARCHIVED_REVISION);
        archived.unmount_archive();
        for id in 2..=4 {
            archived.create(id);
            let failures = archived.scrape().value(FAILURES);
            wait_until("one more failure", || archived.scrape().value(FAILURES) > failures);
            wait_until("the readiness to follow", || archived.readiness() == unready);
            let scrape = archived.scrape();
            assert!(scrape.value(WAITING_SECONDS) > 0.0);
            assert_eq!(scrape.value(ARCHIVED_REVISION), before);
            assert_eq!(scrape.value("plantd_ready"), f64::from(u8::from(unready == 200)));
        }
        archived.mount_archive_again();
        wait_until("the server to be ready", || archived.readiness() == 200);
        wait_until_archived(&archived.server.client());
        let scrape = archived.scrape();
        assert_eq!(scrape.value(LOST_CHANGES), 0.0);
        assert_eq!(scrape.value(WAITING_SECONDS), 0.0);
        assert_eq!(scrape.value("plantd_ready"), 1.0);
    }
}
