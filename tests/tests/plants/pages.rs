//! What the lists of plants, tags, changes and events have in common: the sizes of their pages, their links, and the
//! parameters that they refuse.

use plantd_tests::{Answer, Client, NewPlant, TestServer, newest_cursor};
use serde_json::{Value, json};

use super::{TEXT_MAX_CHARACTERS, encode, nasty_texts, parameters, plant_all, send};

const PAGE_DEFAULT: usize = 100;

const PAGE_MAX: usize = 1000;

/// A list in pages.
#[derive(Clone, Copy)]
struct List {
    path: &'static str,
    /// The link to the next page.
    next: fn(&Answer) -> Option<String>,
    /// The parameter of that link that says where the page begins, and the member of the last entry that it has.
    place: (&'static str, &'static str),
}

const PLANTS: List = List { path: "/plants", next: Answer::next_page, place: ("after", "id") };
const TAGS: List = List { path: "/tags", next: Answer::next_tags, place: ("after", "tag") };
const CHANGES: List =
    List { path: "/plants/7/history", next: Answer::next_changes, place: ("before", "revision") };
/// Every page of events has a link, since more events may come; an empty page ends the walk.
const EVENTS: List = List {
    path: "/events",
    next: |page| (!page.events().is_empty()).then(|| page.next_events()),
    place: ("after", "cursor"),
};

impl List {
    /// The entries of each page, following the links, which must keep the parameters and begin after the page before.
    #[track_caller]
    fn pages(self, client: &Client, kept: &[(&str, &str)]) -> Vec<Vec<Value>> {
        let query: Vec<String> =
            kept.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let mut target = format!("{}?{}", self.path, query.join("&"));
        let mut pages: Vec<Vec<Value>> = Vec::new();
        loop {
            let page = client.get(&target);
            assert_eq!(page.status, 200, "{target}: {page:?}");
            pages.push(page.json().as_array().expect("an array").clone());
            let Some(next) = (self.next)(&page) else { return pages };
            let (parameter, member) = self.place;
            let last = &pages[pages.len() - 1].last().expect("an entry")[member];
            let last = last.as_str().map_or_else(|| last.to_string(), str::to_owned);
            let mut wanted: Vec<_> = kept.iter().copied().chain([(parameter, &*last)]).collect();
            wanted.sort_unstable();
            let link = parameters(&next);
            let link: Vec<_> = link.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(link, wanted, "{target}");
            target = next;
        }
    }
}

#[test]
fn a_page_has_100_entries_by_default_and_at_most_1000_and_the_links_lead_through_all() {
    let plants: Vec<_> =
        (1..=1001).map(|id| NewPlant::new(id, "Rosa", Some(&format!("tag {id:04}")))).collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let rename = |number| json!({"method": "PATCH", "path": "/plants/7", "body": {"name": number}});
    let renames: Vec<_> = (0..1000).map(|it| rename(it.to_string()).to_string()).collect();
    assert_eq!(client.batch(&renames).status, 200);
    for (list, entries) in [(PLANTS, 1001), (TAGS, 1001), (CHANGES, 1001), (EVENTS, 2001)] {
        let pages = list.pages(&client, &[("limit", "1000")]);
        let all = pages.concat();
        assert_eq!((pages[0].len(), all.len()), (PAGE_MAX, entries), "{}", list.path);
        let by_default = client.get(list.path).json();
        assert_eq!(by_default, json!(all[..PAGE_DEFAULT]), "{}", list.path);
        let next = (list.next)(&client.get(list.path)).expect("a next page");
        assert_eq!(client.get(&next).json(), json!(all[PAGE_DEFAULT..2 * PAGE_DEFAULT]));
        for limit in [7, entries.min(PAGE_MAX) - 1] {
            let pages = list.pages(&client, &[("limit", &limit.to_string())]);
            let are_full = pages.iter().take(entries / limit).all(|page| page.len() == limit);
            assert!(are_full && pages.concat() == all, "{} {limit}", list.path);
        }
    }
}

