//! Widely used client libraries, across kills of the server.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plantd_tests::torture::SetOnDrop;
use plantd_tests::{
    Client, Launch, Nginx, Process, TOKEN, TestServer, Toolbox, all_events, copy_folder, hold_port,
    plant_body, repository, wait_until,
};
use tempfile::TempDir;

use super::{HEARTBEAT, create_all};

const KILLS: usize = 2;

/// How many events the client receives before each kill, at least.
const EVENTS: usize = 20;

/// The pause after each create, so that a test makes thousands of events, not hundreds of thousands.
const PAUSE: Duration = Duration::from_millis(5);

/// Creates plants until `is_over`. Repeats creates that were not answered.
fn create_across_kills(client: &Client, is_over: &AtomicBool) {
    for id in (1..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
        let headers = [("content-type", "application/json")];
        wait_until("a create to be answered", || {
            let answer = client.try_send("POST", "/plants", &headers, plant_body(id, "Rosa", None));
            let Ok(answer) = answer else { return false };
            if answer.status != 200 {
                // The create was committed before the kill, but not answered.
                answer.assert_error(400, 3001);
            }
            true
        });
        thread::sleep(PAUSE);
    }
}

/// Asserts that the client of this program, which prints a line for each event, has every event once and in order.
#[track_caller]
fn assert_has_every_event(
    server: &mut TestServer,
    address: SocketAddr,
    program: &mut Command,
) -> Process {
    let client = server.client();
    create_all(&client, [0]);
    program.env("PLANTS_URL", format!("http://{address}")).env("PLANTS_TOKEN", TOKEN);
    let mut follower = Process::spawn(program);
    let mut wait_for_events = |count: usize| {
        wait_until("the client to have the events", || {
            assert!(follower.is_running(), "the client has ended: {}", follower.stderr());
            follower.stdout().matches("event ").count() >= count
        });
    };
    wait_for_events(1);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| create_across_kills(&client, &is_over));
        let _over = SetOnDrop(&is_over);
        for _ in 0..KILLS {
            let kept = all_events(&server.client(), "limit=1000").len();
            wait_for_events(kept + EVENTS);
            server.kill();
            server.restart();
        }
        let kept = all_events(&server.client(), "limit=1000").len();
        wait_for_events(kept + EVENTS);
    });
    let client = server.client();
    let kept = all_events(&client, "limit=1000").len();
    wait_for_events(kept);
    for (id, more) in [(-1, 1), (-2, 2), (-3, 3)] {
        let begun = Instant::now();
        create_all(&client, [id]);
        wait_for_events(kept + more);
        assert!(begun.elapsed() < HEARTBEAT - Duration::from_secs(3), "a heartbeat brought it");
    }
    let wanted: String = all_events(&client, "limit=1000")
        .iter()
        .map(|event| format!("event {} {} {}\n", event.cursor, event.kind.name(), event.id))
        .collect();
    let printed = follower.stdout();
    let events = printed.split_inclusive('\n').filter(|line| line.starts_with("event "));
    assert_eq!(events.collect::<String>(), wanted);
    let connections = printed.matches("connected\n").count();
    assert!(connections > KILLS, "the client did not notice the kills: {connections}");
    follower
}

/// Asserts this for a client that connects directly, and for one behind a proxy. `program` makes each command.
#[track_caller]
fn assert_clients(program: impl Fn() -> Command + Sync) -> String {
    let start = || {
        let (port, address) = hold_port();
        let launch = Launch::new().environment("PLANTD_LISTEN", address.to_string());
        (port, TestServer::start_with(launch))
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (_port, mut server) = start();
            let nginx = Nginx::by_default(server.address());
            assert_has_every_event(&mut server, nginx.address(), &mut program());
        });
        let (_port, mut server) = start();
        let address = server.address();
        assert_has_every_event(&mut server, address, &mut program()).stdout()
    })
}

/// A folder with the programs, in which Node finds the packages.
fn programs(node: &Toolbox) -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let programs = folder.path().join("events");
    copy_folder(&repository("tests/clients/events"), &programs);
    symlink(node.folder().join("node_modules"), folder.path().join("node_modules"))?;
    Ok(folder)
}

#[test]
fn an_event_source_has_every_event_once_across_kills_directly_and_through_nginx() {
    let tools = Toolbox::node();
    let folder = programs(&tools).expect("the programs can be copied");
    let printed = assert_clients(|| {
        let mut node = tools.command("node");
        node.arg(folder.path().join("events/follow.mjs"));
        node
    });
    // Only an answer by the proxy ends an `EventSource` for good.
    assert!(!printed.contains("closed"), "the client did not connect again by itself: {printed}");
}

#[test]
fn httpx_sse_has_every_event_once_across_kills_directly_and_through_nginx() {
    let tools = Toolbox::python();
    assert_clients(|| {
        let mut python = tools.command("python");
        python.arg(repository("tests/clients/events/follow.py"));
        python
    });
}
