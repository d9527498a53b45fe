//! Pages of a history, and refused parameters.

use plantd_tests::{Answer, TestServer, raw_head, replacement_body};
use serde_json::Value;

use super::history::{changes, history};
use super::send;

const PAGE_DEFAULT_CHANGES: usize = 100;

#[test]
fn following_the_links_gives_each_change_once_on_pages_of_any_size() {
    const CHANGES: usize = 130;
    let server = TestServer::start();
    let client = server.client();
    for number in 0..CHANGES {
        client.put(7, &replacement_body(&format!("Rosa {number}"), None));
        // Changes of other plants lie between.
        client.put(i64::try_from(number).expect("small") + 100, &replacement_body("Salix", None));
    }
    let of_another = client.read(100).revision().to_string();
    let all = history(&client, 7);
    assert_eq!(all.len(), CHANGES);
    let names: Vec<_> = all.iter().map(|change| change["plant"]["name"].clone()).collect();
    assert_eq!(names.first(), Some(&Value::from("Rosa 129")));
    assert_eq!(changes(&client.get("/plants/7/history")), all[..PAGE_DEFAULT_CHANGES]);
    for limit in [1, 7, CHANGES - 1, CHANGES, CHANGES + 1] {
        let mut pages: Vec<Answer> = vec![client.get(&format!("/plants/7/history?limit={limit}"))];
        while let Some(next) = pages.last().and_then(Answer::next_changes) {
            assert!(
                next.starts_with(&format!("/plants/7/history?limit={limit}&before=")),
                "{next}"
            );
            pages.push(client.get(&next));
        }
        assert_eq!(pages.len(), CHANGES.div_ceil(limit), "{limit}");
        assert_eq!(pages.iter().flat_map(changes).collect::<Vec<_>>(), all);
        assert!(pages.iter().all(|page| page.header("x-history-complete").is_none()));
    }
    let oldest = all[CHANGES - 1]["revision"].as_str().expect("a text");
    let before = client.get(&format!("/plants/7/history?before={oldest}"));
    assert_eq!((changes(&before), before.next_changes()), (vec![], None));
    assert_eq!(before.header("x-history-complete"), None);
    for before in ["18446744073709551615", &of_another] {
        client.get(&format!("/plants/7/history?before={before}")).assert_error(410, 3005);
    }
}

#[test]
fn a_wrong_parameter_of_a_history_or_a_version_is_1006_and_an_unknown_plant_404_or_410() {
    let server = TestServer::start();
    server.client().create(7, "Rosa", None).assert_plant("Rosa", None);
    let revisions =
        ["", "0", "-1", "+1", "%2B1", "01", "1.0", "x", "%221%22", "18446744073709551616"];
    let limits =
        ["", "0", "1001", "-1", "01", "x"].map(|limit| format!("/7/history?limit={limit}"));
    let befores = revisions.map(|before| format!("/7/history?before={before}"));
    let versions = revisions.map(|revision| format!("/7?revision={revision}"));
    let others = [
        "/7/history?after=1",
        "/7/history?revision=1",
        "/7/history?limit=1&limit=1",
        "/7/history?before=1&before=1",
        "/7?revision=1&revision=1",
        "/7?before=1",
        "/007/history",
        "/+7/history",
        "/-0/history",
        "/x/history",
        "/9223372036854775808/history",
        "/7%2Fhistory",
        "/import/history",
    ]
    .map(str::to_owned);
    for path in limits.iter().chain(&befores).chain(&versions).chain(&others) {
        send(&server, &format!("GET /plants{path}"), "", "").assert_error(400, 1006);
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        let path = format!("{method} /plants/7?revision=1");
        send(&server, &path, super::JSON, "{}").assert_error(400, 1006);
        let path = format!("{method} /plants/7/history");
        let refused = send(&server, &path, super::JSON, "{}");
        refused.assert_error(405, 4005);
        assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    for path in ["/8/history", "/-7/history?limit=1"] {
        send(&server, &format!("GET /plants{path}"), "", "").assert_error(404, 3002);
    }
    for path in ["/8/history?before=1", "/8?revision=1"] {
        send(&server, &format!("GET /plants{path}"), "", "").assert_error(410, 3005);
    }
    for path in ["/7/history/", "//history", "/7//history", "/7/History"] {
        send(&server, &format!("GET /plants{path}"), "", "").assert_error(404, 4004);
    }
    let mut connection = server.connect();
    connection.assert_head_is_like_get("/plants/7/history", "");
    connection.send(raw_head("OPTIONS /plants/7/history", ""));
    assert_eq!(connection.receive().header("allow"), Some("GET, HEAD, OPTIONS"));
}
