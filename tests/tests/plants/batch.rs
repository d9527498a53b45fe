//! `POST /batch`: all of the requests happen, or none, and each has the answer that it would get alone.

use plantd_tests::{Answer, Client, TestServer, all_events, newest_cursor};
use serde_json::{Map, Value, json};

use super::{body_of, listed};

/// A request that is sent alone, or in a batch.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// JSON; empty for a request without a body.
    pub(crate) body: &'a str,
}

impl Request<'_> {
    pub(crate) fn json(&self) -> String {
        let Self { method, path, .. } = self;
        let headers: Map<String, Value> =
            self.headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let body =
            if self.body.is_empty() { String::new() } else { format!(r#","body":{}"#, self.body) };
        format!(
            r#"{{"method":"{method}","path":"{path}","headers":{}{body}}}"#,
            Value::from(headers)
        )
    }

    /// The answer to the request alone.
    #[track_caller]
    fn send(&self, client: &Client) -> Answer {
        let json = [("content-type", "application/json")];
        client.send(self.method, self.path, &[&json, self.headers].concat(), self.body)
    }
}

pub(crate) fn request<'a>(method: &'a str, path: &'a str, body: &'a str) -> Request<'a> {
    Request { method, path, headers: &[], body }
}

impl<'a> Request<'a> {
    pub(crate) fn with(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { headers, ..self }
    }
}

/// An answer as a batch shows it. Two stores give different revisions, so an entity tag is only there or not.
fn shown(status: &Value, etag: Option<&Value>, location: Option<&Value>, body: &Value) -> Value {
    json!({ "status": status, "etag": etag.is_some(), "location": location, "body": body })
}

fn shown_alone(answer: &Answer) -> Value {
    let header = |name| answer.header(name).map(Value::from);
    let body = if answer.body.is_empty() { Value::Null } else { answer.json() };
    shown(&answer.status.into(), header("etag").as_ref(), header("location").as_ref(), &body)
}

fn shown_in_batch(answer: &Value) -> Value {
    let headers = answer["headers"].as_object().expect("headers");
    let known = ["ETag", "Location"];
    assert!(headers.keys().all(|name| known.contains(&name.as_str())), "{answer}");
    shown(&answer["status"], headers.get("ETag"), headers.get("Location"), &answer["body"])
}

/// The answers in the answer to a batch.
#[track_caller]
pub(crate) fn responses(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["responses"].as_array().expect("an array").clone()
}

