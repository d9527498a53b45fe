//! `plantd get` and `plantd list`.

use std::net::SocketAddr;

use plantd_tests::{
    FINDINGS, Format, IO, Launch, NewPlant, Script, Terminal, TestServer, USAGE, answer_of,
};

use crate::JSON;

/// How many plants are listed at a terminal unless said otherwise.
const TERMINAL_PLANTS: usize = 100;

/// The most plants that the server puts on one page.
const PAGE_MAX_PLANTS: usize = 1000;

fn command(address: SocketAddr, arguments: &[&str]) -> Launch {
    Launch::for_server(address, arguments)
}

/// What the command shows at a terminal, and what it says on standard error.
#[track_caller]
fn shown(launch: &Launch) -> (String, String) {
    let terminal = Terminal::open();
    let mut process = launch.clone().standard_output(terminal.path()).spawn();
    process.assert_exit_code(0);
    (terminal.into_output(), process.stderr())
}

/// Texts that need care in a URL, in JSON, or at a terminal.
const TEXTS: [&str; 10] =
    ["-x", "--json", "a b&c=d", "100%", "+", "\"\\", "植物 🌱", "é", "\u{202e}abc", "\u{200b}"];

/// Plants with these texts.
fn difficult_plants() -> Vec<NewPlant> {
    let of_text = |(id, text): (i64, &&str)| {
        let longer = format!("x{text}y");
        [NewPlant::new(id, &longer, Some(text)), NewPlant::new(id - 1000, text, None)]
    };
    let ends = [i64::MIN, i64::MAX].map(|id| NewPlant::new(id, "Rosa", Some("Rosaceae")));
    let mut plants: Vec<_> = (1..).zip(&TEXTS).flat_map(of_text).chain(ends).collect();
    plants.sort();
    plants
}

/// Plants with consecutive ids, each second one with a tag.
fn many_plants(count: i64) -> Vec<NewPlant> {
    let plant = |id| NewPlant::new(id, &format!("Rosa {id}"), (id % 2 == 0).then_some("even"));
    (1..=count).map(plant).collect()
}

#[test]
fn a_plant_is_printed_as_an_export_prints_it() {
    let plants = difficult_plants();
    let server = TestServer::start_with_plants(&plants);
    let exported = String::from_utf8(server.client().export(Format::Ndjson)).expect("UTF-8");
    assert_eq!(command(server.address(), &["list"]).printed(), exported);
    for (plant, line) in plants.iter().zip(exported.lines()) {
        let id = plant.id.to_string();
        for arguments in [&["get", &id][..], &["get", "--json", &id]] {
            assert_eq!(command(server.address(), arguments).printed(), format!("{line}\n"));
        }
    }
}

#[test]
fn a_plant_that_is_not_there_ends_with_1_and_an_id_that_is_none_with_64() {
    let server = TestServer::start_with_plants(&[NewPlant::new(1, "Rosa", None)]);
    let absent = |id: &str| command(server.address(), &["get", id]);
    for id in ["2", "-7", "9223372036854775807"] {
        let message = format!("there is no plant with id {id} (error 3002)");
        absent(id).assert_refused_in_a_line(FINDINGS, &[&message]);
    }
    for id in ["", "x", "007", "+7", "1.0", "9223372036854775808", "1/2"] {
        absent(id).assert_refused(USAGE, &["ID"]);
    }
}

/// The plants in lines of JSON.
fn read(lines: &str) -> Vec<NewPlant> {
    let value = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(|line| NewPlant::from_json(&value(line))).collect()
}