#[test]
fn a_link_keeps_every_filter_however_it_must_be_encoded() {
    let of_text =
        |text: &str| ["", "", "1", "2"].map(|end| (format!("x{text}y"), format!("{text}{end}")));
    let plants: Vec<_> = (0..)
        .zip(nasty_texts().into_iter().flat_map(of_text))
        .map(|(id, (name, tag))| NewPlant::new(id, &name, Some(&tag)))
        .collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let limit = ("limit", "1");
    for text in nasty_texts() {
        let (tag, name) = (("tag", text), ("name", text));
        for (filters, of_text) in
            [(&[limit, tag][..], 2), (&[limit, name], 4), (&[limit, name, tag], 2)]
        {
            let found = PLANTS.pages(&client, filters).concat();
            let wanted = plants.iter().filter(|plant| plant.name == format!("x{text}y"));
            let wanted: Vec<_> = wanted.take(of_text).map(|plant| json!(plant.id)).collect();
            let found: Vec<_> = found.iter().map(|plant| plant["id"].clone()).collect();
            assert_eq!(found, wanted, "{filters:?}");
        }
        let found = TAGS.pages(&client, &[limit, ("prefix", text)]).concat();
        let wanted = ["", "1", "2"].map(|end| json!(format!("{text}{end}")));
        let found: Vec<_> = found.iter().map(|tag| tag["tag"].clone()).collect();
        assert_eq!(found, wanted, "{text}");
    }
    let more = [limit, ("plants", "true"), ("wait", "1")];
    assert_eq!(EVENTS.pages(&client, &more).concat().len(), plants.len());
}

/// Values that are no limit of a page, and no number of seconds.
const NO_NUMBERS: [&str; 12] =
    ["", "-1", "+1", "x", "1.0", "1e2", "01", "00", "%201", "1%20", "1s", "18446744073709551617"];

/// Values that are no id.
const NO_IDS: [&str; 15] = [
    "",
    "+7",
    "%2B7",
    "007",
    "-0",
    "-07",
    "7.0",
    "7e0",
    "x",
    "%207",
    "7%20",
    "null",
    "7,",
    "9223372036854775808",
    "-9223372036854775809",
];

/// Values that are no revision.
const NO_REVISIONS: [&str; 10] =
    ["", "0", "-1", "+1", "%2B1", "01", "1.0", "x", "%221%22", "18446744073709551616"];

/// Values with broken percent-encoding, and encoded bytes that are not UTF-8.
const NO_TEXTS: [&str; 11] =
    ["", "%", "%4", "a%", "%zz", "%4g", "%ff", "%C3", "%ED%A0%80", "%C0%AF", "%F4%90%80%80"];

/// Values with control characters, which no tag has.
const NO_TAGS: [&str; 5] = ["%00", "a%0Ab", "%7F", "%C2%85", "%1B"];

const NO_CURSORS: [&str; 9] = ["", "1", "Now", "now%20", "-", "1-", "-1", "1-g", "%ff"];

