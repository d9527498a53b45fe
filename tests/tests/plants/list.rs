//! `GET /plants`: the plants on a page, the links in both directions, filters, and lists by ids.

use plantd_tests::{Answer, Client, NewPlant, TestServer};

use super::{TEXT_MAX_CHARACTERS, encode, plant_all};

const IDS_MAX: usize = 100;

#[test]
fn an_empty_store_lists_an_empty_array() {
    let server = TestServer::start();
    for query in ["", "limit=1", "after=-5", "tag=x", "name=x", "tag=x&name=x"] {
        let answer = server.client().list(query);
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"[]"[..]), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
        assert_eq!(answer.next_page(), None);
    }
    assert_eq!(server.client().list("").total_count(), Some(0));
}

#[test]
fn a_page_has_the_plants_after_or_before_an_id_in_the_order_of_ids_and_at_most_limit() {
    let ids = [1, -7, i64::MAX, -1, i64::MIN, 7, 0, i64::MAX - 1, i64::MIN + 1];
    let server = TestServer::start();
    let client = server.client();
    let mut plants = Vec::new();
    for id in ids {
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
        plants.push(NewPlant::new(id, "Rosa", None));
        plants.sort();
        // An acknowledged plant is listed at once.
        assert_eq!(client.list("").plants(), plants);
    }
    for id in [i64::MIN, i64::MIN + 1, i64::MIN + 2, -8, -7, 0, 6, 8, i64::MAX - 1, i64::MAX] {
        let (below, above): (Vec<_>, Vec<_>) =
            plants.iter().filter(|plant| plant.id != id).cloned().partition(|it| it.id < id);
        for limit in 1..=ids.len() + 1 {
            let after = client.list(&format!("after={id}&limit={limit}"));
            assert_eq!(after.plants(), above[..limit.min(above.len())], "{after:?}");
            assert_eq!(after.next_page().is_some(), limit < above.len(), "{after:?}");
            let before = client.list(&format!("before={id}&limit={limit}"));
            assert_eq!(before.plants(), below[below.len().saturating_sub(limit)..], "{before:?}");
            assert_eq!(before.previous_page().is_some(), limit < below.len(), "{before:?}");
            // The plant with the id itself comes next.
            let next = client.get(&before.next_page().expect("a next page")).plants();
            let from: Vec<_> = plants.iter().filter(|plant| plant.id >= id).cloned().collect();
            assert_eq!(next, from[..limit.min(from.len())], "{before:?}");
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
    let tag = |id| Some(if id % 3 == 0 { "c" } else { "a&b" });
    let plants: Vec<_> = (-20..80).map(|id| NewPlant::new(id * 7, "Rosa", tag(id))).collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let tagged = plants.iter().filter(|plant| plant.tag.as_deref() == Some("a&b"));
    let tagged: Vec<_> = tagged.cloned().collect();
    for (filter, wanted) in [("", &plants), ("&tag=a%26b", &tagged)] {
        for limit in [1, 7, wanted.len() - 1, wanted.len(), 1000] {
            let walked = walk(&client, &format!("limit={limit}{filter}"));
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
fn a_search_finds_names_that_contain_a_text_by_full_case_folding() {
    let longest = "İ".repeat(TEXT_MAX_CHARACTERS);
    let plain =
        ["Rosa canina", "rosa", "ROSA", "roSa Rugosa", "Ros", "Aster", "Rose\u{301}", "ROSÉ"];
    let turkish = ["İstanbul", "istanbul", "i̇stanbul", "ISTANBUL", "ısırgan", "IŞGIN"];
    let german = ["ẞ", "ß", "SS", "Straße", "STRASSE", "STRAẞE"];
    let greek = ["ΟΔΟΣ", "οδος", "οδοσ", "ΟΔΟΣ ΡΟΔΟΣ", "Σ", "ΑΣΤΕΡΙ", "ας", "Ω", "ω"];
    let others = ["ǅ", "Ǆ", "ǆ", "K (Kelvin)", "k", "100%", "a_b", ".*", " edges ", "\u{2028}x"];
    let groups: [&[&str]; 6] = [&plain, &turkish, &german, &greek, &others, &["植物 🌱", &longest]];
    let names = groups.concat();
    let queries = [
        "rosa", "ROSA", "oS", "a c", " ", "é", "É", "e\u{301}", "İ", "i̇", "i", "I", "ı", "ẞ", "ß",
        "ss", "SS", "ΟΔΟΣ", "οδος", "οδοσ", "Σ", "σ", "ς", "ΟΣ Ρ", "ΑΣ", "ας", "ασ", "ǅ", "ǆ", "K",
        "k", "Ω", "ω", "%", "_", ".*", "  ", "s ", "\u{2028}", "🌱", "物 🌱", "nowhere", &longest,
    ];
    let plants: Vec<_> =
        (0..).zip(names).map(|(id, name)| NewPlant::new(id, name, Some("rosa"))).collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    for query in queries {
        let holds = |name: &str| folded(name).contains(&folded(query));
        let wanted: Vec<_> = plants.iter().filter(|plant| holds(&plant.name)).cloned().collect();
        for limit in [1, 7, 1000] {
            let listed = client.list_all(&format!("name={}&limit={limit}", encode(query)));
            assert_eq!(listed, wanted, "{query:?}");
        }
    }
}

/// Unicode's full case folding of the letters in these tests.
fn folded(text: &str) -> String {
    let mut folded = String::new();
    for letter in text.chars() {
        match letter {
            'ς' => folded.push('σ'),
            'ß' | 'ẞ' => folded.push_str("ss"),
            _ => folded.extend(letter.to_lowercase()),
        }
    }
    folded
}

#[test]
fn the_total_count_with_a_tag_is_that_of_its_plants_and_with_a_name_there_is_none() {
    let server = TestServer::start();
    let client = server.client();
    let plants = [(1, Some("a")), (2, Some("a")), (3, None)];
    plant_all(&client, &plants.map(|(id, tag)| NewPlant::new(id, "Rosa", tag)));
    for (filter, total) in [("", 3), ("&tag=a", 2), ("&tag=nowhere", 0)] {
        for page in ["limit=1", "limit=1&after=1", "limit=1&after=9"] {
            for method in ["GET", "HEAD"] {
                let answer = client.send(method, &format!("/plants?{page}{filter}"), &[], "");
                assert_eq!(answer.total_count(), Some(total), "{page}{filter}: {answer:?}");
            }
        }
    }
    for query in ["name=Rosa", "name=Rosa&tag=a"] {
        assert_eq!(client.list(query).total_count(), None, "{query}");
    }
}

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
fn a_list_by_ids_has_1_to_100_of_them() {
    let plants: Vec<_> = (0..=100).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    let server = TestServer::start();
    plant_all(&server.client(), &plants);
    let ids = |count: usize| {
        let ids: Vec<String> = (0..count).map(|id| id.to_string()).collect();
        server.client().list(&format!("ids={}", ids.join(",")))
    };
    assert_eq!(ids(IDS_MAX).plants(), plants[..IDS_MAX]);
    ids(IDS_MAX + 1).assert_error(400, 1006);
}
