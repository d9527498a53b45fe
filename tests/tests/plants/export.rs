//! `GET /plants/export`: the two formats, and how a client chooses one. `transfer_commands` imports what it exports.

use plantd_tests::{Answer, Format, NewPlant, TestServer, raw_head, raw_request};

use super::{TEXT_MAX_CHARACTERS, encode, nasty_texts, plant_all, send};

const PATH: &str = "/plants/export";

/// Reads an export, and asserts that its ids ascend.
#[track_caller]
pub(crate) fn parse(format: Format, export: &[u8]) -> Vec<NewPlant> {
    let plants: Vec<_> = match format {
        Format::Ndjson => {
            let text = str::from_utf8(export).expect("an export is UTF-8");
            assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
            let json = |line| serde_json::from_str(line).expect("a line is JSON");
            text.lines().map(|line| NewPlant::from_json(&json(line))).collect()
        }
        Format::Csv => {
            assert!(export.ends_with(b"\n"), "the last line has no end");
            let mut reader = csv::Reader::from_reader(export);
            assert_eq!(reader.headers().expect("a header"), vec!["id", "name", "tag"]);
            let plant = |record: csv::StringRecord| {
                let tag = Some(&record[2]).filter(|tag| !tag.is_empty());
                NewPlant::new(record[0].parse().expect("an id"), &record[1], tag)
            };
            reader.records().map(|record| plant(record.expect("a record"))).collect()
        }
    };
    let ascend = plants.is_sorted_by(|one, next| one.id < next.id);
    assert!(ascend, "the ids do not ascend: {plants:?}");
    plants
}

/// The format of an export requested with these header lines.
#[track_caller]
fn format_for(server: &TestServer, lines: &str) -> Format {
    let mut connection = server.connect();
    connection.send(raw_request(&format!("GET {PATH}"), lines, ""));
    let answer = connection.receive();
    assert_eq!(answer.status, 200, "{lines:?}: {answer:?}");
    assert_vary(&answer);
    let media_type = answer.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    let format = Format::ALL.into_iter().find(|format| format.media_type() == media_type);
    let format = format.unwrap_or_else(|| panic!("{lines:?}: another media type: {answer:?}"));
    assert_eq!(parse(format, &answer.body), [NewPlant::new(1, "Rosa", None)], "{lines:?}");
    format
}

/// The media type of the export for spreadsheets, which no other media range includes.
const SPREADSHEET: &str = "text/vnd.plantd.spreadsheet";

#[track_caller]
fn assert_vary(answer: &Answer) {
    let vary = answer.header("vary").unwrap_or_default();
    let named = vary.split(',').any(|name| name.trim().eq_ignore_ascii_case("accept"));
    assert!(named, "no Vary: Accept: {answer:?}");
}

