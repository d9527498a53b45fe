//! `GET /tags`: pages, counts, and refused parameters.

use plantd_tests::{Answer, Client, NewPlant, TestServer, counted};

use super::{TEXT_MAX_CHARACTERS, encode, listed, nasty_texts, parameters, plant_all, send};

const PAGE_DEFAULT_TAGS: usize = 100;

const PAGE_MAX_TAGS: usize = 1000;

/// Tags in the order of code points, which differs from that of a language, of UTF-16 and of folded text.
const TAGS: [&str; 12] = [
    " edge",
    "Rosa",
    "Rosaceae",
    "Rosaceae L.",
    "Salicaceae",
    "Z",
    "a",
    "rosa",
    "é",
    "植物",
    "\u{ffff}",
    "🌱",
];

/// One page of tags. The query may be empty.
#[track_caller]
fn tags(client: &Client, query: &str) -> Answer {
    client.get(&format!("/tags?{query}"))
}

/// Plants with each of these tags, the first tag once, the second tag twice, and so on.
fn plants_with(tags: &[&str]) -> Vec<NewPlant> {
    let of_tag = |(count, tag): (usize, &&str)| vec![Some((*tag).to_owned()); count];
    let tags = (1..).zip(tags).flat_map(of_tag);
    (0..).zip(tags).map(|(id, tag)| NewPlant::new(id, "Rosa", tag.as_deref())).collect()
}

