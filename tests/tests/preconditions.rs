//! `If-Match` and `If-None-Match`: who may change what he has seen, in the order of RFC 9110,
//! section 13.2.2, and what becomes of many who change the same plant at once.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Answer, Client, Connection, TOKEN, TestServer, plant_body, raw_request, replacement_body,
};

/// The plant that most conditions are about.
const ID: i64 = 1;

/// A plant that is never there.
const MISSING_ID: i64 = 2;

const METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "PATCH", "DELETE"];

/// What becomes of a request with a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// As if there were no condition.
    Done,
    /// 304 to GET and HEAD, 412 to the rest.
    Matched,
    /// 412.
    Failed,
}
use Outcome::{Done, Failed, Matched};

/// A server with one plant, which has had another revision before.
struct Garden {
    server: TestServer,
    connection: Connection,
    changes: u32,
}

impl Garden {
    #[track_caller]
    fn start() -> Self {
        let server = TestServer::start();
        let connection = server.connect();
        let mut garden = Self { server, connection, changes: 0 };
        garden.client().create(ID, "Rosa", None).assert_plant("Rosa", None);
        garden.make_another_revision();
        garden
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    /// Gives the plant a revision that it never had, and returns the one before with the new one.
    #[track_caller]
    fn make_another_revision(&mut self) -> (u64, u64) {
        let old = self.client().read(ID);
        self.changes += 1;
        let body = replacement_body(&format!("revision {}", self.changes), None);
        let new = self.client().put(ID, &body);
        (if old.status == 200 { old.revision() } else { new.revision() - 1 }, new.revision())
    }

    /// Sends a request with these lines in its head; a change is one that shows.
    #[track_caller]
    fn send(&mut self, method: &str, id: i64, lines: &str) -> Answer {
        let body = match method {
            "PUT" | "PATCH" => r#"{"name":"changed","tag":"changed"}"#,
            _ => "",
        };
        self.send_body(method, id, lines, body)
    }

    #[track_caller]
    fn send_body(&mut self, method: &str, id: i64, lines: &str, body: &str) -> Answer {
        let lines = match method {
            "PUT" | "PATCH" => format!("Content-Type: application/json\r\n{lines}"),
            _ => lines.to_owned(),
        };
        let request_line = format!("{method} /plants/{id}");
        self.connection.send(raw_request(&request_line, &lines, body));
        match method {
            "HEAD" => self.connection.receive_head(),
            _ => self.connection.receive(),
        }
    }

    /// Claims what becomes of a request of this method for the plant that is there. In `lines`, NEW
    /// stands for the plant's revision and OLD for one that it had before.
    #[track_caller]
    fn check(&mut self, method: &str, lines: &str, outcome: Outcome) {
        let (old, new) = self.make_another_revision();
        let lines = lines.replace("NEW", &new.to_string()).replace("OLD", &old.to_string());
        let before = self.client().read(ID);
        let answer = self.send(method, ID, &lines);
        let shown = format!("{method} {lines:?}: {answer:?}");
        let is_read = matches!(method, "GET" | "HEAD");
        let status = match (outcome, is_read) {
            (Done, _) => {
                if method == "DELETE" {
                    204
                } else {
                    200
                }
            }
            (Matched, true) => 304,
            (Matched, false) | (Failed, _) => 412,
        };
        assert_eq!(answer.status, status, "{shown}");
        if status == 412 && method != "HEAD" {
            answer.assert_error(412, 3003);
        }
        if is_read && status != 412 {
            assert_eq!(answer.revision(), new, "{shown}");
        }
        if status == 304 {
            assert_eq!(answer.body, b"", "{shown}");
        }
        let after = self.client().read(ID);
        if outcome == Done && !is_read {
            match method {
                "DELETE" => drop(after.assert_error(404, 3002)),
                _ => after.assert_new_plant(ID, "changed", Some("changed")),
            }
        } else {
            let both = [&before, &after].map(|read| (&read.body, read.header("etag")));
            assert_eq!(both[0], both[1], "{shown} changed something");
        }
    }
}

#[test]
fn if_match_lets_pass_whoever_names_the_revision() {
    let mut garden = Garden::start();
    for (lines, outcome) in [
        ("If-Match: *\r\n", Done),
        ("If-Match: \"NEW\"\r\n", Done),
        ("if-match:\"NEW\"\r\n", Done),
        ("If-Match: \"x\", \"NEW\"\r\n", Done),
        ("If-Match: \"NEW\",\"x\"\r\n", Done),
        ("If-Match: W/\"NEW\", \"NEW\"\r\n", Done),
        ("If-Match: \"OLD\" \t , \t \"NEW\" \r\n", Done),
        ("If-Match: ,, \"NEW\" , ,\r\n", Done),
        ("If-Match: \"x\"\r\nIf-Match: \"NEW\"\r\n", Done),
        ("If-Match: \"NEW\"\r\nX: y\r\nif-match: \"x\"\r\n", Done),
        ("If-Match: \"a\\\", \"NEW\"\r\n", Done),
        ("If-Match: \"OLD\"\r\n", Failed),
        ("If-Match: \"x\"\r\n", Failed),
        ("If-Match: \"\"\r\n", Failed),
        ("If-Match: \"*\"\r\n", Failed),
        ("If-Match: \"é\", \"!#$%&'()*+-./:;<=>?@[\\]^_`{|}~\"\r\n", Failed),
        ("If-Match: \"0NEW\"\r\n", Failed),
        ("If-Match: \"+NEW\"\r\n", Failed),
        ("If-Match: \"NEW.0\"\r\n", Failed),
        ("If-Match: \"99999999999999999999999999\"\r\n", Failed),
        ("If-Match: \"x,NEW\"\r\n", Failed),
        ("If-Match: \"OLD\", \"x\"\r\nIf-Match: \"y\"\r\n", Failed),
        // A weak tag is for reading only (RFC 9110, section 13.1.1).
        ("If-Match: W/\"NEW\"\r\n", Failed),
        ("If-Match: W/\"NEW\", \"OLD\"\r\n", Failed),
    ] {
        for method in METHODS {
            garden.check(method, lines, outcome);
        }
    }
}

#[test]
fn if_none_match_stops_whoever_names_the_revision() {
    let mut garden = Garden::start();
    for (lines, outcome) in [
        ("If-None-Match: *\r\n", Matched),
        ("If-None-Match: \"NEW\"\r\n", Matched),
        ("If-None-Match: W/\"NEW\"\r\n", Matched),
        ("if-none-match: \"x\" , W/\"NEW\"\r\n", Matched),
        ("If-None-Match: , \"NEW\",,\"OLD\"\r\n", Matched),
        ("If-None-Match: \"x\"\r\nIf-None-Match: \"NEW\"\r\n", Matched),
        ("If-None-Match: \"x,y\", \"NEW\"\r\n", Matched),
        ("If-None-Match: \"OLD\"\r\n", Done),
        ("If-None-Match: W/\"OLD\", \"x\"\r\n", Done),
        ("If-None-Match: \"\"\r\n", Done),
        ("If-None-Match: \"*\"\r\n", Done),
        ("If-None-Match: \"0NEW\"\r\n", Done),
        ("If-None-Match: \"x,NEW\"\r\n", Done),
        ("If-None-Match: \"é\"\r\n", Done),
    ] {
        for method in METHODS {
            garden.check(method, lines, outcome);
        }
    }
}

#[test]
fn if_match_comes_before_if_none_match() {
    let mut garden = Garden::start();
    for (lines, outcome) in [
        ("If-Match: \"NEW\"\r\nIf-None-Match: \"NEW\"\r\n", Matched),
        ("If-None-Match: \"NEW\"\r\nIf-Match: \"NEW\"\r\n", Matched),
        ("If-Match: *\r\nIf-None-Match: *\r\n", Matched),
        ("If-Match: \"NEW\"\r\nIf-None-Match: \"OLD\"\r\n", Done),
        ("If-Match: \"OLD\"\r\nIf-None-Match: \"OLD\"\r\n", Failed),
        ("If-Match: \"OLD\"\r\nIf-None-Match: \"NEW\"\r\n", Failed),
        ("If-None-Match: *\r\nIf-Match: \"x\"\r\n", Failed),
    ] {
        for method in METHODS {
            garden.check(method, lines, outcome);
        }
    }
}

#[test]
fn a_condition_on_a_date_is_none_for_a_plant_has_no_date() {
    let mut garden = Garden::start();
    for (lines, outcome) in [
        ("If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n", Done),
        ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", Done),
        ("If-None-Match: \"OLD\"\r\nIf-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n", Done),
        ("If-Match: \"NEW\"\r\nIf-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", Done),
    ] {
        for method in METHODS {
            garden.check(method, lines, outcome);
        }
    }
}

#[test]
fn a_condition_that_is_none_is_1007_and_nothing_changes() {
    let mut garden = Garden::start();
    let (_, revision) = garden.make_another_revision();
    let before = garden.client().read(ID);
    let values = [
        "",
        "   ",
        "NEW",
        "W/NEW",
        "'NEW'",
        "\"NEW",
        "NEW\"",
        "\"",
        "\"a",
        "\"NEW\"x",
        "x\"NEW\"",
        "\"NEW\" \"x\"",
        "\"NEW\"; \"x\"",
        "\"NEW\", x",
        "x, \"NEW\"",
        "\"NEW\", \"x",
        "w/\"NEW\"",
        "W/ \"NEW\"",
        "W\"NEW\"",
        "W/",
        "\"a b\"",
        "\"a\tb\"",
        "*, \"NEW\"",
        "\"NEW\", *",
        "* *",
        "*x",
        "W/*",
        "*, *",
    ];
    let mut all = Vec::new();
    for name in ["If-Match", "If-None-Match"] {
        for value in values {
            let value = value.replace("NEW", &revision.to_string());
            all.push((name, format!("{name}: {value}\r\n")));
        }
        all.push((name, format!("{name}: *\r\n{name}: \"{revision}\"\r\n")));
        all.push((name, format!("{name}: \"{revision}\"\r\n{name}: x\r\n")));
    }
    // It is wrong even where the other one would have decided.
    all.push(("If-None-Match", "If-Match: \"x\"\r\nIf-None-Match: x\r\n".to_owned()));
    for (name, lines) in all {
        for method in METHODS {
            // A refusal may close the connection: that is no part of the contract.
            garden.connection = garden.server.connect();
            let answer = garden.send(method, ID, &lines);
            assert_eq!(answer.status, 400, "{method} {lines:?}: {answer:?}");
            if method != "HEAD" {
                let message = answer.assert_error(400, 1007);
                assert!(message.contains(name), "{lines:?}: {message:?} does not name {name}");
            }
        }
        let after = garden.client().read(ID);
        let both = [&before, &after].map(|read| (&read.body, read.header("etag")));
        assert_eq!(both[0], both[1], "{lines:?} changed something");
    }
}

#[test]
fn a_put_makes_a_plant_only_where_its_condition_allows_that_none_is_there() {
    let mut garden = Garden::start();
    for lines in ["If-Match: *\r\n", "If-Match: \"1\"\r\n", "If-Match: *\r\nIf-None-Match: *\r\n"] {
        garden.send("PUT", MISSING_ID, lines).assert_error(412, 3003);
        garden.client().read(MISSING_ID).assert_error(404, 3002);
    }
    for lines in ["If-None-Match: *\r\n", "If-None-Match: \"1\"\r\n", "If-None-Match: W/\"x\"\r\n"]
    {
        garden.send("PUT", MISSING_ID, lines).assert_made("changed", Some("changed"));
        let made = garden.client().read(MISSING_ID);
        garden.send("PUT", MISSING_ID, "If-None-Match: *\r\n").assert_error(412, 3003);
        assert_eq!(garden.client().read(MISSING_ID).header("etag"), made.header("etag"));
        garden.client().delete(MISSING_ID).assert_no_content();
    }
}

#[test]
fn a_condition_on_a_plant_that_is_not_there_changes_no_404() {
    let mut garden = Garden::start();
    for lines in [
        "If-Match: *\r\n",
        "If-Match: \"1\"\r\n",
        "If-Match: W/\"1\"\r\n",
        "If-None-Match: *\r\n",
        "If-None-Match: \"1\"\r\n",
        "If-Match: \"1\"\r\nIf-None-Match: *\r\n",
    ] {
        for method in ["GET", "PATCH", "DELETE"] {
            let answer = garden.send(method, MISSING_ID, lines);
            assert_eq!(answer.status, 404, "{method} {lines:?}: {answer:?}");
            answer.assert_error(404, 3002);
        }
        assert_eq!(garden.send("HEAD", MISSING_ID, lines).status, 404, "{lines:?}");
        garden.client().read(MISSING_ID).assert_error(404, 3002);
    }
}

#[test]
fn a_body_that_is_wrong_is_so_whatever_the_condition_says() {
    let mut garden = Garden::start();
    let current = format!("If-Match: \"{}\"\r\n", garden.client().read(ID).revision());
    let before = garden.client().read(ID);
    for lines in ["If-Match: \"x\"\r\n", "If-None-Match: *\r\n", "If-Match: *\r\n", &current] {
        for method in ["PUT", "PATCH"] {
            for (body, number) in [
                ("{", 1001),
                ("[]", 1004),
                (r#"{"name":null}"#, 1004),
                (r#"{"name":""}"#, 1005),
                (r#"{"id":7,"name":"Rosa"}"#, 1005),
            ] {
                garden.connection = garden.server.connect();
                let answer = garden.send_body(method, ID, lines, body);
                assert_eq!(answer.status, 400, "{method} {lines:?} {body}: {answer:?}");
                answer.assert_error(400, number);
            }
        }
    }
    assert_eq!(garden.client().read(ID).header("etag"), before.header("etag"));
}

#[test]
fn a_change_that_changes_nothing_meets_its_condition_like_any_other() {
    let mut garden = Garden::start();
    let (old, new) = garden.make_another_revision();
    let client = garden.client();
    let name = client.read(ID).json()["name"].as_str().expect("a name").to_owned();
    let same = replacement_body(&name, None);
    let (old, new) = (format!("\"{old}\""), format!("\"{new}\""));
    for answer in [
        client.put_with(ID, &[("if-match", &new)], &same),
        client.patch_with(ID, &[("if-match", &new)], "{}"),
        client.put_with(ID, &[("if-none-match", &old)], &same),
    ] {
        answer.assert_plant(&name, None);
        assert_eq!(answer.header("etag"), Some(new.as_str()));
    }
    for answer in [
        client.put_with(ID, &[("if-match", &old)], &same),
        client.patch_with(ID, &[("if-match", &old)], "{}"),
        client.put_with(ID, &[("if-none-match", "*")], &same),
    ] {
        answer.assert_error(412, 3003);
    }
    assert_eq!(client.read(ID).header("etag"), Some(new.as_str()));
}

#[test]
fn the_revision_of_a_plant_that_was_deleted_never_matches_the_one_made_after_it() {
    let garden = Garden::start();
    let client = garden.client();
    let seen = client.read(ID);
    let seen = seen.header("etag").expect("an entity tag");
    client.delete(ID).assert_no_content();
    client.create(ID, "Rosa", None).assert_plant("Rosa", None);
    client
        .put_with(ID, &[("if-match", seen)], &replacement_body("x", None))
        .assert_error(412, 3003);
    client.patch_with(ID, &[("if-match", seen)], "{}").assert_error(412, 3003);
    client.delete_with(ID, &[("if-match", seen)]).assert_error(412, 3003);
    let read = client.send("GET", &format!("/plants/{ID}"), &[("if-none-match", seen)], "");
    read.assert_new_plant(ID, "Rosa", None);
}

/// Reads the number that is the plant's name, adds one, and tries until nobody came between.
/// Returns how often somebody did.
fn increment(client: &Client, times: u32, start: &Barrier) -> u32 {
    let mut defeats = 0;
    let mut read = client.read(ID);
    start.wait();
    for _ in 0..times {
        let mut pause = Duration::from_millis(1);
        loop {
            let number: u32 =
                read.json()["name"].as_str().expect("a name").parse().expect("a number");
            let condition = [("if-match", read.header("etag").expect("an entity tag"))];
            let next = replacement_body(&(number + 1).to_string(), None);
            let answer = client.put_with(ID, &condition, &next);
            if answer.status == 200 {
                answer.assert_plant(&(number + 1).to_string(), None);
                // Its answer holds all that the next attempt needs.
                read = answer;
                break;
            }
            answer.assert_error(412, 3003);
            defeats += 1;
            // The others are to get their turn, as polite clients do.
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(256));
            read = client.read(ID);
        }
    }
    defeats
}

#[test]
fn no_increment_of_many_clients_is_lost() {
    const CLIENTS: u32 = 64;
    const TIMES: u32 = 100;
    let server = TestServer::start();
    let first = server.client().create(ID, "0", None);
    let start = Barrier::new(CLIENTS as usize);
    let defeats: u32 = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (server, start) = (&server, &start);
                scope.spawn(move || {
                    let client = Client::new(server.address(), Some(TOKEN));
                    increment(&client, TIMES, start)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let last = server.client().read(ID);
    last.assert_new_plant(ID, &(CLIENTS * TIMES).to_string(), None);
    // Each took a revision of its own; some stores leave gaps.
    assert!(last.revision() >= first.revision() + u64::from(CLIENTS * TIMES), "{last:?}");
    // All but one had read what the first then changed.
    assert!(defeats >= CLIENTS - 1, "there was no race: {defeats} defeats");
}

/// Sends what `request` gives for each of many clients at once, and returns the answers.
fn at_once(server: &TestServer, request: impl Fn(usize) -> Vec<u8>) -> Vec<Answer> {
    const CLIENTS: usize = 32;
    let mut connections: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (number, connection) in connections.iter_mut().enumerate() {
        connection.send(request(number));
    }
    connections.iter_mut().map(Connection::receive).collect()
}

/// Claims that exactly one of the answers has this status and all others are this failure, and
/// returns which one it is.
#[track_caller]
fn the_winner(answers: &[Answer], wins: u16, status: u16, number: i32) -> usize {
    let winners: Vec<_> = (0..answers.len()).filter(|at| answers[*at].status == wins).collect();
    for answer in answers.iter().filter(|answer| answer.status != wins) {
        answer.assert_error(status, number);
    }
    assert_eq!(winners.len(), 1, "{answers:?}");
    winners[0]
}

#[test]
fn of_many_clients_that_make_one_plant_at_once_exactly_one_does() {
    let server = TestServer::start();
    for id in 1..=8 {
        let answers = at_once(&server, |number| {
            let lines = "Content-Type: application/json\r\nIf-None-Match: *\r\n";
            let body = plant_body(id, &number.to_string(), None);
            raw_request(&format!("PUT /plants/{id}"), lines, body)
        });
        let winner = the_winner(&answers, 201, 412, 3003);
        answers[winner].assert_made(&winner.to_string(), None);
        let read = server.client().read(id);
        read.assert_new_plant(id, &winner.to_string(), None);
        assert_eq!(read.header("etag"), answers[winner].header("etag"));
    }
}

#[test]
fn of_many_clients_that_change_one_revision_at_once_exactly_one_does() {
    let server = TestServer::start();
    server.client().create(ID, "Rosa", None).assert_plant("Rosa", None);
    for method in ["PUT", "PATCH"].into_iter().cycle().take(8) {
        let revision = server.client().read(ID).revision();
        let answers = at_once(&server, |number| {
            let lines = format!("Content-Type: application/json\r\nIf-Match: \"{revision}\"\r\n");
            let body = replacement_body(&format!("{revision}-{number}"), None);
            raw_request(&format!("{method} /plants/{ID}"), &lines, body)
        });
        let winner = the_winner(&answers, 200, 412, 3003);
        let read = server.client().read(ID);
        read.assert_new_plant(ID, &format!("{revision}-{winner}"), None);
        assert_eq!(read.header("etag"), answers[winner].header("etag"));
        assert!(read.revision() > revision, "{read:?} where it was {revision}");
    }
}

#[test]
fn of_many_clients_that_delete_one_revision_at_once_exactly_one_does() {
    let server = TestServer::start();
    for _ in 0..8 {
        let revision = server.client().create(ID, "Rosa", None).revision();
        let answers = at_once(&server, |_| {
            let lines = format!("If-Match: \"{revision}\"\r\n");
            raw_request(&format!("DELETE /plants/{ID}"), &lines, "")
        });
        let winner = the_winner(&answers, 204, 404, 3002);
        answers[winner].assert_no_content();
        server.client().read(ID).assert_error(404, 3002);
    }
}