/// Requests that all succeed. Plants 1 to 3 exist, and `read` is a precondition that plant 1 fulfills.
fn good_requests<'a>(read: &'a [(&'a str, &'a str)]) -> [Request<'a>; 16] {
    let key = &[("Idempotency-Key", r#""a key""#)];
    let is_new = &[("if-none-match", "*")];
    let exists = &[("IF-MATCH", "*")];
    [
        request("POST", "/plants", r#"{"id":10,"name":"Abies","more":true}"#),
        request("POST", "/plants", r#"{"id":11,"name":"Larix","tag":null}"#).with(key),
        request("POST", "/plants", r#"{"id":11,"name":"Larix"}"#).with(key),
        request("PATCH", "/plants/11", r#"{"name":"Larix decidua"}"#),
        // The answer to the repeated create is the first one, without the entity tag.
        request("POST", "/plants", r#"{"id":11,"name":"Larix"}"#).with(key),
        request("PUT", "/plants/12", r#"{"name":"Taxus","id":12}"#).with(is_new),
        request("PUT", "/plants/12", r#"{"name":"Taxus"}"#).with(exists),
        request("PUT", "/plants/10", r#"{"name":"Picea","tag":"P"}"#),
        request("PATCH", "/plants/10", r#"{"tag":null}"#),
        request("PATCH", "/plants/10", "{}"),
        request("PATCH", "/plants/1", r#"{"tag":"S"}"#).with(read),
        request("DELETE", "/plants/2", "").with(exists),
        request("POST", "/plants", r#"{"id":2,"name":"Salix alba"}"#),
        request("DELETE", "/plants/3", ""),
        request("PUT", "/plants/%2D13?", r#"{"name":"Ilex"}"#),
        request("PUT", "/plants/-9223372036854775808", r#"{"name":"植物 🌱\u0041"}"#),
    ]
}

#[test]
fn each_request_sees_those_before_it_and_has_the_answer_that_it_has_alone() {
    let servers = [TestServer::start(), TestServer::start()];
    let [alone, batched] = servers.each_ref().map(TestServer::client);
    let [of_alone, of_batched] = [&alone, &batched].map(|client| {
        let created = client.create(1, "Rosa", Some("R"));
        client.create(2, "Salix", None).assert_plant("Salix", None);
        client.create(3, "Acer", None).assert_plant("Acer", None);
        format!("\"{}\"", created.revision())
    });
    let answers = good_requests(&[("if-match", &of_alone)]).map(|request| request.send(&alone));
    let batch = good_requests(&[("if-match", &of_batched)]).map(|request| request.json());
    let responses = responses(&batched.batch(&batch));
    let in_batch: Vec<_> = responses.iter().map(shown_in_batch).collect();
    assert_eq!(in_batch, answers.each_ref().map(shown_alone));

    assert_eq!(listed(&batched), listed(&alone));
    let changes = |client| all_events(client, "").iter().map(|it| it.change()).collect::<Vec<_>>();
    assert_eq!(changes(&batched), changes(&alone));
    // The entity tags are those of the plants.
    for (place, id) in [(6, 12), (9, 10), (10, 1), (12, 2), (14, -13), (15, i64::MIN)] {
        let read = batched.read(id);
        assert_eq!(responses[place]["headers"]["ETag"].as_str(), read.header("etag"), "{read:?}");
    }
}

/// Asserts that a batch with this request between two good ones fails as the request fails alone, and changes nothing.
#[track_caller]
fn assert_fails_as_alone(client: &Client, wrong: &Request<'_>, status: u16, number: i32) {
    let (plants, cursor) = (listed(client), newest_cursor(client));
    let case = wrong.json();
    let message = wrong.send(client).assert_error(status, number);
    let before = request("PUT", "/plants/50", r#"{"name":"Before"}"#).json();
    let after = request("PUT", "/plants/51", r#"{"name":"After"}"#).json();
    let refusal = client.batch(&[&before, &case, &after]).assert_error(status, number);
    if number == 4004 {
        assert!(refusal.starts_with("requests[1]: "), "{refusal}");
    } else {
        assert_eq!(refusal, format!("requests[1]: {message}"));
    }
    assert_eq!((listed(client), newest_cursor(client)), (plants, cursor), "{case}");
}

#[test]
fn a_request_that_fails_alone_fails_the_batch_in_the_same_way_and_nothing_changes() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    let too_large = body_of(2, super::BODY_MAX_BYTES + 1);
    let of = |headers: &'static [(&'static str, &'static str)]| {
        move |method, path, body| request(method, path, body).with(headers)
    };
    let plant = r#"{"name":"Salix"}"#;
    for (wrong, status, number) in [
        (request("POST", "/plants", r#"{"id":2,"name":"\ud800"}"#), 400, 1001),
        (request("POST", "/plants", &too_large), 400, 1003),
        (request("POST", "/plants", r#"{"id":2}"#), 400, 1004),
        (request("POST", "/plants", r#"{"id":2.0,"name":7,"tag":{}}"#), 400, 1004),
        (request("POST", "/plants", r#"{"id":2,"name":"a","name":"b"}"#), 400, 1004),
        (request("PUT", "/plants/2", "[]"), 400, 1004),
        (request("PUT", "/plants/2", r#"{"name":"a\u0000"}"#), 400, 1005),
        (request("PUT", "/plants/2", r#"{"name":" ","tag":"","id":3}"#), 400, 1005),
        (request("PUT", "/plants/+2", plant), 400, 1006),
        (request("PUT", "/plants/002", plant), 400, 1006),
        (request("PUT", "/plants/%32x", plant), 400, 1006),
        (request("DELETE", "/plants/9223372036854775808", ""), 400, 1006),
        (request("DELETE", "/plants/1?x=1", ""), 400, 1006),
        (of(&[("Idempotency-Key", "x")])("POST", "/plants", "{}"), 400, 1007),
        (of(&[("If-Match", "1")])("PUT", "/plants/1", "{}"), 400, 1007),
        (of(&[("If-None-Match", "\"1")])("DELETE", "/plants/1", ""), 400, 1007),
        (request("POST", "/plants", r#"{"id":1,"name":"Salix"}"#), 400, 3001),
        (request("PATCH", "/plants/2", "{}"), 404, 3002),
        (of(&[("If-Match", "*")])("DELETE", "/plants/2", ""), 404, 3002),
        (of(&[("If-Match", "*")])("PUT", "/plants/2", plant), 412, 3003),
        (of(&[("If-Match", "W/\"1\", \"0\"")])("PATCH", "/plants/1", "{}"), 412, 3003),
        (of(&[("If-None-Match", "*")])("PUT", "/plants/1", plant), 412, 3003),
        (request("DELETE", "/plants/1/", ""), 404, 4004),
        (request("DELETE", "/nowhere?x", ""), 404, 4004),
    ] {
        assert_fails_as_alone(&client, &wrong, status, number);
    }
}
