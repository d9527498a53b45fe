//! Answers of a server whose repository misbehaves, over a real socket.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use plant_http::{
    PlantService, Scope, ServeError, ServerConfig, Token, TokenName, TokenRecord, Tokens, serve,
};
use plant_store::write::{Decision, Write};
use plant_store::{
    Author, Batch, BatchError, EventCursor, EventPage, EventsAfter, HistoryPage, HistoryRequest,
    Imported, OnConflict, Page, PagePlace, PageRequest, PlantRepository, PlantSnapshot, Revision,
    StoreError, StoreFailure, StoredPlant, TagPage, TagPageRequest, Written,
};
use tokio::sync::{oneshot, watch};

const TOKEN: &str = "0123456789abcdef";
const PANICS: i64 = 1;
const IS_BUSY: i64 = 2;
const FAILS: i64 = 3;
const FAILS_FOR_GOOD: i64 = 4;
const LEAVES_A_THREAD: i64 = 5;
const IS_UNAVAILABLE: i64 = 6;
const IS_REFUSED: i64 = 8;
const CAUSE: &str = "no space left on /var/lib/plants";

/// Misbehaves in the way that the plant's id selects.
#[derive(Default)]
struct Misbehaves {
    failed: watch::Sender<bool>,
    close_fails: bool,
}

/// What a search finds on every second page.
const FOUND: &str = "rosa";

fn plant(id: i64) -> NewPlant {
    NewPlant::new(id, "Rosa", None).expect("valid")
}

fn failure() -> StoreFailure {
    StoreFailure::new(CAUSE)
}

/// One page, and then no more; all pages of the search for [`FOUND`].
fn page(request: &PageRequest) -> Result<Page, StoreError> {
    let after = match request.place {
        PagePlace::After(id) => Some(id),
        PagePlace::First | PagePlace::Before(_) => None,
    };
    if request.filter.folded_name_part() == Some(FOUND) {
        return Ok(page_of_search(after));
    }
    if after.is_some() {
        return Err(failure().into());
    }
    let plant = plant(7);
    let mut page = Page::default();
    page.push(plant.borrowed(), Revision::from(1));
    page.next = Some(plant.id());
    Ok(page)
}

struct MisbehavingSnapshot;

#[async_trait]
impl PlantSnapshot for MisbehavingSnapshot {
    async fn list(&mut self, request: PageRequest) -> Result<Page, StoreError> {
        page(&request)
    }
}

#[async_trait]
impl PlantRepository for Misbehaves {
    async fn write(&self, write: Write, _by: Option<Author>) -> Result<Decision, StoreError> {
        match write.id().get() {
            PANICS => panic!("{CAUSE}"),
            IS_BUSY => Err(StoreError::Busy),
            IS_UNAVAILABLE => Err(StoreError::Unavailable(failure())),
            IS_REFUSED => Err(StoreError::Refused(failure())),
            FAILS => Err(failure().into()),
            FAILS_FOR_GOOD => {
                self.failed.send_replace(true);
                Err(failure().into())
            }
            LEAVES_A_THREAD => {
                tokio::task::spawn_blocking(|| {
                    loop {
                        std::thread::park();
                    }
                });
                Err(StoreError::Busy)
            }
            id => Err(StoreError::IdTaken(PlantId::from(id))),
        }
    }

