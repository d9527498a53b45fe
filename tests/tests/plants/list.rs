//! `GET /plants`: pages, filters, and refused parameters.

use plantd_tests::{Answer, NewPlant, TestServer};

use super::{TEXT_MAX_CHARACTERS, encode, nasty_texts, parameters, plant_all, send};

const PAGE_DEFAULT_PLANTS: usize = 100;

const PAGE_MAX_PLANTS: usize = 1000;

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
fn a_page_has_the_plants_after_an_id_in_the_order_of_ids_and_at_most_limit() {
    let all = [1, -7, i64::MAX, -1, i64::MIN, 7, 0, i64::MAX - 1, i64::MIN + 1];
    let server = TestServer::start();
    let client = server.client();
    let mut plants = Vec::new();
    for id in all {
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
        plants.push(NewPlant::new(id, "Rosa", None));
        plants.sort();
        // An acknowledged plant is listed at once.
        assert_eq!(client.list("").plants(), plants);
    }
    for after in [i64::MIN, i64::MIN + 1, i64::MIN + 2, -8, -7, -1, 0, 6, i64::MAX - 1, i64::MAX] {
        let behind: Vec<_> = plants.iter().filter(|plant| plant.id > after).cloned().collect();
        for limit in 1..=all.len() + 1 {
            let answer = client.list(&format!("after={after}&limit={limit}"));
            assert_eq!(answer.plants(), behind[..limit.min(behind.len())]);
            assert_eq!(answer.total_count(), Some(all.len()), "{answer:?}");
            assert_eq!(answer.next_page().is_some(), limit < behind.len(), "{answer:?}");
        }
    }
}

#[test]
fn a_page_has_100_plants_by_default_and_at_most_1000() {
    let plants: Vec<_> = (1..=1001).map(|id| NewPlant::new(id, "Rosa", None)).collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);

    let first = client.list("");
    assert_eq!(first.plants(), plants[..PAGE_DEFAULT_PLANTS]);
    assert_eq!(first.total_count(), Some(1001));
    let second = client.get(&first.next_page().expect("a second page"));
    assert_eq!(second.plants(), plants[PAGE_DEFAULT_PLANTS..2 * PAGE_DEFAULT_PLANTS]);
    assert_eq!(client.list_pages("").len(), 11);

    let first = client.list(&format!("limit={PAGE_MAX_PLANTS}"));
    assert_eq!(first.plants(), plants[..PAGE_MAX_PLANTS]);
    let second = client.get(&first.next_page().expect("a second page"));
    assert_eq!(second.plants(), plants[PAGE_MAX_PLANTS..]);
    assert_eq!(second.next_page(), None);
}

