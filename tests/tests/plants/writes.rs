//! POST, PUT, PATCH and DELETE of one plant: their answers, and the resulting plant.

use plantd_tests::{TestServer, plant_body};

use super::assert_same;

/// The ends of int64, the ids around zero, and an id that a JavaScript number cannot represent.
const EDGE_IDS: [i64; 8] =
    [i64::MIN, i64::MIN + 1, -1, 0, 1, 9_007_199_254_740_993, i64::MAX - 1, i64::MAX];

#[test]
fn a_create_answers_200_with_name_and_tag_and_nothing_else() {
    let server = TestServer::start();
    let client = server.client();
    let mut last = 0;
    for (id, body, tag) in [
        (1, r#"{"id":1,"name":"Rosa","tag":"Rosaceae"}"#, Some("Rosaceae")),
        (2, r#"{"id":2,"name":"Rosa"}"#, None),
        (3, r#"{"id":3,"name":"Rosa","tag":null}"#, None),
    ] {
        let answer = client.create_from(body);
        answer.assert_plant("Rosa", tag);
        assert_eq!(answer.header("location"), Some(format!("/plants/{id}").as_str()));
        assert!(answer.revision() > last, "{answer:?}");
        last = answer.revision();
        let read = client.read(id);
        read.assert_new_plant(id, "Rosa", tag);
        assert_eq!(read.header("etag"), answer.header("etag"));
    }
}

#[test]
fn every_int64_can_be_created_replaced_patched_and_deleted() {
    let server = TestServer::start();
    let client = server.client();
    for id in EDGE_IDS {
        let message = client.read(id).assert_error(404, 3002);
        assert!(message.contains(&id.to_string()), "{message}");
        client.patch(id, r#"{"name":"Rosa"}"#).assert_error(404, 3002);
        client.delete(id).assert_error(404, 3002);
        let name = format!("plant {id}");
        let created = client.create(id, &name, None);
        created.assert_plant(&name, None);
        assert_eq!(created.header("location"), Some(format!("/plants/{id}").as_str()));
        client.delete(id).assert_no_content();
        client.put(id, &plant_body(id, &name, None)).assert_made(&name, None);
        client.patch(id, r#"{"tag":"x"}"#).assert_plant(&name, Some("x"));
    }
    for id in EDGE_IDS {
        let before = client.read(id);
        before.assert_new_plant(id, &format!("plant {id}"), Some("x"));
        let message = client.create(id, "another", None).assert_error(400, 3001);
        assert!(message.contains(&format!("id {id} ")), "{message}");
        assert_same(&before, &client.read(id), "a create of an id that is taken");
        // A replacement without a tag removes the tag.
        let put = client.put(id, r#"{"name":"Abies"}"#);
        put.assert_plant("Abies", None);
        assert!(put.revision() > before.revision(), "{put:?}");
        client.read(id).assert_new_plant(id, "Abies", None);
        client.delete(id).assert_no_content();
        client.read(id).assert_error(404, 3002);
    }
}

#[test]
fn a_patch_changes_the_members_that_it_has() {
    let server = TestServer::start();
    let client = server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    let mut last = client.read(1).revision();
    for (body, name, tag) in [
        (r#"{"tag":"Rosaceae"}"#, "Rosa", Some("Rosaceae")),
        (r#"{"name":"Rosa canina"}"#, "Rosa canina", Some("Rosaceae")),
        (r#"{"tag":null}"#, "Rosa canina", None),
        (r#"{"name":"Abies","tag":"Pinaceae"}"#, "Abies", Some("Pinaceae")),
        (r#"{"name":"Picea","tag":null}"#, "Picea", None),
        (r#"{"id":1,"tag":"\u0078"}"#, "Picea", Some("x")),
        (r#"{"more":{"tag":null},"tag":"y","":1}"#, "Picea", Some("y")),
    ] {
        let patched = client.patch(1, body);
        assert_eq!(patched.status, 200, "{body}: {patched:?}");
        patched.assert_plant(name, tag);
        assert!(patched.revision() > last, "{body}: {patched:?}");
        last = patched.revision();
        let read = client.read(1);
        read.assert_new_plant(1, name, tag);
        assert_eq!(read.revision(), last, "{body}");
    }
}

#[test]
fn a_no_op_keeps_the_revision() {
    let server = TestServer::start();
    let client = server.client();
    let made = client.put(1, r#"{"name":"Rosa"}"#);
    made.assert_made("Rosa", None);
    for (method, body) in [
        ("PUT", r#"{"name":"Rosa"}"#),
        ("PUT", r#"{"id":1,"name":"Rosa","tag":null}"#),
        ("PUT", r#" {"tag":null,"name":"\u0052osa","more":[null]} "#),
        ("PATCH", "{}"),
        ("PATCH", r#"{"name":"Rosa"}"#),
        ("PATCH", r#"{"tag":null}"#),
        ("PATCH", r#"{"id":1}"#),
        ("PATCH", r#"{"id":1,"name":"\u0052osa","tag":null}"#),
        ("PATCH", r#"{"height":7,"Name":null,"names":[]}"#),
    ] {
        let headers = [("content-type", "application/json")];
        let answer = client.send(method, "/plants/1", &headers, body);
        assert_eq!(answer.status, 200, "{method} {body}: {answer:?}");
        answer.assert_plant("Rosa", None);
        assert_eq!(answer.header("etag"), made.header("etag"), "{method} {body}");
    }
    // A write would have taken a revision.
    client.create(2, "Abies", None).assert_next_revision_after(&made);
}
