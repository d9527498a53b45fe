//! The receivers in `examples/webhooks`: what they accept, and what they store.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::LazyLock;

use jiff::Timestamp;
use plantd_tests::{
    Connection, DEADLINE, Document, FakeServer, Process, TOKEN, TestServer, Toolbox, at_once,
    chunk, repository, run_tool, temporary_folder,
};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tempfile::TempDir;
use ureq::Agent;

/// The folders of the receivers.
const LANGUAGES: [&str; 2] = ["python", "typescript"];

const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
const OTHER_SECRET: &str = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4";

const SIGNATURE: &str = "webhook-signature";

/// Beyond the integers that JavaScript's numbers hold.
const BEYOND_NUMBERS: i64 = (1 << 53) + 1;

/// Executes each argument in the database, and prints the rows.
const EXECUTE: &str = "import json, sqlite3, sys; \
    database = sqlite3.connect('copy.db', isolation_level=None); \
    print(json.dumps([database.execute(sql).fetchall() for sql in sys.argv[1:]]))";

/// The receiver in TypeScript, compiled as its document says.
static COMPILED: LazyLock<String> = LazyLock::new(|| {
    let folder = temporary_folder();
    link_packages(folder.path());
    let source = repository("examples/webhooks/typescript/receiver.mts");
    fs::copy(source, folder.path().join("receiver.mts")).expect("it can be copied");
    let commands = Document::read("examples/webhooks/README.md").part("TypeScript").blocks("sh");
    let commands = commands.concat();
    let arguments = commands.lines().find_map(|line| line.strip_prefix("npx tsc "));
    let mut tsc = Toolbox::node().command("tsc");
    tsc.args(arguments.expect("it says how").split(' '));
    run_tool(tsc.current_dir(&folder));
    fs::read_to_string(folder.path().join("receiver.mjs")).expect("it is compiled")
});

fn link_packages(folder: &Path) {
    let packages = Toolbox::node().folder().join("node_modules");
    symlink(packages, folder.join("node_modules")).expect("a link can be made");
}

type Headers = Vec<(&'static str, String)>;

struct Receiver {
    process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl Receiver {
    /// Starts a receiver that loads exports from this address.
    fn start(language: &str, store: SocketAddr) -> Self {
        let folder = temporary_folder();
        let (mut command, program) = if language == "python" {
            let program = repository("examples/webhooks/python/receiver.py");
            (Toolbox::python().command("python"), program)
        } else {
            let program = folder.path().join("receiver.mjs");
            link_packages(folder.path());
            fs::write(&program, &*COMPILED).expect("it can be written");
            (Toolbox::node().command("node"), program)
        };
        command.arg(program).env("WEBHOOK_SECRET", SECRET).env("PORT", "0");
        command.env("PLANTS_URL", format!("http://{store}")).env("PLANTS_TOKEN", TOKEN);
        // No proxy of the environment.
        command.env("DATABASE", folder.path().join("copy.db")).env("no_proxy", "*");
        let mut process = Process::spawn(&mut command);
        let line = process.first_line();
        let address = line.strip_prefix("listening on http://").and_then(|it| it.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{line:?} does not say where it listens"));
        Self { process, address, folder }
    }

    /// Starts a receiver that needs no export.
    fn start_alone(language: &str) -> Self {
        Self::start(language, SocketAddr::from(([127, 0, 0, 1], 9)))
    }

    /// The status of the answer to this request.
    fn send(&self, headers: &Headers, body: &str) -> u16 {
        let agent = Agent::config_builder().http_status_as_error(false);
        let agent: Agent = agent.proxy(None).timeout_global(Some(DEADLINE)).build().into();
        let request = agent.post(format!("http://{}/", self.address));
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, value));
        request.send(body).expect("an answer").status().as_u16()
    }

    /// Sends a delivery as the store does, and asserts that it is accepted.
    #[track_caller]
    fn deliver(&self, id: &str, body: &str) {
        let status = self.send(&signed(SECRET, id, 0, body), body);
        assert_eq!(status, 204, "{}", self.process.stderr());
    }

    /// Executes statements in the database, and returns the rows of each.
    fn execute(&self, statements: &[&str]) -> Value {
        let mut python = Toolbox::python().command("python");
        python.args(["-c", EXECUTE]).args(statements).current_dir(&self.folder);
        let output = python.output().expect("python can be run");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|cause| panic!("{cause}: {output:?}"))
    }

    /// Asserts which plants the copy has, and which deliveries are remembered.
    #[track_caller]
    fn assert_stored(&self, plants: &Value, ids: &[&str]) {
        let plants_and_ids = ["SELECT * FROM plants ORDER BY id", "SELECT id FROM deliveries"];
        let ids: Vec<_> = ids.iter().map(|id| [id]).collect();
        assert_eq!(self.execute(&plants_and_ids), json!([plants, ids]));
    }
}

