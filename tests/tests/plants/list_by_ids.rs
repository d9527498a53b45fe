//! `GET /plants?ids=`: the plants with these ids.

use plantd_tests::{NewPlant, TestServer};

use super::{plant_all, send};

const IDS_MAX: usize = 100;

#[test]
fn the_plants_with_these_ids_come_in_ascending_order_and_missing_ones_are_left_out() {
    let ids = [i64::MIN, -1, 0, 7, 8, i64::MAX];
    let plants = ids.map(|id| NewPlant::new(id, &format!("Rosa {id}"), Some("R")));
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    for (query, wanted) in [
        ("7", &[3][..]),
        ("8,7,0", &[2, 3, 4]),
        ("7,7,7", &[3]),
        ("6,7,9", &[3]),
        ("6", &[]),
        ("7%2C8", &[3, 4]),
        ("9223372036854775807,-1,-9223372036854775808", &[0, 1, 5]),
    ] {
        let answer = client.list(&format!("ids={query}"));
        let wanted: Vec<_> = wanted.iter().map(|place: &usize| plants[*place].clone()).collect();
        assert_eq!(answer.plants(), wanted, "{query}");
        assert_eq!((answer.header("link"), answer.total_count()), (None, None), "{answer:?}");
        assert!(!answer.events_after().is_empty());
    }
    client.delete(7).assert_no_content();
    assert_eq!(client.list("ids=7,8").plants(), plants[4..5]);
    let head = client.send("HEAD", "/plants?ids=8", &[], "");
    assert_eq!((head.status, head.body.len()), (200, 0), "{head:?}");
}

#[test]
fn there_are_1_to_100_ids_and_no_other_parameter() {
    let plants: Vec<_> = (0..=100).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    let server = TestServer::start();
    plant_all(&server.client(), &plants);
    let ids = |count: usize| {
        let ids: Vec<String> = (0..count).map(|id| id.to_string()).collect();
        format!("ids={}", ids.join(","))
    };
    assert_eq!(server.client().list(&ids(IDS_MAX)).plants(), plants[..IDS_MAX]);
    let too_many = format!("ids={}7", "7,".repeat(IDS_MAX));
    let wrong =
        ["", ",", "7,", ",7", "7,,8", "+7", "007", "-0", "7;8", "7 8", "x", "9223372036854775808"];
    let wrong = wrong.map(|ids| format!("ids={}", ids.replace(' ', "%20")));
    let more = ["limit=1", "after=1", "before=1", "tag=x", "name=x", "ids=8", "revision=1"];
    let more = more.map(|more| format!("ids=7&{more}"));
    for query in wrong.iter().chain(&more).chain([&ids(IDS_MAX + 1), &too_many]) {
        let answer = send(&server, &format!("GET /plants?{query}"), "", "");
        let message = answer.assert_error(400, 1006);
        assert!(message.contains("ids") || query.contains("revision"), "{query}: {message}");
    }
    send(&server, "GET /plants/export?ids=7", "", "").assert_error(400, 1006);
}
