//! `POST /plants/import`: each row succeeds or fails on its own, the report lists the failures, and stored rows
//! persist. `transfer_commands` has what happens to taken ids, and to more failures than a report lists.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Answer, Connection, Counts, Format, Launch, NewPlant, TestServer, chunk, plant_body, raw_head,
    raw_request, wait_until,
};

use super::bodies::{
    NOT_JSON, OTHER_SHAPE, UTF_8_CHARSETS, WITHOUT_A_NAME, WITHOUT_AN_ID, broken_texts,
};
use super::{BODY_MAX_BYTES as ROW_MAX_BYTES, body_of, listed};

const CREATED_ONE: Counts = Counts { created: 1, replaced: 0, skipped: 0, failed: 0 };

/// Sends an import with these header lines.
#[track_caller]
fn send(server: &TestServer, query: &str, lines: &str, body: impl AsRef<[u8]>) -> Answer {
    super::send(server, &format!("POST /plants/import{query}"), lines, body)
}

/// The head of an import; `framing` is its `Content-Length` or `Transfer-Encoding`.
fn head(format: Format, query: &str, framing: &str) -> String {
    let lines = format!("Content-Type: {}\r\n{framing}\r\n", format.media_type());
    raw_head(&format!("POST /plants/import{query}"), &lines)
}

const CHUNKED: &str = "Transfer-Encoding: chunked";
const LENGTH: &str = "Content-Length: 1000000000";

/// `length` distinct plants, with ids from `first` on.
fn plants(first: i64, length: i64) -> Vec<NewPlant> {
    let plant = |id: i64| {
        let tag = (id % 3 != 0).then(|| format!("tag {}", id % 7));
        NewPlant::new(id, &format!("plant \"{id}\", as it is"), tag.as_deref())
    };
    (first..first + length).map(plant).collect()
}

/// Asserts that each of these rows fails with its number, and that the good rows between them are imported.
#[track_caller]
fn check_rows(format: Format, bad: &[(&[u8], i64)]) {
    let good = plants(1000, i64::try_from(bad.len()).expect("not many rows") + 1);
    let mut body = format.header().as_bytes().to_vec();
    let mut wanted = Vec::new();
    for ((bad, number), good) in bad.iter().zip(&good) {
        body.extend_from_slice(format.row(good).as_bytes());
        let line = body.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        wanted.push((line, *number));
        body.extend_from_slice(bad);
        body.push(b'\n');
    }
    body.extend_from_slice(format.row(&good[bad.len()]).as_bytes());
    let server = TestServer::start();
    let answer = server.client().import(format, "", body);
    let failed = bad.len() as u64;
    let counts = Counts { created: good.len() as u64, failed, ..Counts::default() };
    assert_eq!(answer.assert_report(counts), wanted, "{answer:?}");
    assert_eq!(listed(&server.client()), good);
}

#[test]
fn blank_lines_are_skipped_but_counted_and_line_ends_are_lf_or_crlf() {
    for (format, body, lines) in [
        (
            Format::Ndjson,
            "{\"id\":1,\"name\":\"a\"}\nx\n\n{\"id\":2,\"name\":\"b\"}\r\n\r\n\nx",
            [2, 7],
        ),
        (
            Format::Ndjson,
            "\r\n\n{\"id\":1,\"name\":\"a\"}\r\nx\r\n{\"id\":2,\"name\":\"b\"}\nx\n",
            [4, 6],
        ),
        (Format::Csv, "id,name,tag\n1,a,\nx\n\n2,b,\r\n\r\n\nx", [3, 8]),
        (Format::Csv, "id,name,tag\r\n\r\n\n1,a,\r\nx\r\n2,b,\nx\n", [5, 7]),
        (Format::Csv, "id,name,tag\n1,\"a\",\"\"\r\nx\n\"2\",b,\n\nx\r\n", [3, 6]),
        (Format::Csv, "id,name,tag\r1,a,\rx\r\r2,b,\rx", [3, 6]),
    ] {
        let server = TestServer::start();
        let client = server.client();
        let answer = client.import(format, "", body);
        let errors = answer.assert_report(Counts { created: 2, failed: 2, ..Counts::default() });
        let number = if format == Format::Csv { 1004 } else { 1001 };
        assert_eq!(errors, lines.map(|line| (line, number)), "{body:?}");
        assert_eq!(listed(&client), [NewPlant::new(1, "a", None), NewPlant::new(2, "b", None)]);
    }
}

