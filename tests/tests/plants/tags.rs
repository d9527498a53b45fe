//! `GET /tags`: which tags a page has, in which order.

use plantd_tests::{Answer, NewPlant, TestServer, counted};

use super::{encode, plant_all};

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

/// Plants with each of these tags, the first tag once, the second tag twice, and so on.
fn plants_with(tags: &[&str]) -> Vec<NewPlant> {
    let of_tag = |(count, tag): (usize, &&str)| vec![Some((*tag).to_owned()); count];
    let tags = (1..).zip(tags).flat_map(of_tag);
    (0..).zip(tags).map(|(id, tag)| NewPlant::new(id, "Rosa", tag.as_deref())).collect()
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
                let page = client.get(&format!("/tags?limit={limit}{query}"));
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
fn a_tag_without_plants_is_gone() {
    let server = TestServer::start();
    let client = server.client();
    assert_eq!(client.get("/tags").tags(), []);
    client.create(1, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    client.create(2, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    client.patch(1, r#"{"tag":"rosa"}"#).assert_plant("Rosa", Some("rosa"));
    let one = |tag: &str| (tag.to_owned(), 1);
    assert_eq!(client.get("/tags").tags(), [one("Rosaceae"), one("rosa")]);
    client.delete(2).assert_no_content();
    assert_eq!(client.get("/tags").tags(), [one("rosa")]);
    client.patch(1, r#"{"tag":null}"#).assert_plant("Rosa", None);
    assert_eq!(client.get("/tags").tags(), []);
}
