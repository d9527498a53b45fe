//! `GET /plants/{id}/history` and `GET /plants/{id}?revision=`: the changes of a plant, and its earlier versions.

use plantd_tests::{
    Answer, Client, Launch, TestServer, all_events, create_token, replacement_body, revoke_token,
    wait_until,
};
use serde_json::{Value, json};

/// The history of a plant on one page, without the times. Asserts the shape of each change.
#[track_caller]
fn history(client: &Client, id: i64) -> Vec<Value> {
    changes(&client.get(&format!("/plants/{id}/history?limit=1000")))
}

/// The changes on a page, without their times.
#[track_caller]
fn changes(page: &Answer) -> Vec<Value> {
    assert_eq!(page.status, 200, "{page:?}");
    let mut changes = page.json().as_array().expect("an array").clone();
    for change in &mut changes {
        let members = change.as_object_mut().expect("an object");
        let at = members.remove("at").expect("a time");
        assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
    }
    changes
}

/// A change by a token; `plant` is null after a deletion.
fn change(revision: u64, kind: &str, by: &str, plant: Value) -> Value {
    let mut change = json!({ "revision": revision.to_string(), "kind": kind, "by": by });
    if !plant.is_null() {
        change["plant"] = plant;
    }
    change
}

#[test]
fn a_history_has_each_change_with_its_author_newest_first_and_outlives_plant_and_token() {
    let mut server = TestServer::start();
    let [gardener, other] = ["gardener", "other"].map(|name| {
        let token = create_token(server.data(), &["--name", name]);
        let client = server.client().with_token(&token);
        wait_until("the token to be in force", || client.get("/plants").status == 200);
        client
    });
    let created = gardener.create(7, "Rosa", Some("R")).revision();
    let put = other.put(7, &replacement_body("Rosa canina", None)).revision();
    other.patch(7, "{}").assert_plant("Rosa canina", None);
    gardener.patch(7, r#"{"name":7}"#).assert_error(400, 1004);
    let patched = gardener.patch(7, r#"{"tag":"S"}"#).revision();
    other.create(8, "Salix", None).assert_plant("Salix", None);
    other.delete(7).assert_no_content();
    let deleted = history(&other, 7)[0]["revision"].as_str().map(str::parse::<u64>);
    let deleted = deleted.expect("a revision").expect("a number");
    assert!(deleted > patched, "{deleted}");
    let again = gardener.create(7, "Rosa", None).revision();

    let wanted = [
        change(again, "created", "gardener", json!({"name": "Rosa"})),
        change(deleted, "deleted", "other", Value::Null),
        change(patched, "updated", "gardener", json!({"name": "Rosa canina", "tag": "S"})),
        change(put, "updated", "other", json!({"name": "Rosa canina"})),
        change(created, "created", "gardener", json!({"name": "Rosa", "tag": "R"})),
    ];
    assert_eq!(history(&server.client(), 7), wanted);
    let of_7 = all_events(&server.client(), "").into_iter().filter(|event| event.id == 7);
    let by: Vec<_> = of_7.map(|event| event.by.expect("a name")).collect();
    assert_eq!(by, ["gardener", "other", "gardener", "other", "gardener"]);
    other.delete(7).assert_no_content();
    revoke_token(server.data(), &["gardener"]);
    wait_until("the token to be revoked", || gardener.get("/token").status == 401);
    for round in 0..2 {
        let known = history(&server.client(), 7);
        assert_eq!((known[0]["kind"].as_str(), &known[1..]), (Some("deleted"), &wanted[..]));
        if round == 0 {
            server.kill();
            server.restart();
        }
    }
    assert_eq!(history(&server.client(), 8).len(), 1);
}

#[test]
fn each_version_can_be_read_by_its_revision_and_any_other_revision_is_410() {
    let mut server = TestServer::start();
    let client = server.client();
    let created = client.create(7, "Rosa", Some("R")).revision();
    let put = client.put(7, &replacement_body("Acer", None)).revision();
    let of_another = client.create(8, "Salix", None).revision().to_string();
    client.delete(7).assert_no_content();
    let deleted = history(&client, 7)[0]["revision"].as_str().expect("a text").to_owned();
    let last = client.create(7, "Ilex", None).revision();
    client.delete(7).assert_no_content();
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    let client = server.client();
    client.read(7).assert_error(404, 3002);
    for (revision, name, tag) in
        [(created, "Rosa", Some("R")), (put, "Acer", None), (last, "Ilex", None)]
    {
        let path = format!("/plants/7?revision={revision}");
        let current = format!("\"{revision}\"");
        let with = |header, tag| client.send("GET", &path, &[(header, tag)], "");
        for version in [client.get(&path), with("if-none-match", "\"0\"")] {
            version.assert_new_plant(7, name, tag);
            assert_eq!(version.revision(), revision);
        }
        let unchanged = with("if-none-match", &current);
        assert_eq!((unchanged.status, unchanged.revision()), (304, revision));
        with("if-match", "\"0\"").assert_error(412, 3003);
        assert_eq!(client.send("HEAD", &path, &[], "").revision(), revision);
    }
    for revision in [&*deleted, &of_another, "9223372036854775807", "18446744073709551615"] {
        let path = format!("/plants/7?revision={revision}");
        let message = client.get(&path).assert_error(410, 3005);
        assert!(message.contains(revision), "{message}");
    }
    client.get(&format!("/plants/9?revision={created}")).assert_error(410, 3005);
    client.get("/plants/9/history").assert_error(404, 3002);
    for before in [&*of_another, "18446744073709551615"] {
        client.get(&format!("/plants/7/history?before={before}")).assert_error(410, 3005);
    }
}

#[test]
fn a_history_whose_beginning_is_forgotten_says_so_on_its_last_page() {
    let mut server = TestServer::start_with(Launch::new().keep_only_events("2"));
    let put = |server: &TestServer, name: &str| {
        server.client().put(7, &replacement_body(name, None)).revision()
    };
    // A store on disk forgets when it closes, at the latest, and may keep one event more.
    let forget = |server: &mut TestServer, forgotten: u64| {
        assert_eq!(server.terminate().code(), Some(0));
        server.restart();
        let path = format!("/plants/7?revision={forgotten}");
        wait_until("a change to be forgotten", || server.client().get(&path).status == 410);
    };
    let other = server.client().create(8, "Salix", None).revision();
    let complete = server.client().get("/plants/8/history");
    assert_eq!(complete.header("x-history-complete"), None);
    let first = put(&server, "A");
    for name in ["B", "C", "D", "E"] {
        put(&server, name);
    }
    forget(&mut server, first);
    let mut page = server.client().get("/plants/7/history?limit=1");
    while let Some(next) = page.next_changes() {
        assert_eq!(page.header("x-history-complete"), None, "{page:?}");
        page = server.client().get(&next);
        assert_eq!(changes(&page).len(), 1);
    }
    assert_eq!(page.header("x-history-complete"), Some("false"), "{page:?}");

    // The current state of a plant is a version, though its change is forgotten.
    let none = server.client().get("/plants/8/history");
    assert_eq!((changes(&none), none.header("x-history-complete")), (vec![], Some("false")));
    let version = server.client().get(&format!("/plants/8?revision={other}"));
    version.assert_new_plant(8, "Salix", None);
    server.client().delete(8).assert_no_content();
    let second = put(&server, "F");
    for name in ["G", "H", "I"] {
        put(&server, name);
    }
    forget(&mut server, second);
    server.client().get("/plants/8/history").assert_error(404, 3002);
}