#[test]
fn a_row_of_json_keeps_the_rules_of_a_create_and_fails_with_its_number() {
    // No row can contain a line end, and a blank line is no row.
    let is_row = |row: &&[u8]| !row.trim_ascii().is_empty() && !row.contains(&b'\n');
    let mut rows: Vec<(Vec<u8>, i64)> =
        NOT_JSON.into_iter().filter(is_row).map(|row| (row.to_vec(), 1001)).collect();
    for row in ["{\"id\":7,\"name\":\"Rosa\"},", "{\"id\":7,\"name\":\"Ro\tsa\"}", "id,name,tag"] {
        rows.push((row.into(), 1001));
    }
    let other_shapes = OTHER_SHAPE.iter().chain(&WITHOUT_A_NAME).chain(&WITHOUT_AN_ID);
    rows.extend(other_shapes.map(|(row, _)| ((*row).into(), 1004)));
    for text in broken_texts() {
        rows.push((plant_body(7, &text, None).into(), 1005));
        rows.push((plant_body(7, "Rosa", Some(&text)).into(), 1005));
    }
    rows.push((plant_body(1000, "again", None).into(), 3001));
    let rows: Vec<(&[u8], i64)> = rows.iter().map(|(row, number)| (&row[..], *number)).collect();
    check_rows(Format::Ndjson, &rows);
}

#[test]
fn a_row_of_csv_keeps_the_rules_of_a_create_and_fails_with_its_number() {
    let [long, long_tag] = ["7,X,", "7,Rosa,X"].map(|row| row.replace('X', &"é".repeat(256)));
    let cells: [&[u8]; 6] =
        [b"7", b"7,Rosa", b"7,Rosa,x,", b"7,Rosa,x,y", b"7,Abies, alba,x", b"7,a,b,c,d,e,f,g"];
    let quotes: [&[u8]; 3] = [b"7,\"a\"b,x", b"7,\"a\" ,x", b"7,\"a\"b,\"\n\""];
    let ids: [&[u8]; 5] = [b"007,Rosa,x", b",Rosa,x", b"x,Rosa,x", b"1.5,Rosa,x", b"7e0,Rosa,x"];
    let large: [&[u8]; 3] =
        [b"9223372036854775808,Rosa,x", b"-9223372036854775809,Rosa,x", b"id,name,tag"];
    let not_utf8: [&[u8]; 2] = [b"7,R\xf6sa,x", b"7,Rosa,\xed\xa0\x80"];
    let empty: [&[u8]; 4] = [b"7,,x", b"7,\"\",x", b"7, ,x", b"7,Rosa, "];
    let controls: [&[u8]; 4] = [b"7,a\0b,x", b"7,\"a\tb\",x", b"7,\"a\nb\",x", b"7,\"a\r\n\nb\",x"];
    let mut rows = Vec::new();
    for (number, group) in [
        (1004, [&cells[..], &quotes, &ids, &large].concat()),
        (1001, not_utf8.to_vec()),
        (1005, [&empty[..], &controls, &[long.as_bytes(), long_tag.as_bytes()]].concat()),
        (3001, vec![b"1000,again,"]),
    ] {
        rows.extend(group.into_iter().map(|row| (row, number)));
    }
    check_rows(Format::Csv, &rows);
}