#[test]
fn a_link_keeps_the_limit_and_the_encoded_filters_and_continues_after_the_page() {
    let server = TestServer::start();
    let client = server.client();
    let mut all = Vec::new();
    for (number, text) in (0..).zip(nasty_texts()) {
        for id in [number, number + 100, number + 200] {
            all.push(NewPlant::new(id, &format!("x{text}y"), Some(text)));
        }
    }
    plant_all(&client, &all);
    all.sort();
    let mut cases: Vec<(&[&str], &str)> = vec![(&[], "")];
    for text in nasty_texts() {
        cases.extend([(&["tag"] as &[&str], text), (&["name"], text), (&["name", "tag"], text)]);
    }
    for (filters, text) in cases {
        let has = |plant: &&NewPlant| filters.is_empty() || plant.tag.as_deref() == Some(text);
        let wanted: Vec<_> = all.iter().filter(has).cloned().collect();
        let value = encode(text);
        let query: String = filters.iter().map(|filter| format!("{filter}={value}&")).collect();
        let pages = client.list_pages(&format!("{query}limit=1"));
        let found: Vec<_> = pages.iter().flat_map(Answer::plants).collect();
        assert_eq!(found, wanted, "{query}");
        for (page, next) in pages.iter().zip(&pages[1..]) {
            let link = parameters(&page.next_page().expect("a next page"));
            let link: Vec<_> = link.iter().map(|(name, value)| (&**name, &**value)).collect();
            let mut kept = vec![("after", link[0].1), ("limit", "1")];
            kept.extend(filters.iter().map(|filter| (*filter, text)));
            assert_eq!(link, kept, "{query}");
            let after: i64 = link[0].1.parse().expect("an id");
            assert!(page.plants().iter().all(|plant| plant.id <= after), "{after}: {page:?}");
            assert!(next.plants().iter().all(|plant| plant.id > after), "{after}: {next:?}");
        }
    }
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
fn a_page_has_the_one_match_among_many_plants() {
    const PLANTS: i64 = 25_000;
    let plants: Vec<_> = (1..=PLANTS)
        .map(|id| {
            let (name, tag) = if id == PLANTS { ("Needle", "one") } else { ("Hay", "many") };
            NewPlant::new(id, name, Some(tag))
        })
        .collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let needle = &plants[plants.len() - 1..];
    for query in ["name=needle", "tag=one", "name=needle&tag=one", "name=needle&limit=1"] {
        let page = client.list(query);
        assert_eq!((page.plants(), page.searched_to()), (needle.to_vec(), None), "{query}");
        assert_eq!(client.list_all(query), needle, "{query}");
    }
    for query in ["name=needle&tag=many", "name=hay&tag=one", "name=nowhere", "tag=nowhere"] {
        assert_eq!(client.list_all(query), [], "{query}");
    }
    assert_eq!(client.list("name=hay&tag=many&limit=1000").plants(), plants[..PAGE_MAX_PLANTS]);
}

#[test]
fn the_total_count_with_a_tag_is_that_of_its_plants_and_with_a_name_there_is_none() {
    let server = TestServer::start();
    let client = server.client();
    let totals = |expected: [usize; 4]| {
        for (query, total) in ["", "tag=a", "tag=b", "tag=nowhere"].into_iter().zip(expected) {
            for page in ["limit=1", "limit=1&after=1", "limit=1&after=9"] {
                let answer = client.list(&format!("{page}&{query}"));
                assert_eq!(answer.total_count(), Some(total), "{page} {query}: {answer:?}");
                let head = client.send("HEAD", &format!("/plants?{page}&{query}"), &[], "");
                assert_eq!(head.total_count(), Some(total), "{page} {query}: {head:?}");
            }
        }
        for query in ["name=Rosa", "name=Rosa&tag=a"] {
            assert_eq!(client.list(query).total_count(), None, "{query}");
        }
    };
    totals([0, 0, 0, 0]);
    client.create(1, "Rosa", Some("a")).assert_plant("Rosa", Some("a"));
    client.create(2, "Rosa", Some("a")).assert_plant("Rosa", Some("a"));
    client.create(3, "Rosa", None).assert_plant("Rosa", None);
    totals([3, 2, 0, 0]);
    client.patch(2, r#"{"tag":"b"}"#).assert_plant("Rosa", Some("b"));
    totals([3, 1, 1, 0]);
    client.patch(2, r#"{"tag":null}"#).assert_plant("Rosa", None);
    client.delete(1).assert_no_content();
    totals([2, 0, 0, 0]);
}

#[test]
fn a_wrong_parameter_is_1006_and_the_message_names_it() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    let too_long = "é".repeat(TEXT_MAX_CHARACTERS + 1);
    let mut wrong = Vec::new();
    for name in ["after", "tag", "name"] {
        wrong.push((name, format!("{name}={}", encode(&too_long))));
    }
    let limits = ["", "0", "-1", "+1", "1001", "x", "1.0", "1e2", "%201", "1%20", "4294967297"];
    wrong.extend(limits.map(|value| ("limit", format!("limit={value}"))));
    let ids = ["", "+7", "%2B7", "007", "-0", "-07", "7.0", "7e0", "x", "%207", "7%20", "null"];
    wrong.extend(ids.map(|value| ("after", format!("after={value}"))));
    for value in ["9223372036854775808", "-9223372036854775809"] {
        wrong.push(("after", format!("after={value}")));
    }
    wrong.push(("limit", "limit=9223372036854775808".to_owned()));
    for name in ["tag", "name"] {
        wrong.push((name, format!("{name}=")));
        // Invalid percent-encoding, or encoded bytes that are not UTF-8.
        for value in
            ["%", "%4", "a%", "%zz", "%4g", "%ff", "%C3", "%ED%A0%80", "%C0%AF", "%F4%90%80%80"]
        {
            wrong.push((name, format!("{name}={value}")));
        }
    }
    for control in ["%00", "a%0Ab", "%7F", "%C2%85", "%1B"] {
        wrong.push(("tag", format!("tag={control}")));
    }
    for name in ["limit", "after", "tag", "name"] {
        wrong.push((name, format!("{name}=1&{name}=1")));
        wrong.push((name, format!("{name}=1&{name}=2")));
        wrong.push((name, name.to_owned()));
    }
    wrong.extend([
        ("limit", "limit=1&after=1&%6Cimit=1".to_owned()),
        ("Limit", "Limit=1".to_owned()),
        ("offset", "offset=1".to_owned()),
        ("tags", "limit=1&tags=x".to_owned()),
        ("access_token", "access_token=x".to_owned()),
        ("", "=".to_owned()),
        ("", "=x".to_owned()),
        ("", "x".to_owned()),
    ]);
    for (name, query) in wrong {
        let answer = send(&server, &format!("GET /plants?{query}"), "", "");
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        let message = answer.assert_error(400, 1006);
        assert!(message.contains(name), "{query}: {message:?} does not name {name}");
    }
}

#[test]
fn a_valid_parameter_is_taken_however_it_is_encoded() {
    let longest = "é".repeat(TEXT_MAX_CHARACTERS);
    let server = TestServer::start();
    let client = server.client();
    client.create(1, &longest, Some(&longest)).assert_plant(&longest, Some(&longest));
    let wanted = [NewPlant::new(1, &longest, Some(&longest))];
    for query in [
        "limit=1".to_owned(),
        "limit=1000".to_owned(),
        "limit=%31".to_owned(),
        "%6Cimit=1".to_owned(),
        "after=0".to_owned(),
        "after=-9223372036854775808".to_owned(),
        "after=%2D1".to_owned(),
        format!("tag={}", encode(&longest)),
        format!("tag={}", encode(&longest).to_lowercase()),
        format!("name={}", encode(&longest)),
        format!("name={}", encode(&longest.to_uppercase())),
        format!("name=%c3%a9&tag={}&after=0&limit=1", encode(&longest)),
    ] {
        let answer = send(&server, &format!("GET /plants?{query}"), "", "");
        assert_eq!(answer.plants(), wanted, "{query}");
    }
    let end = client.list("after=9223372036854775807");
    assert_eq!((end.plants(), end.next_page()), (vec![], None));
}