#[test]
fn a_line_of_an_export_is_a_plant_and_omits_a_missing_tag() {
    let server = TestServer::start();
    let client = server.client();
    for format in Format::ALL {
        assert_eq!(parse(format, &client.export(format)), []);
    }
    client.create(2, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    client.create(-1, "Abies, alba", None).assert_plant("Abies, alba", None);
    let export = client.export(Format::Ndjson);
    let lines: Vec<serde_json::Value> = str::from_utf8(&export)
        .expect("an export is UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let wanted = [
        serde_json::json!({ "id": -1, "name": "Abies, alba" }),
        serde_json::json!({ "id": 2, "name": "Rosa", "tag": "Rosaceae" }),
    ];
    assert_eq!(lines, wanted);
    // The API does not define which cells are quoted.
    let wanted =
        [NewPlant::new(-1, "Abies, alba", None), NewPlant::new(2, "Rosa", Some("Rosaceae"))];
    let export = client.export(Format::Csv);
    assert!(export.starts_with(b"id,name,tag"), "{}", String::from_utf8_lossy(&export));
    assert_eq!(parse(Format::Csv, &export), wanted);
}

#[test]
fn an_export_is_csv_only_where_accept_prefers_it() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let ndjson = ["*/*", "application/x-ndjson", "application/*", "text/csv;q=0"];
    let weighed = [
        "application/x-ndjson, text/csv;q=0.9",
        "text/csv;q=0.5, application/x-ndjson;q=0.6",
        "text/csv;q=0.5, */*;q=0.6",
        "text/csv;q=0.000, */*",
        "text/csv;q=0, text/*",
        "text/*;q=0.5, text/csv;q=0.1, application/x-ndjson;q=0.2",
        "text/*;q=0.001, application/*;q=0.002",
    ];
    // The server has no acceptable format, so it sends the default.
    let json = ["application/json", "text/html, image/*;q=0.8"];
    let unknown = ["text/plain", "text/csvx", "csv", ""];
    for accept in [&ndjson[..], &weighed, &json, &unknown].concat() {
        let lines = format!("Accept: {accept}\r\n");
        assert_eq!(format_for(&server, &lines), Format::Ndjson, "{lines:?}");
    }
    for lines in ["", "X-Accept: text/csv\r\n"] {
        assert_eq!(format_for(&server, lines), Format::Ndjson, "{lines:?}");
    }
    let csv = ["text/csv", "Text/CSV", "text/*", "text/csv;q=0.001", "text/csv, */*;q=0.1"];
    let weighed = [
        "text/csv; q=1.0, application/x-ndjson; q=0.999",
        "application/x-ndjson;q=0.1,text/csv;Q=0.2",
        "*/*;q=0.1, text/csv",
        "application/json, text/csv;q=0.5",
        "application/x-ndjson;q=0, text/csv;q=0.1",
        // The most specific range counts (RFC 9110, section 12.5.1).
        "application/x-ndjson;q=0, */*;q=0.1",
        "*/*, application/x-ndjson;q=0.1",
        "text/html, , text/csv;q=0.3,",
        "application/x-ndjson;q=0.1\r\nAccept: text/csv",
    ];
    for accept in [&csv[..], &weighed].concat() {
        let lines = format!("Accept: {accept}\r\n");
        assert_eq!(format_for(&server, &lines), Format::Csv, "{lines:?}");
    }
    assert_eq!(format_for(&server, "accept:text/csv\r\n"), Format::Csv);
    for accept in [format!("{SPREADSHEET};q=0"), format!("{SPREADSHEET};q=0.5, application/*")] {
        assert_eq!(format_for(&server, &format!("Accept: {accept}\r\n")), Format::Ndjson);
    }
    for media_type in Format::ALL.map(Format::media_type).iter().chain(&[SPREADSHEET]) {
        let lines = format!("Accept: {media_type}\r\n");
        server.connect().assert_head_is_like_get(PATH, &lines);
    }
}

#[test]
fn an_export_for_spreadsheets_has_no_formulas_and_any_other_keeps_every_text() {
    let server = TestServer::start();
    let client = server.client();
    let plants = [
        NewPlant::new(-7, "=1+1", Some("@SUM(A1)")),
        NewPlant::new(1, "+1", Some("-1")),
        NewPlant::new(2, "Rosa; =1, \"x\"", None),
        NewPlant::new(3, "\u{ff1d}1", Some(" =1")),
        NewPlant::new(4, &format!("={}", "x".repeat(254)), Some("植物 a-b")),
    ];
    plant_all(&client, &plants);
    let answer = client.send("GET", PATH, &[("accept", SPREADSHEET)], "");
    let content_type = format!("{SPREADSHEET}; charset=utf-8; header=present");
    assert_eq!(answer.header("content-type"), Some(content_type.as_str()));
    assert_vary(&answer);
    let long = format!("4,\"'={}\",\"植物 a-b\"", "x".repeat(254));
    let wanted = [
        "\u{feff}id,name,tag",
        "-7,\"'=1+1\",\"'@SUM(A1)\"",
        "1,\"'+1\",\"'-1\"",
        "2,\"Rosa;' =1, \"\"x\"\"\",\"\"",
        "3,\"'\u{ff1d}1\",\"' =1\"",
        &long,
        "",
    ];
    assert_eq!(str::from_utf8(&answer.body).expect("UTF-8"), wanted.join("\r\n"));
    assert_eq!(parse(Format::Csv, &client.export(Format::Csv)), plants);
}