#[test]
fn the_csv_header_names_the_columns_in_any_order_and_its_mistakes_are_reported() {
    let server = TestServer::start();
    let client = server.client();
    for (header, problems) in [
        ("1,Rosa,x", &["\"1\" is unknown", "\"id\" is missing"] as &[&str]),
        ("id,tag", &["\"name\" is missing"]),
        ("tag", &["\"id\" is missing", "\"name\" is missing"]),
        ("id,name,tag,more", &["\"more\" is unknown"]),
        ("id,name,tag,genus,species", &["\"genus\" is unknown"]),
        ("id,name,tag,name", &["\"name\" is repeated"]),
        ("name,id,id", &["\"id\" is repeated"]),
        ("ID,Name,Tag", &["\"ID\" is unknown", "\"id\" is missing"]),
        ("id, name, tag", &["\" name\" is unknown"]),
        ("id;name;tag", &["\"id\" is missing"]),
        ("id\tname\ttag", &["\"id\" is missing"]),
        ("{\"id\":1,\"name\":\"Rosa\"}", &[]),
        ("\u{feff}\u{feff}id,name,tag", &["\"id\" is missing"]),
        ("\n\u{feff}id,name,tag", &[]),
        ("id,name,", &[]),
        ("id,\"name\"x,tag", &[]),
        ("\"id,name,tag", &[]),
    ] {
        for body in [format!("{header}\n1,Rosa,x\n"), header.to_owned()] {
            let answer = send(&server, "", "Content-Type: text/csv\r\n", &body);
            assert_eq!(answer.status, 400, "{body:?}: {answer:?}");
            let message = answer.assert_error(400, 1004);
            for word in problems.iter().chain(&["id,name,tag"]) {
                assert!(message.contains(word), "{body:?}: {message}");
            }
            client.read(1).assert_error(404, 3002);
        }
    }
    for body in ["", "\n"] {
        let answer = send(&server, "", "Content-Type: text/csv\r\n", body);
        assert!(answer.assert_error(400, 1004).contains("there is none"), "{answer:?}");
    }
    for (id, (header, row, tag)) in (1..).zip([
        ("id,name,tag\n", "ID,Rosa,x", Some("x")),
        ("id,name,tag\r\n", "ID,Rosa,x", Some("x")),
        ("\u{feff}id,name,tag\n", "ID,Rosa,x", Some("x")),
        ("\u{feff}id,name,tag\r\n", "ID,Rosa,x", Some("x")),
        ("\"id\",\"name\",\"tag\"\n", "ID,Rosa,x", Some("x")),
        ("\u{feff}\"id\",name,tag\n", "ID,Rosa,x", Some("x")),
        ("tag,name,id\n", "x,Rosa,ID", Some("x")),
        ("name,id,tag\n", "Rosa,ID,", None),
        ("name,id\n", "Rosa,ID", None),
        ("id,name\n", "ID,Rosa", None),
    ]) {
        let row = row.replace("ID", &id.to_string());
        let answer = client.import(Format::Csv, "", format!("{header}{row}\nx\n"));
        let errors = answer.assert_report(Counts { failed: 1, ..CREATED_ONE });
        assert_eq!(errors, [(3, 1004)], "{header:?}");
        client.read(id).assert_new_plant(id, "Rosa", tag);
    }
}

#[test]
fn a_row_with_a_quote_that_is_never_closed_is_not_imported() {
    for open in ["7,\"Rosa", "7,\"Rosa,x\n8,Abies,y\n", "7,Rosa,\"", "7,\"Rosa \"\""] {
        let server = TestServer::start();
        let client = server.client();
        let answer = client.import(Format::Csv, "", format!("id,name,tag\n1,Rosa,x\n{open}"));
        let errors = answer.assert_report(Counts { failed: 1, ..CREATED_ONE });
        assert_eq!(errors[0].0, 3, "{open:?}: {answer:?}");
        // Both numbers are right: the text is broken, and so is the row.
        assert!(matches!(errors[0].1, 1001 | 1004), "{open:?}: {answer:?}");
        assert_eq!(listed(&client), [NewPlant::new(1, "Rosa", Some("x"))]);
    }
}