/// The headers of a delivery that was sent some seconds ago.
fn signed(secret: &str, id: &str, seconds_ago: i64, body: &str) -> Headers {
    let timestamp = Timestamp::now().as_second() - seconds_ago;
    let webhook = Webhook::new(secret).expect("a secret");
    let signature = webhook.sign(id, timestamp, body.as_bytes()).expect("a text");
    let timestamp = timestamp.to_string();
    vec![("webhook-id", id.into()), ("webhook-timestamp", timestamp), (SIGNATURE, signature)]
}

fn delivery(kind: &str, data: &Value) -> String {
    json!({"type": kind, "timestamp": "2026-11-29T11:30:00.123Z", "data": data}).to_string()
}

fn changed(events: &[Value]) -> String {
    delivery("plants.changed", &json!({"events": events}))
}

fn event(kind: &str, id: i64) -> Value {
    json!({"cursor": "1-a", "kind": kind, "id": id, "at": "2026-11-29T11:30:00.123Z"})
}

fn with_plant(kind: &str, id: i64, name: &str) -> Value {
    let mut event = event(kind, id);
    event["plant"] = json!({"name": name});
    event
}

#[test]
fn only_what_the_store_has_signed_within_5_minutes_is_stored() {
    at_once(&LANGUAGES, |language| {
        let receiver = Receiver::start_alone(language);
        let body = changed(&[with_plant("created", 1, "Rosa")]);
        let sent = |secret, seconds_ago| signed(secret, "a", seconds_ago, &body);
        let with = |name: &'static str, value: Option<&str>| {
            let mut headers = sent(SECRET, 0);
            headers.retain(|header| header.0 != name);
            headers.extend(value.map(|value| (name, value.to_owned())));
            headers
        };
        for (what, headers, body) in [
            ("another secret", sent(OTHER_SECRET, 0), &body),
            ("no id", with("webhook-id", None), &body),
            ("no time", with("webhook-timestamp", None), &body),
            ("no signature", with(SIGNATURE, None), &body),
            ("another id", with("webhook-id", Some("b")), &body),
            ("a malformed signature", with(SIGNATURE, Some("v1")), &body),
            ("another byte", sent(SECRET, 0), &body.replace("Rosa", "Rose")),
            ("a time that has passed", sent(SECRET, 310), &body),
            ("a time to come", sent(SECRET, -310), &body),
        ] {
            assert_eq!(receiver.send(&headers, body), 400, "{what}");
        }
        let mut connection = Connection::open(receiver.address);
        connection.send("POST / HTTP/1.1\r\nHost: receiver\r\nContent-Length: 65537\r\n\r\n");
        assert_eq!(connection.receive_head().status, 413);
        receiver.assert_stored(&json!([]), &[]);

        // As during the change to another secret.
        let [right, other] = [SECRET, OTHER_SECRET].map(|secret| sent(secret, 0).remove(2).1);
        for headers in [
            sent(SECRET, 290),
            sent(SECRET, -290),
            with(SIGNATURE, Some(&format!("{right} {other}"))),
            with(SIGNATURE, Some(&format!("{other} {right}"))),
        ] {
            assert_eq!(receiver.send(&headers, &body), 204);
        }
        receiver.assert_stored(&json!([[1, "Rosa", null]]), &["a"]);
    });
}