#[test]
fn a_wrong_parameter_is_1006_and_the_message_names_it() {
    let server = TestServer::start();
    server.client().create(7, "Rosa", Some("x")).assert_plant("Rosa", Some("x"));
    let cursor = newest_cursor(&server.client());
    let cursors = [format!("{cursor}A"), format!("%20{cursor}"), format!("0{cursor}")];
    let cursors = cursors.each_ref().map(String::as_str);
    let too_long = encode(&"é".repeat(TEXT_MAX_CHARACTERS + 1));
    let too_many = "7,".repeat(100) + "7";
    let bounds = ["0", "1001", "4294967297"];
    let lists = ["/plants", "/tags", "/plants/7/history", "/events"];
    let mut cases: Vec<(&str, &str, Vec<&str>)> =
        lists.map(|list| (list, "limit", [&NO_NUMBERS[..], &bounds].concat())).to_vec();
    cases.extend([
        ("/plants", "after", NO_IDS.to_vec()),
        ("/plants", "before", NO_IDS.to_vec()),
        ("/plants", "ids", [&NO_IDS[..], &[",", ",7", "7,,8", "7;8", "7%208", &too_many]].concat()),
        ("/plants", "tag", [&NO_TEXTS[..], &NO_TAGS, &[&too_long]].concat()),
        ("/plants", "name", [&NO_TEXTS[..], &[&too_long]].concat()),
        ("/tags", "after", [&NO_TEXTS[..], &NO_TAGS, &[&too_long, "%20"]].concat()),
        ("/tags", "prefix", [&NO_TEXTS[..], &NO_TAGS, &[&too_long]].concat()),
        ("/plants/7/history", "before", NO_REVISIONS.to_vec()),
        ("/plants/7", "revision", NO_REVISIONS.to_vec()),
        ("/events", "after", [&NO_CURSORS[..], &cursors, &[&cursor[..1]]].concat()),
        ("/events", "wait", [&NO_NUMBERS[..], &["51"]].concat()),
        ("/events", "plants", vec!["", "1", "0", "yes", "True", "TRUE", "true%20"]),
    ]);
    let mut wrong = Vec::new();
    for (path, name, values) in &cases {
        wrong.extend(values.iter().map(|value| (*path, *name, format!("{name}={value}"))));
        // Without a value, and twice.
        wrong.push((path, name, (*name).to_owned()));
        wrong.push((path, name, format!("{name}=1&{name}=1")));
    }
    for list in lists {
        let queries = ["Limit=1", "offset=1", "access_token=x", "=", "=x", "x"];
        let unknown = queries.map(|query| (list, query.split('=').next().unwrap_or(""), query));
        wrong.extend(unknown.map(|(list, name, query)| (list, name, query.to_owned())));
    }
    wrong.extend(
        [
            ("/plants", "limit", "limit=1&after=1&%6Cimit=1"),
            ("/plants", "before", "before=7&after=1"),
            ("/plants", "ids", "ids=7&limit=1"),
            ("/plants", "ids", "ids=7&after=1"),
            ("/plants", "ids", "ids=7&before=1"),
            ("/plants", "ids", "ids=7&tag=x"),
            ("/plants", "ids", "ids=7&name=x"),
            ("/plants", "revision", "ids=7&revision=1"),
            ("/tags", "tag", "tag=a"),
            ("/plants/7/history", "after", "after=1"),
            ("/plants/7/history", "revision", "revision=1"),
            ("/plants/7", "before", "before=1"),
            ("/events", "Last-Event-ID", "Last-Event-ID=1-1"),
            ("/plants/export", "before", "before=7"),
            ("/plants/export", "ids", "ids=7"),
        ]
        .map(|(path, name, query)| (path, name, query.to_owned())),
    );
    for (path, name, query) in wrong {
        let answer = send(&server, &format!("GET {path}?{query}"), "", "");
        assert_eq!(answer.status, 400, "{path}?{query}: {answer:?}");
        let message = answer.assert_error(400, 1006);
        assert!(message.contains(name), "{path}?{query}: {message:?} does not name {name}");
    }
}

#[test]
fn a_valid_parameter_is_taken_however_it_is_encoded() {
    let longest = "é".repeat(TEXT_MAX_CHARACTERS);
    let server = TestServer::start();
    let client = server.client();
    client.create(1, &longest, Some(&longest)).assert_plant(&longest, Some(&longest));
    let encoded = encode(&longest);
    for query in [
        "limit=1".to_owned(),
        "limit=1000".to_owned(),
        "limit=%31".to_owned(),
        "%6Cimit=1".to_owned(),
        "after=0".to_owned(),
        "after=-9223372036854775808".to_owned(),
        "after=%2D1".to_owned(),
        format!("tag={encoded}"),
        format!("tag={}", encoded.to_lowercase()),
        format!("name={encoded}"),
        format!("name={}", encode(&longest.to_uppercase())),
        format!("name=%c3%a9&tag={encoded}&after=0&limit=1"),
    ] {
        let answer = send(&server, &format!("GET /plants?{query}"), "", "");
        assert_eq!(answer.plants(), [NewPlant::new(1, &longest, Some(&longest))], "{query}");
    }
    for query in [format!("after={encoded}&prefix={encoded}"), "prefix=%20&limit=%31".to_owned()] {
        assert_eq!(client.get(&format!("/tags?{query}")).tags(), [], "{query}");
    }
}