#[test]
fn a_row_of_json_that_is_too_long_is_1003_and_the_next_one_is_taken() {
    for long in [ROW_MAX_BYTES + 1, 3 * ROW_MAX_BYTES, 1_000_000] {
        let server = TestServer::start();
        let client = server.client();
        let body = body_of(1, ROW_MAX_BYTES)
            + "\n"
            + &body_of(2, long)
            + "\n"
            + &body_of(3, ROW_MAX_BYTES)
            + "\r\n"
            + &"x".repeat(long)
            + "\n"
            + &body_of(4, 100)
            + "\n"
            + &body_of(5, long);
        let answer = client.import(Format::Ndjson, "", body);
        let errors = answer.assert_report(Counts { created: 3, failed: 3, ..Counts::default() });
        assert_eq!(errors, [(2, 1003), (4, 1003), (6, 1003)], "{long}");
        assert_eq!(listed(&client), [1, 3, 4].map(|id| NewPlant::new(id, "Rosa", None)));
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(message.contains("65536"), "no limit in {message}");
    }
}

#[test]
fn a_csv_import_stops_at_a_row_that_is_too_long_and_says_so() {
    let long = "x".repeat(ROW_MAX_BYTES);
    for row in [format!("2,{long},x\n"), format!("2,\"{long}\",x\n"), format!("2,\"Rosa,x\n{long}")]
    {
        let server = TestServer::start();
        let client = server.client();
        let body = format!("id,name,tag\n1,Rosa,x\n{row}3,Rosa,x\n4,Rosa,x\n");
        let answer = client.import(Format::Csv, "", body);
        let errors = answer.assert_report(Counts { failed: 1, ..CREATED_ONE });
        assert_eq!(errors, [(3, 1003)], "{answer:?}");
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(message.contains("65536"), "no limit in {message}");
        assert!(message.contains("stop"), "the message does not name the stop: {message}");
        assert_eq!(listed(&client), [NewPlant::new(1, "Rosa", Some("x"))]);
    }
    // A row of the largest size breaks only another rule, and the next row is imported.
    let server = TestServer::start();
    let name = "x".repeat(ROW_MAX_BYTES - "2,,x".len());
    let body = format!("id,name,tag\n2,{name},x\n3,Rosa,\n");
    let answer = server.client().import(Format::Csv, "", body);
    assert_eq!(answer.assert_report(Counts { failed: 1, ..CREATED_ONE }), [(2, 1005)]);
    assert_eq!(listed(&server.client()), [NewPlant::new(3, "Rosa", None)]);
}