#[test]
fn an_export_has_the_plants_that_a_list_with_the_same_filters_has() {
    let server = TestServer::start();
    let client = server.client();
    let mut all = Vec::new();
    for (number, text) in (0..).zip(nasty_texts()) {
        all.push(NewPlant::new(number, &format!("x{text}Y"), Some(text)));
        all.push(NewPlant::new(number + 100, "Rosa", Some(text)));
        all.push(NewPlant::new(number + 200, text, None));
    }
    plant_all(&client, &all);
    let mut queries = vec!["tag=nowhere".to_owned(), "name=nowhere".to_owned(), String::new()];
    for text in nasty_texts() {
        let value = encode(text);
        queries.push(format!("tag={value}"));
        queries.push(format!("name={value}"));
        queries.push(format!("name=X&tag={value}"));
    }
    for query in queries {
        let listed = client.list_all(&format!("limit=1000&{query}"));
        let total = client.list(&query).total_count();
        for format in Format::ALL {
            let accept = [("accept", format.media_type())];
            let answer = client.send("GET", &format!("{PATH}?{query}"), &accept, "");
            assert_eq!(parse(format, &answer.body), listed, "{query}");
            assert_eq!(answer.total_count(), total, "{query}: {answer:?}");
        }
        let head = client.send("HEAD", &format!("{PATH}?{query}"), &[], "");
        assert_eq!(head.total_count(), total, "{query}: {head:?}");
    }
    assert_eq!(client.list("tag=100%25").total_count(), Some(2));
    assert_eq!(client.list("name=x").total_count(), None);
}

#[test]
fn a_wrong_filter_of_an_export_is_refused_as_a_list_refuses_it() {
    let server = TestServer::start();
    let too_long = encode(&"é".repeat(TEXT_MAX_CHARACTERS + 1));
    let mut wrong = Vec::new();
    for name in ["tag", "name"] {
        for value in ["", "%", "%zz", "%ff", &too_long, "a&tag=b&name=c"] {
            wrong.push(format!("{name}={value}"));
        }
    }
    wrong.extend(["tag=%00", "tag=%20", "limit=1", "after=1", "tags=x"].map(str::to_owned));
    for query in wrong {
        let answer = send(&server, &format!("GET {PATH}?{query}"), "", "");
        let message = answer.assert_error(400, 1006);
        let name = query.split('=').next().expect("a name");
        assert!(message.contains(name), "{query}: {message:?} does not name {name}");
    }
}

#[test]
fn an_export_over_http_1_0_is_refused_because_its_end_could_not_be_told_from_a_cut() {
    let server = TestServer::start();
    plant_all(&server.client(), &[NewPlant::new(1, "Rosa", None)]);
    for (method, query) in [("GET", ""), ("HEAD", ""), ("GET", "?x=1")] {
        let request = raw_head(&format!("{method} {PATH}{query}"), "");
        let mut connection = server.connect();
        connection.send(request.replacen("HTTP/1.1", "HTTP/1.0", 1));
        let answer =
            if method == "HEAD" { connection.receive_head() } else { connection.receive() };
        assert_eq!(answer.status, 426, "{answer:?}");
        assert_eq!(answer.header("upgrade"), Some("HTTP/1.1"), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("upgrade"), "{answer:?}");
        if method == "GET" {
            answer.assert_error(426, 1008);
        }
        connection.assert_closed();
    }
    // The token is checked first.
    let mut connection = server.connect();
    connection.send(format!("GET {PATH} HTTP/1.0\r\n\r\n"));
    connection.receive().assert_error(401, 2001);
}

#[test]
fn an_export_has_the_plants_as_they_were_when_it_began() {
    let text = "é".repeat(TEXT_MAX_CHARACTERS);
    let plants: Vec<_> = (0..5000).map(|id| NewPlant::new(id, &text, Some(&text))).collect();
    let server = TestServer::start();
    let client = server.client();
    plant_all(&client, &plants);
    let mut export = server.connect();
    export.send(raw_head("GET /plants/export", ""));
    // The buffers of the sockets do not have room for all of it.
    export.wait_for_bytes();
    client.create(5000, "new", None).assert_plant("new", None);
    client.delete(4999).assert_no_content();
    client.patch(4998, r#"{"name":"changed"}"#).assert_plant("changed", Some(&text));
    let answer = export.receive();
    assert_eq!(answer.total_count(), Some(plants.len()));
    let is_as_before = parse(Format::Ndjson, &answer.body) == plants;
    assert!(is_as_before, "the export has changes that were made after its beginning");
}
