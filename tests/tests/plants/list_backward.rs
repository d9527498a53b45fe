//! `GET /plants?before=`: pages before an id, and the links between pages.

use plantd_tests::{Answer, Client, NewPlant, TestServer};

use super::{encode, plant_all, send};

#[test]
fn a_page_before_an_id_has_the_last_plants_below_it_in_ascending_order() {
    let ids = [i64::MIN, i64::MIN + 1, -7, -1, 0, 1, 7, i64::MAX - 1, i64::MAX];
    let plants = ids.map(|id| NewPlant::new(id, "Rosa", None));
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    for before in [i64::MIN, i64::MIN + 1, -8, -7, 0, 2, 7, 8, i64::MAX - 1, i64::MAX] {
        let below: Vec<_> = plants.iter().filter(|plant| plant.id < before).cloned().collect();
        for limit in 1..=ids.len() + 1 {
            let page = client.list(&format!("before={before}&limit={limit}"));
            assert_eq!(page.plants(), below[below.len().saturating_sub(limit)..], "{page:?}");
            assert_eq!(page.total_count(), Some(ids.len()), "{page:?}");
            assert_eq!(page.previous_page().is_some(), limit < below.len(), "{page:?}");
            let next = client.get(&page.next_page().expect("a next page"));
            let above: Vec<_> = plants.iter().filter(|plant| plant.id >= before).cloned().collect();
            assert_eq!(next.plants(), above[..limit.min(above.len())], "{next:?}");
        }
    }
}

/// Walks to the last page and back by links alone. Returns the plants of both ways, each in ascending order.
#[track_caller]
fn walk(client: &Client, query: &str) -> [Vec<NewPlant>; 2] {
    let forward = client.list_pages(query);
    assert_eq!(forward[0].previous_page(), None, "{query}");
    // The last page has no link to a next one, so the walk back begins with it.
    let mut back: Vec<Answer> = vec![forward[forward.len() - 1].clone()];
    while let Some(previous) = back.last().and_then(Answer::previous_page) {
        back.push(client.get(&previous));
        assert!(back.len() <= forward.len() + 1, "{query}: {previous} leads nowhere");
    }
    let plants =
        |pages: &mut dyn Iterator<Item = &Answer>| pages.flat_map(Answer::plants).collect();
    [plants(&mut forward.iter()), plants(&mut back.iter().rev())]
}

#[test]
fn the_links_alone_lead_to_the_last_page_and_back_through_all_plants_that_match() {
    let plants: Vec<_> = (-20..80)
        .map(|id| {
            let tag = ["a&b", "c"][usize::from(id % 3 == 0)];
            NewPlant::new(id * 7, if id % 2 == 0 { "Rosa é" } else { "Salix" }, Some(tag))
        })
        .collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let (tag, name) = (format!("tag={}", encode("a&b")), format!("name={}", encode("SA É")));
    for filter in [String::new(), tag.clone(), name.clone(), format!("{tag}&{name}")] {
        let matches = |plant: &&NewPlant| {
            (!filter.contains("tag") || plant.tag.as_deref() == Some("a&b"))
                && (!filter.contains("name") || plant.name == "Rosa é")
        };
        let wanted: Vec<_> = plants.iter().filter(matches).cloned().collect();
        for limit in [1, 7, wanted.len() - 1, wanted.len(), 1000] {
            let walked = walk(&client, &format!("limit={limit}&{filter}"));
            assert_eq!(walked, [wanted.clone(), wanted.clone()], "{limit} {filter}");
        }
    }
}

#[test]
fn a_page_without_plants_leads_on_in_both_directions() {
    let server = TestServer::start();
    let client = server.client();
    let plants = [NewPlant::new(1, "Rosa", None), NewPlant::new(9, "Rosa", None)];
    plant_all(&client, &plants);
    let first = client.list("before=1");
    assert_eq!((first.plants(), first.previous_page()), (vec![], None));
    assert_eq!(client.get(&first.next_page().expect("a next page")).plants(), plants);
    let last = client.list("after=9");
    assert_eq!((last.plants(), last.next_page()), (vec![], None));
    assert_eq!(client.get(&last.previous_page().expect("a page before")).plants(), plants);
    let nowhere = client.list("before=9223372036854775807&name=nowhere");
    assert_eq!((nowhere.plants(), nowhere.previous_page()), (vec![], None));
    // HEAD has no links, because they follow from the plants.
    assert_eq!(client.send("HEAD", "/plants?before=9", &[], "").header("link"), None);
}

#[test]
fn before_is_an_id_and_excludes_after() {
    let server = TestServer::start();
    let ids = ["", "+7", "007", "-0", "7.0", "x", "%207", "9223372036854775808", "7,8"];
    let wrong = ids.map(|id| format!("before={id}"));
    let others = ["before=1&before=1", "before=7&after=1", "after=1&before=7", "before"];
    for query in wrong.iter().map(String::as_str).chain(others) {
        let message =
            send(&server, &format!("GET /plants?{query}"), "", "").assert_error(400, 1006);
        assert!(message.contains("before"), "{query}: {message}");
    }
    send(&server, "GET /plants/export?before=7", "", "").assert_error(400, 1006);
}