#[test]
fn a_list_has_the_plants_with_the_tag_and_the_part_of_the_name() {
    let plants = difficult_plants();
    let server = TestServer::start_with_plants(&plants);
    let assert_listed = |arguments: &[&str], has: &dyn Fn(&NewPlant) -> bool| {
        let matching = plants.iter().filter(|plant| has(plant)).cloned();
        let list = command(server.address(), &["list"]).arguments(arguments).printed();
        assert_eq!(read(&list), matching.collect::<Vec<_>>(), "{arguments:?}");
    };
    for text in TEXTS {
        let has_tag = |plant: &NewPlant| plant.tag.as_deref() == Some(text);
        let has_name = |plant: &NewPlant| plant.name.contains(text);
        assert_listed(&["--tag", text], &has_tag);
        assert_listed(&["--name", text], &has_name);
        let both = ["--tag", text, "--name", text];
        assert_listed(&both, &|plant| has_tag(plant) && has_name(plant));
    }
    assert_listed(&["--name=ROSA"], &|plant| plant.name == "Rosa");
    assert_listed(&["--tag", "nowhere"], &|_| false);
    let launch = command(server.address(), &["list", "--tag", ""]);
    launch.assert_refused(USAGE, &["tag must have", "1006"]);
}

#[test]
fn a_limit_is_met_over_any_number_of_pages_and_without_one_all_plants_are_printed() {
    const PLANTS: i64 = 2_345;
    let plants = many_plants(PLANTS);
    let server = TestServer::start_with_plants(&plants);
    let even: Vec<_> = plants.iter().filter(|plant| plant.tag.is_some()).cloned().collect();
    for limit in [1, 5, PAGE_MAX_PLANTS - 1, PAGE_MAX_PLANTS, PAGE_MAX_PLANTS + 1, 2_345, 9_999] {
        let limited = format!("--limit={limit}");
        for (filter, all) in [(None, &plants), (Some("--tag=even"), &even)] {
            let launch = command(server.address(), &["list", &limited]).arguments(filter);
            assert_eq!(read(&launch.printed()), all[..limit.min(all.len())], "{limit}");
        }
    }
    assert_eq!(read(&command(server.address(), &["list"]).printed()), plants);
    for limit in ["0", "-1", "x", "", "99999999999999999999"] {
        let limit = format!("--limit={limit}");
        let launch = command(server.address(), &["list", &limit]);
        launch.assert_refused(USAGE, &["--limit", "from 1 to"]);
    }
}

/// A page of a list, with more headers.
fn page(body: &str, headers: &str) -> String {
    answer_of("200 OK", &format!("{JSON}{headers}"), body)
}

/// The header with the link to the page after an id, below the path of a service.
fn link(after: i64) -> String {
    format!("\r\nLink: </garden/plants?limit=7&after={after}>; rel=\"next\"")
}

#[test]
fn pages_that_end_early_are_followed_until_enough_plants_have_come() {
    let rosa = r#"{"id":1,"name":"Rosa"}"#;
    let salix = r#"{"id":9,"name":"Salix"}"#;
    let searched = |to: i64| format!("{}\r\nX-Searched-To: {to}", link(to));
    let script = Script::start(vec![
        page("[]", &searched(-5)),
        page(&format!("[{rosa}]"), &searched(3)),
        page("[]", &searched(8)),
        page(&format!("[{salix}]"), &link(9)),
    ]);
    let url = format!("http://{}/garden", script.address);
    let launch = Launch::new().arguments(["list", "--url", &url, "--name=a b", "--limit=2"]);
    assert_eq!(launch.printed(), format!("{rosa}\n{salix}\n"));
    let expected = ["limit=2", "limit=2&after=-5", "limit=1&after=3", "limit=1&after=8"];
    let expected = expected.map(|query| format!("/garden/plants?{query}&name=a%20b"));
    assert_eq!(script.targets(), expected);
}