    async fn batch(&self, batch: Batch) -> Result<Vec<Written>, BatchError> {
        for (index, write) in batch.writes.into_iter().enumerate() {
            match self.write(write, None).await {
                Ok(_) => {}
                Err(error @ StoreError::IdTaken(_)) => {
                    return Err(BatchError::Refused(index, error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Vec::new())
    }

    /// Takes plants up to the first one that fails.
    async fn import(
        &self,
        new_plants: Vec<NewPlant>,
        _on_conflict: OnConflict,
        _by: Option<Author>,
    ) -> Result<Vec<Imported>, StoreError> {
        let fails = new_plants.iter().any(|new_plant| new_plant.id().get() == FAILS);
        let imported = |new_plant: NewPlant| match new_plant.id().get() {
            IS_REFUSED => Imported::Refused(failure()),
            _ => Imported::Created,
        };
        if fails {
            Err(failure().into())
        } else {
            Ok(new_plants.into_iter().map(imported).collect())
        }
    }

    async fn get(&self, _id: PlantId) -> Result<Option<StoredPlant>, StoreError> {
        Err(failure().into())
    }

    async fn get_all(&self, _ids: BTreeSet<PlantId>) -> Result<Page, StoreError> {
        Err(failure().into())
    }

    async fn history(&self, _request: HistoryRequest) -> Result<HistoryPage, StoreError> {
        Err(failure().into())
    }

    async fn version(&self, _id: PlantId, _: Revision) -> Result<StoredPlant, StoreError> {
        Err(failure().into())
    }

    async fn list(&self, request: PageRequest) -> Result<Page, StoreError> {
        page(&request)
    }

    async fn snapshot(&self) -> Result<Box<dyn PlantSnapshot>, StoreError> {
        Ok(Box::new(MisbehavingSnapshot))
    }

    async fn count(&self, _tag: Option<&str>) -> Result<u64, StoreError> {
        Ok(2)
    }

    async fn tags(&self, _request: TagPageRequest) -> Result<TagPage, StoreError> {
        Err(failure().into())
    }

    async fn events(&self, after: EventsAfter, _limit: usize) -> Result<EventPage, StoreError> {
        match after {
            EventsAfter::Oldest => Err(failure().into()),
            EventsAfter::Cursor(next) => Ok(EventPage { events: Vec::new(), next }),
        }
    }

    async fn newest_event(&self) -> Result<EventCursor, StoreError> {
        Ok(EventCursor { revision: Revision::BEFORE_ALL, log: 1 })
    }

    async fn next_events(
        &self,
        _after: EventCursor,
        _limit: usize,
    ) -> Result<EventPage, StoreError> {
        Err(failure().into())
    }

    async fn check_ready(&self) -> Result<(), StoreError> {
        Err(StoreError::Busy)
    }

    async fn failed(&self) -> StoreFailure {
        let mut failed = self.failed.subscribe();
        failed.wait_for(|failed| *failed).await.expect("the sender lives as long as this");
        failure()
    }

    async fn close(&self) -> Result<(), StoreFailure> {
        if self.close_fails { Err(failure()) } else { Ok(()) }
    }
}

/// A page of a search that finds the plants 2, 4 and 6, each behind a page without plants. So is the end.
fn page_of_search(after: Option<PlantId>) -> Page {
    let id = after.map_or(1, |after| after.get() + 1);
    let mut page = Page::default();
    if id % 2 == 0 {
        page.push(plant(id).borrowed(), Revision::from(1));
    }
    page.next = (id < 7).then_some(PlantId::from(id));
    page
}

struct RunningServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ServeError>>,
}

impl RunningServer {
    fn start() -> Self {
        Self::start_with(Misbehaves::default())
    }

    fn start_with(repository: Misbehaves) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let token = Token::chosen(TOKEN.to_owned()).expect("a good token");
            let name = TokenName::new("test").expect("a good name");
            let tokens = Tokens::new(vec![TokenRecord::new(name, Scope::Write, &token)]);
            let repository = Arc::new(repository);
            let left = Arc::downgrade(&repository);
            let service = PlantService::new(repository, tokens);
            let mut config = ServerConfig::default();
            config.drain_timeout = Duration::from_secs(1);
            let stop = async {
                let _ = stopped.await;
            };
            actix_web::rt::System::new().block_on(async {
                let outcome = serve(listener, service, config, stop).await;
                assert_eq!(left.strong_count(), 0, "the repository is still held");
                outcome
            })
        });
        Self { address, stop, thread }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> String {
        self.send_as("application/json", method, path, body)
    }

    fn send_as(&self, content_type: &str, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Authorization: Bearer {TOKEN}\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn create(&self, id: i64) -> String {
        self.send("POST", "/plants", &format!(r#"{{"id":{id},"name":"Rosa"}}"#))
    }

    /// The answers to a create, a put, a patch and a delete of this plant.
    fn write_in_every_way(&self, id: i64) -> [String; 4] {
        let path = format!("/plants/{id}");
        [
            self.create(id),
            self.send("PUT", &path, r#"{"name":"Rosa"}"#),
            self.send("PATCH", &path, "{}"),
            self.send("DELETE", &path, ""),
        ]
    }

    fn stop(self) -> Result<(), ServeError> {
        let _ = self.stop.send(());
        self.thread.join().expect("the server does not panic")
    }
}

fn check(answer: &str, status: u16, number: i32) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    assert!(answer.contains(&format!("{{\"error\":{number},\"message\":\"")), "{answer}");
    assert!(answer.contains("x-request-id: "), "{answer}");
    assert!(!answer.contains(CAUSE), "the answer reveals the cause: {answer}");
}

#[test]
fn each_failure_of_the_repository_has_its_answer_and_its_cause_stays_in_the_log() {
    let server = RunningServer::start();
    for (id, status, number, words) in [
        (PANICS, 500, 5001, ""),
        (IS_BUSY, 503, 5003, "retry-after: "),
        (IS_UNAVAILABLE, 503, 5003, "retry-after: "),
        (IS_REFUSED, 500, 5005, "nothing was written"),
        (FAILS, 503, 5002, "retry-after: "),
        (7, 400, 3001, ""),
    ] {
        for answer in server.write_in_every_way(id) {
            check(&answer, status, number);
            assert!(answer.contains(words), "{answer}");
            assert_eq!(answer.contains("retry-after: "), status == 503, "{answer}");
        }
    }
    for (path, number) in
        [("/plants/7", 5002), ("/plants?after=7", 5002), ("/tags", 5002), ("/readyz", 5003)]
    {
        let answer = server.send("GET", path, "");
        check(&answer, 503, number);
        assert!(answer.contains("retry-after: "), "{answer}");
    }
    server.stop().expect("ends well");
}

#[test]
fn a_refused_row_of_an_import_fails_alone() {
    let server = RunningServer::start();
    let rows = [100, IS_REFUSED, 101].map(|id| format!("{{\"id\":{id},\"name\":\"Rosa\"}}\n"));
    let report = server.send_as("application/x-ndjson", "POST", "/plants/import", &rows.concat());
    assert!(report.starts_with("HTTP/1.1 200"), "{report}");
    assert!(report.contains(r#""created":2,"replaced":0,"skipped":0,"failed":1"#), "{report}");
    assert!(report.contains(r#"{"line":2,"error":5005,"message":""#), "{report}");
    assert!(!report.contains(CAUSE), "the answer reveals the cause: {report}");
    server.stop().expect("ends well");
}

#[test]
fn head_of_a_page_reads_no_page() {
    let server = RunningServer::start();
    for (path, header) in
        [("/plants?after=7", "x-total-count: 2"), ("/plants?name=a&after=7", "x-events-after: ")]
    {
        let answer = server.send("HEAD", path, "");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(header), "{answer}");
    }
    assert!(server.send("HEAD", "/tags", "").starts_with("HTTP/1.1 200"));
    // Only a read tells whether the events after a cursor are all there.
    assert!(server.send("HEAD", "/events", "").starts_with("HTTP/1.1 503"));
    server.stop().expect("ends well");
}

#[test]
fn a_page_that_ends_early_says_how_far_it_has_looked() {
    let server = RunningServer::start();
    for query in ["", "name=nowhere&", "tag=Rosaceae&"] {
        for (limit, is_early) in [(1, false), (2, true), (1000, true)] {
            let answer = server.send("GET", &format!("/plants?{query}limit={limit}"), "");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            assert_eq!(answer.contains("\r\nx-searched-to: 7\r\n"), is_early, "{answer}");
            assert_eq!(answer.contains("x-searched-to"), is_early, "{answer}");
            let link = format!("link: </plants?limit={limit}&after=7");
            assert!(answer.contains(&link), "{answer}");
        }
    }
    server.stop().expect("ends well");
}

#[test]
fn a_store_that_fails_for_good_or_while_it_is_closed_ends_the_server_with_its_cause() {
    let fails = RunningServer::start();
    check(&fails.create(FAILS_FOR_GOOD), 503, 5002);
    let fails = fails.thread.join().expect("the server does not panic");
    let repository = Misbehaves { close_fails: true, ..Misbehaves::default() };
    for ended in [fails, RunningServer::start_with(repository).stop()] {
        let cause = ended.expect_err("the store has failed");
        let cause = cause.source().expect("an error with a cause").to_string();
        assert!(cause.contains(CAUSE), "{cause}");
    }
}

#[test]
fn a_thread_that_does_not_end_fails_the_server() {
    let server = RunningServer::start();
    check(&server.create(LEAVES_A_THREAD), 503, 5003);
    let cause = server.stop().expect_err("a thread has not ended");
    assert!(matches!(cause, ServeError::ThreadsCutOff), "{cause}");
}

/// The import is large enough to reach the repository in several pieces.
#[test]
fn an_import_into_a_store_that_fails_is_a_503_that_says_what_was_created_before() {
    let server = RunningServer::start();
    let rows = |count: i64| -> String {
        (100..100 + count).map(|id| format!("{{\"id\":{id},\"name\":\"Rosa\"}}\n")).collect()
    };
    let body = format!("{}{{\"id\":{FAILS},\"name\":\"Rosa\"}}\n{}", rows(20_000), rows(20_000));
    let answer = server.send_as("application/x-ndjson", "POST", "/plants/import", &body);
    check(&answer, 503, 5002);
    assert!(answer.contains(" plants were created") && answer.contains("skip"), "{answer}");
    server.stop().expect("ends well");
}

#[test]
fn an_export_that_fails_midway_has_no_last_chunk() {
    let server = RunningServer::start();
    let answer = server.send("GET", "/plants/export", "");
    assert!(!answer.ends_with("\r\n0\r\n\r\n"), "the body looks whole: {answer}");
    server.stop().expect("ends well");
}

#[test]
fn an_export_of_a_search_goes_on_behind_pages_without_plants() {
    let server = RunningServer::start();
    let answer = server.send("GET", &format!("/plants/export?name={FOUND}"), "");
    let found: Vec<&str> = answer.lines().filter(|line| line.starts_with('{')).collect();
    let wanted = [2, 4, 6].map(|id| format!(r#"{{"id":{id},"name":"Rosa"}}"#));
    assert_eq!(found, wanted, "{answer}");
    assert!(answer.ends_with("\r\n0\r\n\r\n"), "no last chunk: {answer}");
    assert_eq!(answer.matches("\r\n0\r\n").count(), 1, "an empty chunk: {answer}");
    assert!(!answer.contains("x-total-count"), "{answer}");
}