#[test]
fn another_content_type_is_1002() {
    let server = TestServer::start();
    let json = ["application/json; charset=latin1", "text/json", "application/ndjson"];
    let csv = ["text/csvx", "application/csv", "text/csv; charset=latin1"];
    let others = ["", "text/plain", "multipart/form-data; boundary=x"];
    let two = [
        "application/x-ndjson, text/csv",
        "application/x-ndjson\r\nContent-Type: application/x-ndjson",
        "application/x-ndjson\r\nContent-Encoding: gzip",
    ];
    let types = [&json[..], &csv, &others, &two].concat();
    let types = types.into_iter().map(|value| format!("Content-Type: {value}\r\n"));
    for lines in types.chain([String::new()]) {
        let answer = send(&server, "", &lines, r#"{"id":1,"name":"Rosa"}"#);
        assert_eq!(answer.status, 400, "{lines:?}: {answer:?}");
        let message = answer.assert_error(400, 1002);
        assert!(message.contains("ontent"), "{lines:?}: {message}");
        server.client().read(1).assert_error(404, 3002);
    }
    let mut connection = server.connect();
    for (id, content_type, body) in [
        (1, "Application/X-NDJSON", r#"{"id":1,"name":"Rosa"}"#),
        (2, "application/x-ndjson; charset=utf-8", r#"{"id":2,"name":"Rosa"}"#),
        (3, "Text/CSV", "id,name,tag\n3,Rosa,\n"),
        (4, "text/csv;charset=UTF-8", "id,name,tag\n4,Rosa,\n"),
        (5, "text/csv; charset=utf-8; header=present", "id,name,tag\n5,Rosa,\n"),
        (6, "application/json", "[{\"id\":6,\"name\":\"Rosa\"}]"),
        (7, "Application/JSON;charset=utf-8", "[ {\"id\":7,\"name\":\"Rosa\"} ]\n"),
    ] {
        // One connection for all: an import keeps it open.
        let lines = format!("Content-Type: {content_type}\r\n");
        connection.send(raw_request("POST /plants/import", &lines, body));
        connection.receive().assert_report(CREATED_ONE);
        server.client().read(id).assert_new_plant(id, "Rosa", None);
    }
}

#[test]
fn every_label_of_utf_8_and_ascii_is_taken_and_a_byte_order_mark_skipped_in_every_format() {
    let server = TestServer::start();
    let client = server.client();
    for media_type in ["application/x-ndjson", "text/csv", "application/json"] {
        for charset in UTF_8_CHARSETS {
            let plant = NewPlant::new(1, "Rosa é", None);
            let rows = match media_type {
                "text/csv" => Format::Csv.body(&[plant]),
                "application/json" => format!("[{}]", plant.json()),
                _ => format!("{}\n\u{feff}\n", plant.json()),
            };
            let failed = u64::from(media_type == "application/x-ndjson");
            let lines = format!("Content-Type: {media_type}{charset}\r\n{CHUNKED}\r\n");
            let mut connection = server.connect();
            connection.send(raw_head("POST /plants/import", &lines));
            // The mark arrives in parts.
            let body = format!("\u{feff}{rows}").into_bytes();
            for part in [&body[..1], &body[1..4], &body[4..], &b""[..]] {
                connection.send(chunk(part));
            }
            let errors = connection.receive().assert_report(Counts { failed, ..CREATED_ONE });
            let second_line: &[_] = if failed == 1 { &[(2, 1001)] } else { &[] };
            assert_eq!(errors, second_line, "{media_type}{charset}: a mark elsewhere is no mark");
            client.read(1).assert_new_plant(1, "Rosa é", None);
            client.delete(1).assert_no_content();
        }
    }
}

#[test]
fn the_elements_of_a_json_array_are_taken_until_its_syntax_breaks() {
    let server = TestServer::start();
    let client = server.client();
    let import = |body: &str| {
        send(&server, "?on_conflict=replace", "Content-Type: application/json\r\n", body)
    };
    let [rosa, salix] = [1, 2].map(|id| NewPlant::new(id, "Rosa", None).json());
    let errors = import(&format!("[\n{rosa},\n{{}},\n {salix}\n]"));
    let errors = errors.assert_report(Counts { created: 2, failed: 1, ..Counts::default() });
    assert_eq!(errors, [(3, 1004)]);
    for (body, line, word) in [
        (format!("[{rosa}\n{salix}]"), 2, "comma is missing"),
        (format!("[{rosa},\n]"), 2, "comma"),
        (format!("[{rosa},\n,{salix}]"), 2, "comma"),
        (format!("[{rosa},\n"), 2, "body ends"),
        (format!("[{rosa}"), 1, "body ends"),
        (format!("[{rosa}]\n{salix}"), 2, "follows the end"),
        (format!("[{rosa}]\n[{salix}]"), 2, "follows the end"),
        (format!("[{rosa}]]"), 1, "follows the end"),
        (format!("[{rosa}x,{salix}]"), 1, "comma is missing"),
        (format!("[{rosa},\n\"a"), 2, "body ends"),
        (format!("[{rosa},\n1"), 2, "body ends"),
        (format!("[{rosa},\nx,{salix}]"), 2, ""),
        (format!("[{rosa},\n}},{salix}]"), 2, ""),
        (format!("[{rosa},\n{{\"id\":1],{salix}]"), 2, ""),
        (format!("[{rosa},\n{{\"id\":1,\"name\":\"Ro\"sa\"}},{salix}]"), 2, ""),
    ] {
        let answer = import(&body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        let report = answer.json();
        assert_eq!((&report["replaced"], &report["failed"]), (&1.into(), &1.into()), "{body}");
        assert_eq!(report["errors"][0]["line"], line, "{body}");
        assert_eq!(report["errors"][0]["error"], 1001, "{body}");
        let message = report["errors"][0]["message"].as_str().expect("a message");
        let words = [word, "the import stops here, and what was taken before stays"];
        assert!(words.into_iter().all(|word| message.contains(word)), "{body}: {message}");
    }
    // After an element that is too large, nothing more is imported: its end may not be found.
    let (largest, long) = (body_of(1, ROW_MAX_BYTES), body_of(1, ROW_MAX_BYTES + 1));
    let report = import(&format!("[{largest},\n{long},{salix}]")).json();
    assert_eq!((&report["replaced"], &report["failed"]), (&1.into(), &1.into()), "{report}");
    let failed = &report["errors"][0];
    assert_eq!((&failed["line"], &failed["error"]), (&2.into(), &1003.into()), "{report}");
    for body in ["", " \n", &rosa, "null", "\u{feff}\u{feff}[]", "\"[]\"", "]", "x[]"] {
        assert!(import(body).assert_error(400, 1004).contains("array"), "{body}");
    }
    assert_eq!(listed(&client).len(), 2);
}

#[test]
fn a_wrong_parameter_is_1006_and_nothing_is_imported() {
    let server = TestServer::start();
    let client = server.client();
    let values = ["=other", "=", "", "=Skip", "=skip%20", "=skip,replace", "=%ff", "=skip&x=1"];
    let mut queries: Vec<String> =
        values.iter().map(|value| format!("on_conflict{value}")).collect();
    queries.push("on_conflict=skip&on_conflict=skip".to_owned());
    queries.push("on_conflict=error&on_conflict=replace".to_owned());
    queries.extend(["On_conflict=skip", "limit=1", "x", "="].map(str::to_owned));
    for query in queries {
        for format in Format::ALL {
            let lines = format!("Content-Type: {}\r\n", format.media_type());
            let answer = send(&server, &format!("?{query}"), &lines, format.body(&plants(1, 1)));
            assert_eq!(answer.status, 400, "{query}: {answer:?}");
            answer.assert_error(400, 1006);
            client.read(1).assert_error(404, 3002);
        }
    }
}

/// Parts of the row after `sent` rows. One of them could be taken for a whole row.
fn half_rows(format: Format, sent: i64) -> Vec<String> {
    let plant = plants(sent, 1).remove(0);
    match format {
        Format::Ndjson => vec![plant.json()[..plant.json().len() / 2].to_owned()],
        Format::Csv => vec![
            format!("{sent},plant"),
            format!("{sent},plant,ta"),
            format!("{sent},\"plant \"\"{sent}\"\""),
        ],
    }
}

/// Cuts an import within a row. Asserts that only whole rows from the first on were imported, and that a second
/// import completes them.
#[track_caller]
fn check_cut(format: Format, framing: &str, half_row: usize, cut: fn(Connection)) {
    const ROWS: i64 = 200;
    let case = format!("{format:?} {framing} {half_row}");
    let server = TestServer::start();
    let mut connection = server.connect();
    connection.send(head(format, "", framing));
    let send = |connection: &mut Connection, text: &str| match framing {
        // An empty chunk would be the end.
        CHUNKED if !text.is_empty() => connection.send(chunk(text)),
        _ => connection.send(text),
    };
    send(&mut connection, format.header());
    let mut sent = 0;
    wait_until("the first row of an import whose body goes on", || {
        let rows: String = plants(sent, ROWS).iter().map(|plant| format.row(plant)).collect();
        send(&mut connection, &rows);
        sent += ROWS;
        server.client().read(0).status == 200
    });
    send(&mut connection, &half_rows(format, sent)[half_row]);
    cut(connection);

    let client = server.client();
    let wanted = plants(0, sent + 10);
    let there = listed(&client);
    assert!(!there.is_empty() && there.len() <= usize::try_from(sent).expect("a count"), "{case}");
    assert_eq!(there, wanted[..there.len()], "{case}: a row that was not sent whole");
    let again = client.import(format, "on_conflict=skip", format.body(&wanted)).json();
    let count = |name: &str| again[name].as_u64().expect("a count");
    assert_eq!((count("failed"), count("replaced")), (0, 0), "{case}: {again}");
    assert_eq!(count("created") + count("skipped"), wanted.len() as u64, "{case}: {again}");
    assert!(count("skipped") >= there.len() as u64, "{case}: {again}");
    assert_eq!(listed(&client), wanted, "{case}");
}

#[test]
fn an_import_that_is_cut_leaves_whole_rows_and_a_second_one_completes_it() {
    let finish = |mut connection: Connection| {
        connection.finish_sending();
        connection.wait_for_close();
    };
    for format in Format::ALL {
        for half_row in 0..half_rows(format, 0).len() {
            check_cut(format, CHUNKED, half_row, finish);
            check_cut(format, LENGTH, half_row, finish);
        }
        check_cut(format, LENGTH, 0, Connection::reset);
    }
}

#[test]
fn a_client_that_pauses_is_5004_and_one_that_is_slow_but_steady_is_served() {
    const STEP: Duration = Duration::from_secs(2);
    let server = TestServer::start();
    let format = Format::Ndjson;
    let rows = plants(1, 7);
    let open = |framing: &str| {
        let mut connection = server.connect();
        connection.send(head(format, "", framing));
        connection
    };
    // The first client sends no row, the second stops after a row, and the third within a row.
    let mut pausing = ["", "{\"id\":100,\"name\":\"Rosa\"}\n", "{\"id\":100,\"na"].map(|text| {
        let mut connection = open("Content-Length: 1000");
        connection.send(text);
        connection
    });
    let (mut steady, mut in_pieces) = (open(CHUNKED), open(CHUNKED));
    for row in &rows {
        thread::sleep(STEP);
        steady.send(chunk(format.row(row)));
        in_pieces.send(chunk("\n"));
    }
    for connection in [&mut steady, &mut in_pieces] {
        connection.send("0\r\n\r\n");
    }
    let counts = Counts { created: rows.len() as u64, ..Counts::default() };
    assert_eq!(steady.receive().assert_report(counts), []);
    assert_eq!(in_pieces.receive().assert_report(Counts::default()), []);
    for connection in &mut pausing {
        connection.receive().assert_error(408, 5004);
        connection.wait_for_close();
    }
    // The complete row of the second client may have been stored; the incomplete row of the third was not.
    let hundredth = server.client().read(100);
    if hundredth.status != 404 {
        hundredth.assert_new_plant(100, "Rosa", None);
    }
    assert_eq!(server.client().list_all("limit=1000")[..rows.len()], rows);
}

#[test]
fn an_import_that_outlives_the_drain_reports_how_far_it_came() {
    let mut server = TestServer::start_with(Launch::new().arguments(["--drain-timeout", "6s"]));
    let format = Format::Ndjson;
    let [mut begun, mut ceaseless, mut without_rows] = [(); 3].map(|()| server.connect());
    for (connection, rows) in [
        (&mut begun, plants(1, 2)),
        (&mut ceaseless, plants(3, 1)),
        (&mut without_rows, Vec::new()),
    ] {
        connection.send(head(format, "", CHUNKED));
        connection.send(chunk(format.body(&rows) + "\n"));
    }
    wait_until("the rows to be taken", || listed(&server.client()) == plants(1, 3));

    server.process().send_terminate();
    begun.send(chunk(format.row(&plants(4, 1)[0])));
    let is_answered = AtomicBool::new(false);
    let message = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_answered.load(Ordering::Relaxed) && ceaseless.try_send(chunk("\n")).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let answer = begun.try_receive();
        is_answered.store(true, Ordering::Relaxed);
        answer.expect("an answer").assert_error(503, 5002)
    });
    assert!(
        message.contains("shutting down") && message.contains("3 plants were created"),
        "{message}"
    );
    without_rows.receive().assert_error(503, 5003);
    let message = ceaseless.receive().assert_error(503, 5002);
    assert!(message.contains("1 plants were created"), "{message}");
    server.process().wait_for_exit();

    server.restart();
    assert_eq!(listed(&server.client()), plants(1, 4));
}