#[test]
fn a_terminal_gets_a_table_unless_json_is_asked_for() {
    let server = TestServer::start_with_plants(&[
        NewPlant::new(-10, "植物", Some("木")),
        NewPlant::new(1, "Rosa canina", Some("Rosaceae")),
        NewPlant::new(200, "Salix", None),
        NewPlant::new(300, "re\u{202e}verse", Some("x")),
    ]);
    let list =
        |arguments: &[&str]| shown(&command(server.address(), &[&["list"], arguments].concat()));
    let table = " ID  NAME         TAG\n\
                 -10  植物         木\n  \
                   1  Rosa canina  Rosaceae\n\
                 200  Salix\n\
                 300  re\u{fffd}verse     x\n";
    assert_eq!(list(&[]), (table.to_owned(), String::new()));
    let get = shown(&command(server.address(), &["get", "1"]));
    let row = "ID  NAME         TAG\n 1  Rosa canina  Rosaceae\n";
    assert_eq!(get, (row.to_owned(), String::new()));
    let exported = String::from_utf8(server.client().export(Format::Ndjson)).expect("UTF-8");
    assert_eq!(list(&["--json"]), (exported, String::new()));
    let line = "{\"id\":200,\"name\":\"Salix\"}\n".to_owned();
    let get = shown(&command(server.address(), &["get", "--json", "200"]));
    assert_eq!(get, (line, String::new()));
    let nothing = (String::new(), "there are no such plants\n".to_owned());
    assert_eq!(list(&["--tag=nowhere"]), nothing);
}

#[test]
fn a_terminal_gets_100_plants_and_a_hint_unless_there_is_a_limit() {
    const PLANTS: i64 = 1_234;
    let server = TestServer::start_with_plants(&many_plants(PLANTS));
    for (arguments, lines, hint) in [
        (&[][..], TERMINAL_PLANTS, "100 of 1,234 plants are shown; --limit N shows more\n"),
        (&["--tag=even"], TERMINAL_PLANTS, "100 of 617 plants are shown; --limit N shows more\n"),
        (
            &["--name=rosa"],
            TERMINAL_PLANTS,
            "100 plants are shown, and more may follow; --limit N shows more\n",
        ),
        (&["--name=rosa 123"], 6, ""),
        (&["--limit=3"], 3, ""),
        (&["--limit=1234"], 1_234, ""),
        (&["--limit=5000", "--tag=even"], 617, ""),
    ] {
        let (table, said) = shown(&command(server.address(), &[&["list"], arguments].concat()));
        assert_eq!(table.lines().count(), 1 + lines, "{arguments:?}: {table}");
        assert_eq!(said, hint, "{arguments:?}");
    }
    let (lines, said) = shown(&command(server.address(), &["list", "--json"]));
    assert_eq!(read(&lines), many_plants(100));
    assert!(said.starts_with("100 of 1,234 plants"), "{said}");
}

#[test]
fn an_answer_that_is_not_from_plantd_ends_it_with_74() {
    let two = r#"[{"id":2,"name":"Rosa"},{"id":1,"name":"Rosa"}]"#;
    for (answer, of_list, of_get) in [
        (page("<p>Plants</p>", ""), "does not come from plantd", "does not come from plantd"),
        (page("", ""), "", "another plant"),
        (page("[]", ""), "", "does not come from plantd"),
        (page(two, ""), "ascending", "does not come from plantd"),
        (page("[]", &link(7).replace("7>", "x>")), "does not answer as plantd", ""),
        (page("[]", "\r\nLink: </plants>; rel=\"next\""), "does not answer as plantd", ""),
        (page(&two.replace("2", "0"), &link(0)), "does not answer as plantd", ""),
        (page(r#"{"id":2,"name":"Rosa"}"#, ""), "", "another plant"),
        (page(r#"{"id":1}"#, ""), "", "does not come from plantd"),
    ] {
        for (arguments, word) in [(&["list"][..], of_list), (&["get", "1"], of_get)] {
            let script = Script::start(vec![answer.clone()]);
            if !word.is_empty() {
                command(script.address, arguments).assert_refused(IO, &[word]);
            }
        }
    }
    // Pages that lead nowhere would have no end.
    let script = Script::start(vec![page("[]", &link(7)), page("[]", &link(7))]);
    command(script.address, &["list"]).assert_refused(IO, &["does not answer as plantd"]);
}