#[test]
fn a_copy_follows_the_events_in_order_and_has_every_id_exactly() {
    at_once(&LANGUAGES, |language| {
        let receiver = Receiver::start_alone(language);
        let ids = [i64::MIN, -BEYOND_NUMBERS, BEYOND_NUMBERS, i64::MAX - 1, i64::MAX];
        receiver.deliver("a", &changed(&ids.map(|id| with_plant("created", id, "Rosa"))));
        receiver.assert_stored(&json!(ids.map(|id| json!([id, "Rosa", null]))), &["a"]);
        let mut with_tag = with_plant("updated", i64::MIN, "Salix 植物");
        with_tag["plant"]["tag"] = json!("tag");
        let events = [
            event("deleted", i64::MAX),
            with_tag,
            event("updated", BEYOND_NUMBERS),
            event("created", 7),
            event("deleted", -BEYOND_NUMBERS),
            with_plant("created", -BEYOND_NUMBERS, "Betula"),
            with_plant("created", 8, "Acer"),
            event("deleted", 8),
        ];
        receiver.deliver("b", &changed(&events));
        receiver.deliver("c", &delivery("plants.test", &json!({"webhook": "shop"})));
        receiver.deliver("d", &delivery("plants.counted", &json!([1.5])));
        let kept = json!([
            [i64::MIN, "Salix 植物", "tag"],
            [-BEYOND_NUMBERS, "Betula", null],
            [BEYOND_NUMBERS, "Rosa", null],
            [i64::MAX - 1, "Rosa", null],
        ]);
        receiver.assert_stored(&kept, &["a", "b"]);
    });
}

#[test]
fn a_repeat_changes_nothing_even_when_it_comes_late() {
    at_once(&LANGUAGES, |language| {
        let receiver = Receiver::start_alone(language);
        let first = changed(&[with_plant("created", 1, "Rosa")]);
        let second = changed(&[event("deleted", 1)]);
        receiver.deliver("a", &first);
        receiver.deliver("b", &second);
        receiver.deliver("a", &first);
        receiver.assert_stored(&json!([]), &["a", "b"]);
        // Hours pass without another delivery.
        receiver.execute(&["UPDATE deliveries SET seen_at = seen_at - 7200"]);
        receiver.deliver("b", &first);
        receiver.assert_stored(&json!([]), &["a", "b"]);
        receiver.deliver("c", &first);
        receiver.assert_stored(&json!([[1, "Rosa", null]]), &["b", "c"]);
    });
}

#[test]
fn lost_events_replace_the_copy_by_an_export_once() {
    let store = TestServer::start();
    let names = [(i64::MIN, "Rosa"), (i64::MAX, "Salix 植物")];
    for (id, name) in names {
        store.client().create(id, name, None).assert_plant(name, None);
    }
    let copied = json!(names.map(|(id, name)| json!([id, name, null])));
    let receivers = LANGUAGES.map(|language| Receiver::start(language, store.address()));
    let lost = delivery("plants.lost", &json!({"after": null, "to": "2048-9f3a1c"}));
    for receiver in &receivers {
        receiver.deliver("a", &changed(&[with_plant("created", 1, "Betula")]));
        receiver.deliver("b", &lost);
        receiver.assert_stored(&copied, &["a", "b"]);
    }
    store.client().delete(i64::MAX).assert_no_content();
    for receiver in &receivers {
        receiver.deliver("b", &lost);
        receiver.assert_stored(&copied, &["a", "b"]);
    }
}

#[test]
fn an_export_that_is_cut_off_changes_nothing() {
    at_once(&LANGUAGES, |language| {
        let store = FakeServer::start(|_, stream| {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let rows = chunk("{\"id\":2,\"name\":\"Rosa\"}\n");
            let answer = [head.as_bytes(), &rows].concat();
            stream.write_all(&answer).expect("the receiver reads");
        });
        let receiver = Receiver::start(language, store.address);
        receiver.deliver("a", &changed(&[with_plant("created", 1, "Betula")]));
        let lost = delivery("plants.lost", &json!({"after": null, "to": "2048-9f3a1c"}));
        assert_eq!(receiver.send(&signed(SECRET, "b", 0, &lost), &lost), 500);
        receiver.assert_stored(&json!([[1, "Betula", null]]), &["a"]);
    });
}