#[test]
fn every_write_changes_the_counts_and_a_tag_without_plants_is_gone() {
    let server = TestServer::start();
    let client = server.client();
    let check = || {
        let answer = client.get("/tags");
        assert_eq!(answer.tags(), counted(&listed(&client)), "{answer:?}");
        assert_eq!(answer.next_tags(), None, "{answer:?}");
        answer.tags()
    };
    assert_eq!(check(), []);
    client.create(1, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    client.create(2, "Salix", None).assert_plant("Salix", None);
    check();
    client.put(3, r#"{"name":"Rosa","tag":"Rosaceae"}"#).assert_made("Rosa", Some("Rosaceae"));
    assert_eq!(check(), [("Rosaceae".to_owned(), 2)]);
    client.put(3, r#"{"name":"Acer","tag":"Acer"}"#).assert_plant("Acer", Some("Acer"));
    assert_eq!(check(), [("Acer".to_owned(), 1), ("Rosaceae".to_owned(), 1)]);
    client.patch(2, r#"{"tag":"Acer"}"#).assert_plant("Salix", Some("Acer"));
    client.patch(1, r#"{"tag":null}"#).assert_plant("Rosa", None);
    assert_eq!(check(), [("Acer".to_owned(), 2)]);
    plant_all(&client, &[NewPlant::new(4, "Rosa", Some("acer"))]);
    check();
    for id in [2, 3, 4] {
        client.delete(id).assert_no_content();
        check();
    }
    assert_eq!(check(), []);
}

#[test]
fn a_page_has_the_tags_with_the_prefix_after_a_tag_in_the_order_of_code_points() {
    let plants = plants_with(&TAGS);
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let all = counted(&plants);
    assert!(TAGS.is_sorted());
    let others = ["!", "Ros", "Rosaceae M", "S", "\u{10ffff}"];
    let afters = TAGS.iter().chain(&others).map(Some).chain([None]);
    let prefixes = [" ", "R", "Rosa", "Rosaceae", "Rosaceae L.", "r", "\u{f0000}", "🌱"];
    for after in afters {
        for prefix in prefixes.iter().map(Some).chain([None]) {
            let is_wanted = |tag: &str| {
                after.is_none_or(|after| tag > *after)
                    && prefix.is_none_or(|prefix| tag.starts_with(prefix))
            };
            let wanted: Vec<_> = all.iter().filter(|(tag, _)| is_wanted(tag)).cloned().collect();
            let parameter = |name, value: Option<&&str>| {
                value.map(|value| format!("&{name}={}", encode(value))).unwrap_or_default()
            };
            let query = format!("{}{}", parameter("after", after), parameter("prefix", prefix));
            for limit in [1, 2, TAGS.len()] {
                let page = tags(&client, &format!("limit={limit}{query}"));
                assert_eq!(page.tags(), wanted[..limit.min(wanted.len())], "{query}");
                assert_eq!(page.next_tags().is_some(), limit < wanted.len(), "{query}");
            }
            let pages = client.tag_pages(&format!("limit=2{query}"));
            let tags: Vec<_> = pages.iter().flat_map(Answer::tags).collect();
            assert_eq!(tags, wanted, "{query}");
        }
    }
}

#[test]
fn a_link_keeps_the_limit_and_the_encoded_prefix_and_continues_after_the_page() {
    let server = TestServer::start();
    let client = server.client();
    let longer: Vec<String> = nasty_texts()
        .iter()
        .flat_map(|text| ["", "1", "2"].map(|end| format!("{text}{end}")))
        .collect();
    let plants: Vec<_> =
        (0..).zip(&longer).map(|(id, tag)| NewPlant::new(id, "Rosa", Some(tag))).collect();
    plant_all(&client, &plants);
    for text in nasty_texts() {
        let prefix = encode(text);
        for (prefix, kept) in [(format!("&prefix={prefix}"), Some(text)), (String::new(), None)] {
            let page = tags(&client, &format!("limit=1{prefix}"));
            let [(last, _)] = &page.tags()[..] else { panic!("no tag: {page:?}") };
            let expected = [("after", Some(&**last)), ("limit", Some("1")), ("prefix", kept)];
            let link = parameters(&page.next_tags().expect("a next page"));
            let link: Vec<_> = link.iter().map(|(name, value)| (&**name, Some(&**value))).collect();
            assert_eq!(link, expected[..link.len()], "{prefix}");
            assert_eq!(link.len(), if kept.is_some() { 3 } else { 2 }, "{prefix}");
        }
        let pages = client.tag_pages(&format!("limit=1&prefix={prefix}"));
        let found: Vec<String> = pages.iter().flat_map(Answer::tags).map(|(tag, _)| tag).collect();
        let mut wanted: Vec<_> =
            longer.iter().filter(|tag| tag.starts_with(text)).cloned().collect();
        wanted.sort();
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn a_page_has_100_tags_by_default_and_at_most_1000() {
    let plants: Vec<_> =
        (1..=1001).map(|id| NewPlant::new(id, "Rosa", Some(&format!("tag {id:04}")))).collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let all = counted(&plants);
    let first = client.get("/tags");
    assert_eq!(first.tags(), all[..PAGE_DEFAULT_TAGS]);
    let second = client.get(&first.next_tags().expect("a second page"));
    assert_eq!(second.tags(), all[PAGE_DEFAULT_TAGS..2 * PAGE_DEFAULT_TAGS]);
    assert_eq!(client.tag_pages("").len(), 11);

    let first = tags(&client, &format!("limit={PAGE_MAX_TAGS}"));
    assert_eq!(first.tags(), all[..PAGE_MAX_TAGS]);
    let second = client.get(&first.next_tags().expect("a second page"));
    assert_eq!((second.tags(), second.next_tags()), (all[PAGE_MAX_TAGS..].to_vec(), None));
}

#[test]
fn a_wrong_parameter_is_1006_and_the_message_names_it() {
    let server = TestServer::start();
    let mut wrong = Vec::new();
    for value in ["", "0", "-1", "1001", "x", "1.0"] {
        wrong.push(("limit", format!("limit={value}")));
    }
    let too_long = encode(&"é".repeat(TEXT_MAX_CHARACTERS + 1));
    for name in ["after", "prefix"] {
        // Texts with which no tag can begin, invalid percent-encoding, and bytes that are not UTF-8.
        for value in
            ["", &too_long, "%00", "a%0Ab", "%7F", "%C2%85", "%", "%zz", "%ff", "%ED%A0%80"]
        {
            wrong.push((name, format!("{name}={value}")));
        }
        wrong.push((name, format!("{name}=a&{name}=b")));
        wrong.push((name, name.to_owned()));
    }
    wrong.extend([
        ("after", "after=%20".to_owned()),
        ("Prefix", "Prefix=a".to_owned()),
        ("tag", "tag=a".to_owned()),
        ("", "x".to_owned()),
    ]);
    for (name, query) in wrong {
        let answer = send(&server, &format!("GET /tags?{query}"), "", "");
        let message = answer.assert_error(400, 1006);
        assert!(message.contains(name), "{query}: {message:?} does not name {name}");
    }
    let longest = encode(&"é".repeat(TEXT_MAX_CHARACTERS));
    for query in [format!("after={longest}&prefix={longest}"), "prefix=%20&limit=%31".to_owned()] {
        assert_eq!(tags(&server.client(), &query).tags(), [], "{query}");
    }
}
