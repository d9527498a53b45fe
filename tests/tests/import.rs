//! `POST /plants/import`: each row stands alone, the report says what became of it, and what was
//! taken stays.

use std::io::{self, Write as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Answer, Client, Connection, Counts, Format, Launch, NewPlant, Process, TOKEN, TestServer,
    chunk, program, raw_head, raw_request, wait_for, wait_until, write_tokens_file,
};

/// The longest row that is taken, in bytes.
const ROW_MAX_BYTES: usize = 65_536;

/// How many errors a report lists at most.
const ERRORS_MAX: usize = 1000;

const CREATED_ONE: Counts = Counts { created: 1, replaced: 0, skipped: 0, failed: 0 };

/// Sends a whole import, whose body may be no text.
#[track_caller]
fn send(server: &TestServer, query: &str, lines: &str, body: impl AsRef<[u8]>) -> Answer {
    let mut connection = server.connect();
    connection.send(raw_request(&format!("POST /plants/import{query}"), lines, body));
    connection.receive()
}

/// The head of an import whose body is framed as `framing` says.
fn head(format: Format, query: &str, framing: &str) -> String {
    let lines = format!("Content-Type: {}\r\n{framing}\r\n", format.media_type());
    raw_head(&format!("POST /plants/import{query}"), &lines)
}

const CHUNKED: &str = "Transfer-Encoding: chunked";

/// `length` plants, from `first` on, no two of them alike.
fn plants(first: i64, length: i64) -> Vec<NewPlant> {
    let plant = |id: i64| {
        let tag = (id % 3 != 0).then(|| format!("tag {}", id % 7));
        NewPlant::new(id, &format!("plant \"{id}\", as it is"), tag.as_deref())
    };
    (first..first + length).map(plant).collect()
}

/// Everything that is there.
#[track_caller]
fn listed(client: &Client) -> Vec<NewPlant> {
    client.list_all("limit=1000")
}

/// A body of good rows with one of these between any two, the lines on which these stand, and the
/// good ones.
fn with_good_rows_between(format: Format, bad: &[&[u8]]) -> (Vec<u8>, Vec<u64>, Vec<NewPlant>) {
    let good = plants(1000, i64::try_from(bad.len()).expect("not many rows") + 1);
    let mut body = format.header().as_bytes().to_vec();
    let mut lines = Vec::new();
    for (bad, good) in bad.iter().zip(&good) {
        body.extend_from_slice(format.row(good).as_bytes());
        lines.push(body.iter().filter(|byte| **byte == b'\n').count() as u64 + 1);
        body.extend_from_slice(bad);
        body.push(b'\n');
    }
    body.extend_from_slice(format.row(&good[bad.len()]).as_bytes());
    (body, lines, good)
}

/// Claims that of these rows each fails with its number, by itself.
#[track_caller]
fn check_rows(format: Format, bad: &[(&[u8], i64)]) {
    let rows: Vec<&[u8]> = bad.iter().map(|(row, _)| *row).collect();
    let (body, lines, good) = with_good_rows_between(format, &rows);
    let server = TestServer::start();
    let answer = server.client().import(format, "", body);
    let failed = bad.len() as u64;
    let wanted: Vec<(u64, i64)> =
        lines.into_iter().zip(bad).map(|(line, (_, number))| (line, *number)).collect();
    let counts = Counts { created: good.len() as u64, failed, ..Counts::default() };
    assert_eq!(answer.assert_report(counts), wanted, "{answer:?}");
    assert_eq!(listed(&server.client()), good);
}

#[test]
fn each_row_becomes_a_plant() {
    for format in Format::ALL {
        let mut server = TestServer::start();
        let client = server.client();
        let mut all = plants(-200, 400);
        all.extend([i64::MAX, i64::MIN].map(|id| NewPlant::new(id, " edges ", Some("=1+1"))));
        let answer = client.import(format, "", format.body(&all));
        let counts = Counts { created: all.len() as u64, ..Counts::default() };
        assert_eq!(answer.assert_report(counts), []);
        all.sort();
        assert_eq!(listed(&client), all);
        assert!(client.read(i64::MIN).revision() > 0);
        server.kill();
        server.restart();
        assert_eq!(listed(&server.client()), all);
    }
}

#[test]
fn a_row_whose_plant_is_there_is_refused_skipped_or_taken_as_the_import_says() {
    for format in Format::ALL {
        let server = TestServer::start();
        let client = server.client();
        let rows = [
            NewPlant::new(1, "Rosa", Some("same")),
            NewPlant::new(2, "Rosa", Some("new")),
            NewPlant::new(3, "Rosa", None),
            NewPlant::new(4, "Rosa", Some("made")),
        ];
        client.create(1, "Rosa", Some("same")).assert_plant("Rosa", Some("same"));
        client.create(2, "Abies", Some("old")).assert_plant("Abies", Some("old"));
        client.create(3, "Rosa", Some("old")).assert_plant("Rosa", Some("old"));
        let before = [1, 2, 3].map(|id| client.read(id));
        let unchanged = |client: &Client| {
            for (id, before) in (1..).zip(&before) {
                let now = client.read(id);
                assert_eq!((&now.body, now.header("etag")), (&before.body, before.header("etag")));
            }
        };

        for query in ["", "on_conflict=error"] {
            let answer = client.import(format, query, format.body(&rows));
            let errors = answer.assert_report(Counts { failed: 3, ..CREATED_ONE });
            let first = format.first_line();
            assert_eq!(errors, [first, first + 1, first + 2].map(|line| (line, 3001)));
            unchanged(&client);
            client.read(4).assert_new_plant(4, "Rosa", Some("made"));
            client.delete(4).assert_no_content();
        }

        let answer = client.import(format, "on_conflict=skip", format.body(&rows));
        assert_eq!(answer.assert_report(Counts { skipped: 3, ..CREATED_ONE }), []);
        unchanged(&client);
        client.delete(4).assert_no_content();

        let answer = client.import(format, "on_conflict=replace", format.body(&rows));
        assert_eq!(answer.assert_report(Counts { replaced: 3, ..CREATED_ONE }), []);
        assert_eq!(listed(&client), rows);
        assert_eq!(client.list_all("tag=old"), []);
        // One that is the same counts as replaced and is not written.
        assert_eq!(client.read(1).header("etag"), before[0].header("etag"));
        for (id, before) in [2, 3].into_iter().zip(&before[1..]) {
            assert!(client.read(id).revision() > before.revision());
        }
    }
}

#[test]
fn an_import_that_is_sent_again_with_replace_writes_nothing() {
    for format in Format::ALL {
        let server = TestServer::start();
        let client = server.client();
        let all = plants(1, 300);
        let first = client.import(format, "", format.body(&all));
        first.assert_report(Counts { created: 300, ..Counts::default() });
        let before = [1, 150, 300].map(|id| client.read(id));
        let last = client.create(0, "Rosa", None);
        let again = client.import(format, "on_conflict=replace", format.body(&all));
        assert_eq!(again.assert_report(Counts { replaced: 300, ..Counts::default() }), []);
        let next = client.create(-1, "Rosa", None);
        next.assert_next_revision_after(&last);
        for (id, before) in [1, 150, 300].into_iter().zip(&before) {
            assert_eq!(client.read(id).header("etag"), before.header("etag"), "{id}");
        }
    }
}

#[test]
fn of_rows_with_one_id_in_one_import_the_first_is_there_when_the_second_comes() {
    let rows = [
        NewPlant::new(1, "first", Some("a")),
        NewPlant::new(2, "other", None),
        NewPlant::new(1, "second", Some("b")),
        NewPlant::new(1, "first", Some("a")),
        NewPlant::new(1, "last", None),
    ];
    for format in Format::ALL {
        let third = format.first_line() + 2;
        let two = Counts { created: 2, ..Counts::default() };
        for (query, counts, errors, name, tag) in [
            ("", Counts { failed: 3, ..two }, 3, "first", Some("a")),
            ("on_conflict=skip", Counts { skipped: 3, ..two }, 0, "first", Some("a")),
            ("on_conflict=replace", Counts { replaced: 3, ..two }, 0, "last", None),
        ] {
            let server = TestServer::start();
            let client = server.client();
            let answer = client.import(format, query, format.body(&rows));
            let wanted = [third, third + 1, third + 2].map(|line| (line, 3001));
            assert_eq!(answer.assert_report(counts), wanted[..errors], "{query}");
            client.read(1).assert_new_plant(1, name, tag);
            assert_eq!(listed(&client).len(), 2);
        }
    }
}

#[test]
fn an_empty_body_of_rows_of_json_reports_zeros() {
    let server = TestServer::start();
    let lines = "Content-Type: application/x-ndjson\r\n";
    for body in ["", "\n", "\r\n", "\n\n\r\n\n"] {
        let answer = send(&server, "", lines, body);
        assert_eq!(answer.assert_report(Counts::default()), [], "{body:?}");
    }
    let mut connection = server.connect();
    connection.send(head(Format::Ndjson, "", CHUNKED) + "0\r\n\r\n");
    assert_eq!(connection.receive().assert_report(Counts::default()), []);
    let answer = server.client().import(Format::Csv, "", "id,name,tag\n");
    assert_eq!(answer.assert_report(Counts::default()), []);
    let answer = server.client().import(Format::Csv, "", "id,name,tag");
    assert_eq!(answer.assert_report(Counts::default()), []);
    assert_eq!(listed(&server.client()), []);
}

#[test]
fn blank_lines_are_skipped_and_counted_and_line_ends_are_of_both_kinds() {
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
fn the_last_line_needs_no_line_end() {
    for format in Format::ALL {
        let server = TestServer::start();
        let client = server.client();
        for plant in plants(1, 3) {
            let answer = client.import(format, "", format.body([&plant]).trim_end());
            answer.assert_report(CREATED_ONE);
            client.read(plant.id).assert_new_plant(plant.id, &plant.name, plant.tag.as_deref());
        }
    }
}

#[test]
fn a_row_of_json_keeps_the_rules_of_a_create_and_fails_with_its_number() {
    let long = format!(r#"{{"id":7,"name":"{}"}}"#, "é".repeat(256));
    check_rows(
        Format::Ndjson,
        &[
            (b"{", 1001),
            (b"nul", 1001),
            (br#"{"id":7,"name":"Rosa"}}"#, 1001),
            (br#"{"id":7,"name":"Rosa"}{"id":8,"name":"Rosa"}"#, 1001),
            (br#"{"id":7,"name":"Rosa"},"#, 1001),
            (br#"{"id":07,"name":"Rosa"}"#, 1001),
            (br#"{"id":7,"name":"\ud800"}"#, 1001),
            (b"{\"id\":7,\"name\":\"R\xf6sa\"}", 1001),
            (b"\xef\xbb\xbf{\"id\":7,\"name\":\"Rosa\"}", 1001),
            (b"{\"id\":7,\"name\":\"Ro\tsa\"}", 1001),
            (b"id,name,tag", 1001),
            (b"null", 1004),
            (b"7", 1004),
            (br#"[7,"Rosa",null]"#, 1004),
            (br#"[{"id":7,"name":"Rosa"}]"#, 1004),
            (br#"{"id":7}"#, 1004),
            (br#"{"name":"Rosa"}"#, 1004),
            (br#"{"id":"7","name":"Rosa"}"#, 1004),
            (br#"{"id":7.0,"name":"Rosa"}"#, 1004),
            (br#"{"id":9223372036854775808,"name":"Rosa"}"#, 1004),
            (br#"{"id":7,"id":7,"name":"Rosa"}"#, 1004),
            (br#"{"id":7,"name":null}"#, 1004),
            (br#"{"id":7,"name":"Rosa","tag":7}"#, 1004),
            (br#"{"id":7,"name":""}"#, 1005),
            (br#"{"id":7,"name":" \u3000"}"#, 1005),
            (br#"{"id":7,"name":"a\nb"}"#, 1005),
            (br#"{"id":7,"name":"Rosa","tag":""}"#, 1005),
            (long.as_bytes(), 1005),
            (br#"{"id":1000,"name":"again"}"#, 3001),
        ],
    );
}

#[test]
fn a_row_of_json_is_taken_however_it_is_spelled() {
    let server = TestServer::start();
    let client = server.client();
    let body = concat!(
        " \t{ \"name\" : \"Rosa\", \"id\" : 1 } \r\n",
        "{\"\\u0069d\":2,\"name\":\"\\u0052osa\",\"tag\":null}\n",
        "{\"id\":3,\"name\":\"Rosa\",\"more\":{\"id\":8,\"x\":[1e999]},\"Name\":1}\n",
    );
    client
        .import(Format::Ndjson, "", body)
        .assert_report(Counts { created: 3, ..Counts::default() });
    assert_eq!(listed(&client), [1, 2, 3].map(|id| NewPlant::new(id, "Rosa", None)));
}

#[test]
fn a_row_of_csv_keeps_the_rules_of_a_create_and_fails_with_its_number() {
    let long = format!("7,{},", "é".repeat(256));
    let long_tag = format!("7,Rosa,{}", "é".repeat(256));
    check_rows(
        Format::Csv,
        &[
            (b"7", 1004),
            (b"7,Rosa", 1004),
            (b"7,Rosa,x,", 1004),
            (b"7,Rosa,x,y", 1004),
            (b"7,Abies, alba,x", 1004),
            (b"7,a,b,c,d,e,f,g", 1004),
            (b"7,\"a\"b,x", 1004),
            (b"7,\"a\" ,x", 1004),
            (b"7,\"a\"b,\"\n\"", 1004),
            (b"007,Rosa,x", 1004),
            (b",Rosa,x", 1004),
            (b"x,Rosa,x", 1004),
            (b"1.5,Rosa,x", 1004),
            (b"7e0,Rosa,x", 1004),
            (b"9223372036854775808,Rosa,x", 1004),
            (b"-9223372036854775809,Rosa,x", 1004),
            (b"id,name,tag", 1004),
            (b"7,R\xf6sa,x", 1001),
            (b"7,Rosa,\xed\xa0\x80", 1001),
            (b"7,,x", 1005),
            (b"7,\"\",x", 1005),
            (b"7, ,x", 1005),
            (b"7,Rosa, ", 1005),
            (b"7,a\0b,x", 1005),
            (b"7,\"a\tb\",x", 1005),
            (b"7,\"a\nb\",x", 1005),
            (b"7,\"a\r\n\nb\",x", 1005),
            (long.as_bytes(), 1005),
            (long_tag.as_bytes(), 1005),
            (b"1000,again,", 3001),
        ],
    );
}

#[test]
fn a_cell_is_taken_exactly_as_it_is_meant() {
    let server = TestServer::start();
    let client = server.client();
    let body = concat!(
        "id,name,tag\n",
        "1,Rosa,Rosaceae\n",
        "2,\"Rosa\",\"Rosaceae\"\n",
        "\"3\",\"Abies, alba\",\"a,b\"\n",
        "4,\"the \"\"queen\"\"\",\"\"\"\"\n",
        "5, edges , x \n",
        "6,\" edges \",\"\"\n",
        "7,=1+1,@x\n",
        "8,+x,-x\n",
        "-9,'x',;x\n",
        "9,#x,\n",
        "10,null,NULL\n",
        "11,\u{feff}x,\u{2028}x\n",
        "12,植物 🌱,\\n\n",
        "13,%41,a\\\"b\n",
    );
    client.import(Format::Csv, "", body).assert_report(Counts { created: 14, ..Counts::default() });
    let wanted = [
        NewPlant::new(-9, "'x'", Some(";x")),
        NewPlant::new(1, "Rosa", Some("Rosaceae")),
        NewPlant::new(2, "Rosa", Some("Rosaceae")),
        NewPlant::new(3, "Abies, alba", Some("a,b")),
        NewPlant::new(4, "the \"queen\"", Some("\"")),
        NewPlant::new(5, " edges ", Some(" x ")),
        NewPlant::new(6, " edges ", None),
        NewPlant::new(7, "=1+1", Some("@x")),
        NewPlant::new(8, "+x", Some("-x")),
        NewPlant::new(9, "#x", None),
        NewPlant::new(10, "null", Some("NULL")),
        NewPlant::new(11, "\u{feff}x", Some("\u{2028}x")),
        NewPlant::new(12, "植物 🌱", Some("\\n")),
        NewPlant::new(13, "%41", Some("a\\\"b")),
    ];
    assert_eq!(listed(&client), wanted);
}

#[test]
fn a_csv_body_begins_with_its_header_and_may_have_a_byte_order_mark_before_it() {
    let server = TestServer::start();
    let client = server.client();
    for header in [
        "",
        "\n",
        "1,Rosa,x",
        "id,tag",
        "id,name,tag,more",
        "name,id,id",
        "ID,Name,Tag",
        "id, name, tag",
        "id;name;tag",
        "id\tname\ttag",
        "{\"id\":1,\"name\":\"Rosa\"}",
        "\u{feff}\u{feff}id,name,tag",
        "\n\u{feff}id,name,tag",
        "id,name,",
        "id,\"name\"x,tag",
        "\"id,name,tag",
    ] {
        for body in [format!("{header}\n1,Rosa,x\n"), header.to_owned()] {
            let answer = send(&server, "", "Content-Type: text/csv\r\n", &body);
            assert_eq!(answer.status, 400, "{body:?}: {answer:?}");
            let message = answer.assert_error(400, 1004);
            assert!(message.contains("id,name,tag"), "{message}");
            client.read(1).assert_error(404, 3002);
        }
    }
    for (id, header) in (1..).zip([
        "id,name,tag\n",
        "id,name,tag\r\n",
        "\u{feff}id,name,tag\n",
        "\u{feff}id,name,tag\r\n",
        "\"id\",\"name\",\"tag\"\n",
        "\u{feff}\"id\",name,tag\n",
    ]) {
        let answer = client.import(Format::Csv, "", format!("{header}{id},Rosa,x\nx,Rosa,x\n"));
        let errors = answer.assert_report(Counts { failed: 1, ..CREATED_ONE });
        assert_eq!(errors, [(3, 1004)], "{header:?}");
        client.read(id).assert_new_plant(id, "Rosa", Some("x"));
    }
}

#[test]
fn the_columns_of_a_csv_body_may_come_in_any_order_and_a_wrong_one_is_named() {
    let server = TestServer::start();
    let client = server.client();
    for (id, (header, row, tag)) in (1..).zip([
        ("tag,name,id", "x,Rosa,1", Some("x")),
        ("name,id,tag", "Rosa,2,", None),
        ("name,id", "Rosa,3", None),
        ("id,name", "4,Rosa", None),
    ]) {
        client.import(Format::Csv, "", format!("{header}\n{row}\n")).assert_report(CREATED_ONE);
        client.read(id).assert_new_plant(id, "Rosa", tag);
    }
    for (header, problems) in [
        ("id,name,genus", &["\"genus\" is unknown"] as &[_]),
        ("id,name,tag,genus,species", &["\"genus\" is unknown"]),
        ("id,name,tag,name", &["\"name\" is repeated"]),
        ("ID,name", &["\"ID\" is unknown", "\"id\" is missing"]),
        ("tag", &["\"id\" is missing", "\"name\" is missing"]),
        ("1,Rosa,x", &["\"1\" is unknown", "\"id\" is missing"]),
        ("", &["there is none"]),
    ] {
        let answer = client.import(Format::Csv, "", format!("{header}\n"));
        let message = answer.assert_error(400, 1004);
        for problem in problems {
            assert!(message.contains(problem), "{header}: {message}");
        }
    }
}

#[test]
fn a_quote_that_is_open_at_the_end_leaves_its_row_untaken() {
    for open in ["7,\"Rosa", "7,\"Rosa,x\n8,Abies,y\n", "7,Rosa,\"", "7,\"Rosa \"\""] {
        let server = TestServer::start();
        let client = server.client();
        let answer = client.import(Format::Csv, "", format!("id,name,tag\n1,Rosa,x\n{open}"));
        let errors = answer.assert_report(Counts { failed: 1, ..CREATED_ONE });
        assert_eq!(errors[0].0, 3, "{open:?}: {answer:?}");
        // Whether it is the form of the text or of the row that is wrong can be argued.
        assert!(matches!(errors[0].1, 1001 | 1004), "{open:?}: {answer:?}");
        assert_eq!(listed(&client), [NewPlant::new(1, "Rosa", Some("x"))]);
    }
}

/// A row of JSON of exactly this many bytes, with its line end beyond.
fn json_row_of(id: i64, bytes: usize) -> String {
    let shortest = format!(r#"{{"id":{id},"name":"Rosa","note":""}}"#).len();
    format!("{{\"id\":{id},\"name\":\"Rosa\",\"note\":\"{}\"}}\n", "x".repeat(bytes - shortest))
}

#[test]
fn a_row_of_json_that_is_too_long_is_1003_and_the_next_one_is_taken() {
    for long in [ROW_MAX_BYTES + 1, 3 * ROW_MAX_BYTES, 1_000_000] {
        let server = TestServer::start();
        let client = server.client();
        let body = json_row_of(1, ROW_MAX_BYTES)
            + &json_row_of(2, long)
            + &json_row_of(3, ROW_MAX_BYTES).replace('\n', "\r\n")
            + &"x".repeat(long)
            + "\n"
            + &json_row_of(4, 100)
            + json_row_of(5, long).trim_end();
        let answer = client.import(Format::Ndjson, "", body);
        let errors = answer.assert_report(Counts { created: 3, failed: 3, ..Counts::default() });
        assert_eq!(errors, [(2, 1003), (4, 1003), (6, 1003)], "{long}");
        assert_eq!(listed(&client), [1, 3, 4].map(|id| NewPlant::new(id, "Rosa", None)));
        let message = answer.json()["errors"][0]["message"].to_string();
        assert!(message.contains("65536"), "the message does not tell the limit: {message}");
    }
}

#[test]
fn an_import_of_csv_stops_at_a_row_that_is_too_long_and_says_so() {
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
        assert!(message.contains("65536"), "the message does not tell the limit: {message}");
        assert!(message.contains("stop"), "the message does not tell of the end: {message}");
        assert_eq!(listed(&client), [NewPlant::new(1, "Rosa", Some("x"))]);
    }
    // One that is just not too long breaks another rule, and the next one is taken.
    let server = TestServer::start();
    let name = "x".repeat(ROW_MAX_BYTES - "2,,x".len());
    let body = format!("id,name,tag\n2,{name},x\n3,Rosa,\n");
    let answer = server.client().import(Format::Csv, "", body);
    assert_eq!(answer.assert_report(Counts { failed: 1, ..CREATED_ONE }), [(2, 1005)]);
    assert_eq!(listed(&server.client()), [NewPlant::new(3, "Rosa", None)]);
}

#[test]
fn a_report_counts_every_failure_and_lists_the_first_of_them() {
    for format in Format::ALL {
        let server = TestServer::start();
        let client = server.client();
        let failed = ERRORS_MAX as u64 + 500;
        let good = NewPlant::new(1, "Rosa", None);
        let body =
            format.header().to_owned() + &"x\n".repeat(ERRORS_MAX + 500) + &format.row(&good);
        let answer = client.import(format, "", body);
        let errors = answer.assert_report(Counts { failed, ..CREATED_ONE });
        let lines: Vec<_> = errors.iter().map(|(line, _)| *line).collect();
        let first = format.first_line();
        assert_eq!(lines, (first..first + ERRORS_MAX as u64).collect::<Vec<_>>());
        assert_eq!(listed(&client), [good]);
    }
}

#[test]
fn another_content_type_is_1002() {
    let server = TestServer::start();
    for lines in [
        "",
        "Content-Type:\r\n",
        "Content-Type: application/json; charset=latin1\r\n",
        "Content-Type: text/json\r\n",
        "Content-Type: application/ndjson\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: text/csvx\r\n",
        "Content-Type: application/csv\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: text/csv; charset=latin1\r\n",
        "Content-Type: application/x-ndjson, text/csv\r\n",
        "Content-Type: application/x-ndjson\r\nContent-Type: application/x-ndjson\r\n",
        "Content-Type: application/x-ndjson\r\nContent-Encoding: gzip\r\n",
    ] {
        let answer = send(&server, "", lines, r#"{"id":1,"name":"Rosa"}"#);
        assert_eq!(answer.status, 400, "{lines:?}: {answer:?}");
        let message = answer.assert_error(400, 1002);
        assert!(message.contains("ontent"), "{lines:?}: {message}");
        server.client().read(1).assert_error(404, 3002);
    }
    for (id, content_type, body) in [
        (1, "Application/X-NDJSON", r#"{"id":1,"name":"Rosa"}"#),
        (2, "application/x-ndjson; charset=utf-8", r#"{"id":2,"name":"Rosa"}"#),
        (3, "Text/CSV", "id,name,tag\n3,Rosa,\n"),
        (4, "text/csv;charset=UTF-8", "id,name,tag\n4,Rosa,\n"),
        (5, "text/csv; charset=utf-8; header=present", "id,name,tag\n5,Rosa,\n"),
        (6, "application/json", "[{\"id\":6,\"name\":\"Rosa\"}]"),
        (7, "Application/JSON;charset=utf-8", "[ {\"id\":7,\"name\":\"Rosa\"} ]\n"),
    ] {
        let answer = send(&server, "", &format!("Content-Type: {content_type}\r\n"), body);
        answer.assert_report(CREATED_ONE);
        server.client().read(id).assert_new_plant(id, "Rosa", None);
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
    // The end of an element that is too large may be missed.
    let (largest, long) = (json_row_of(1, ROW_MAX_BYTES), json_row_of(1, ROW_MAX_BYTES + 1));
    let report = import(&format!("[{largest},\n{long},{salix}]")).json();
    assert_eq!((&report["replaced"], &report["failed"]), (&1.into(), &1.into()), "{report}");
    let failed = &report["errors"][0];
    // The row before has its own line end.
    assert_eq!((&failed["line"], &failed["error"]), (&3.into(), &1003.into()), "{report}");
    for body in ["", " \n", &rosa, "null", "\u{feff}[]", "\"[]\"", "]", "x[]"] {
        assert!(import(body).assert_error(400, 1004).contains("array"), "{body}");
    }
    assert_eq!(listed(&client).len(), 2);
}

#[test]
fn a_parameter_that_is_wrong_is_1006_and_nothing_is_taken() {
    let server = TestServer::start();
    let client = server.client();
    for query in [
        "on_conflict=other",
        "on_conflict=",
        "on_conflict",
        "on_conflict=Skip",
        "on_conflict=skip%20",
        "on_conflict=skip,replace",
        "on_conflict=%ff",
        "on_conflict=skip&on_conflict=skip",
        "on_conflict=error&on_conflict=replace",
        "On_conflict=skip",
        "on_conflict=skip&x=1",
        "limit=1",
        "x",
        "=",
    ] {
        for format in Format::ALL {
            let body = format.body(&plants(1, 1));
            let lines = format!("Content-Type: {}\r\n", format.media_type());
            let answer = send(&server, &format!("?{query}"), &lines, body);
            assert_eq!(answer.status, 400, "{query}: {answer:?}");
            answer.assert_error(400, 1006);
            client.read(1).assert_error(404, 3002);
        }
    }
}

#[test]
fn a_token_that_may_only_read_may_not_import() {
    let server = TestServer::start_prepared(Launch::new(), "data", write_tokens_file);
    let body = Format::Ndjson.body(&plants(1, 1));
    for query in ["", "on_conflict=skip", "on_conflict=other"] {
        let reader = server.client().with_token("reader");
        reader.import(Format::Ndjson, query, &body).assert_error(403, 2003);
    }
    server.client().without_token().import(Format::Ndjson, "", &body).assert_error(401, 2001);
    assert_eq!(listed(&server.client()), []);
    let writer = server.client().with_token("writer");
    writer.import(Format::Ndjson, "", &body).assert_report(CREATED_ONE);
}

#[test]
fn a_body_may_come_in_pieces_of_any_length() {
    for (format, body, line) in [
        (
            Format::Ndjson,
            "{\"id\":1,\"name\":\"é🌱\"}\r\n\nx\n{\"id\":2,\"name\":\"b\",\"tag\":\"c\"}",
            3,
        ),
        (Format::Csv, "\u{feff}id,name,tag\r\n1,\"é\"\"🌱\",\"\"\n\nx\n2,\"b\",\"c,\"", 4),
    ] {
        let server = TestServer::start();
        let client = server.client();
        let check = |pieces: &[&[u8]]| {
            let mut connection = server.connect();
            connection.send(head(format, "?on_conflict=replace", CHUNKED));
            for piece in pieces {
                connection.send(chunk(piece));
            }
            connection.send("0\r\n\r\n");
            connection.receive()
        };
        let answer = check(&[body.as_bytes()]);
        answer.assert_report(Counts { created: 2, failed: 1, ..Counts::default() });
        let wanted = listed(&client);
        let again = Counts { replaced: 2, failed: 1, ..Counts::default() };
        let number = if format == Format::Csv { 1004 } else { 1001 };
        for at in 1..body.len() {
            let (begin, end) = body.as_bytes().split_at(at);
            let errors = check(&[begin, end]).assert_report(again);
            assert_eq!(errors, [(line, number)], "split at {at}");
        }
        for length in [1, 2, 3, 5] {
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(length).collect();
            assert_eq!(check(&pieces).assert_report(again), [(line, number)]);
        }
        // The same without chunks, in packets of their own.
        let mut connection = server.connect();
        let framing = format!("Content-Length: {}", body.len());
        connection.send(head(format, "?on_conflict=replace", &framing));
        connection.send_byte_by_byte(body);
        assert_eq!(connection.receive().assert_report(again), [(line, number)]);
        assert_eq!(listed(&client), wanted);
    }
}

#[test]
fn a_connection_is_kept_behind_an_import() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for id in 0..10 {
        let lines = "Content-Type: application/x-ndjson\r\n";
        let body = Format::Ndjson.body(&plants(id, 1));
        connection.send(raw_request("POST /plants/import", lines, body));
        connection.receive().assert_report(CREATED_ONE);
        connection.send(raw_request(&format!("GET /plants/{id}"), "", ""));
        assert_eq!(connection.receive().status, 200);
    }
}

#[test]
fn a_client_that_asks_before_it_sends_is_let_in() {
    let server = TestServer::start();
    let body = Format::Csv.body(&plants(1, 1));
    let framing = format!("Content-Length: {}\r\nExpect: 100-continue", body.len());
    let mut connection = server.connect();
    connection.send(head(Format::Csv, "", &framing));
    assert_eq!(connection.receive().status, 100);
    connection.send(body);
    connection.receive().assert_report(CREATED_ONE);
}

#[test]
fn imports_at_the_same_time_take_every_row() {
    const CLIENTS: i64 = 6;
    const ROWS: i64 = 1500;
    let server = TestServer::start();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let client = Client::new(server.address(), Some(TOKEN));
            scope.spawn(move || {
                let format = Format::ALL[usize::from(number % 2 == 0)];
                // Half of each one's rows are those of the next one, too.
                let rows = plants(number * ROWS / 2, ROWS);
                let answer = client.import(format, "on_conflict=skip", format.body(&rows));
                let report = answer.json();
                let count = |name: &str| report[name].as_i64().expect("a count");
                assert_eq!(count("created") + count("skipped"), ROWS, "{answer:?}");
            });
        }
        let client = server.client();
        for id in 1..=20 {
            client.create(-id, "Rosa", None).assert_plant("Rosa", None);
        }
    });
    let mut wanted: Vec<_> = (1..=20).map(|id| NewPlant::new(-id, "Rosa", None)).collect();
    wanted.extend(plants(0, (CLIENTS + 1) * ROWS / 2));
    wanted.sort();
    assert_eq!(listed(&server.client()), wanted);
}

#[test]
fn what_was_reported_is_there_after_sigkill() {
    for format in Format::ALL {
        let mut server = TestServer::start();
        for round in 0..3 {
            let rows = plants(round * 700, 700);
            let answer = server.client().import(format, "", format.body(&rows));
            answer.assert_report(Counts { created: 700, ..Counts::default() });
            server.kill();
            server.restart();
            assert_eq!(listed(&server.client()), plants(0, (round + 1) * 700));
        }
    }
}

/// Sends rows of an import until the first plant is seen to be there. Returns how many those were.
#[track_caller]
fn send_until_taken(
    server: &TestServer,
    connection: &mut Connection,
    format: Format,
    frame: impl Fn(&str) -> Vec<u8>,
) -> i64 {
    const ROWS: i64 = 200;
    let client = server.client();
    connection.send(frame(format.header()));
    let mut sent = 0;
    wait_for("the first row of an import whose body goes on", || {
        let rows: String = plants(sent, ROWS).iter().map(|plant| format.row(plant)).collect();
        connection.send(frame(&rows));
        sent += ROWS;
        (client.read(0).status == 200).then_some(sent)
    })
}

/// Claims that what is there is a beginning of the plants, each whole, and that a second run brings
/// the rest.
#[track_caller]
fn check_and_complete(server: &TestServer, format: Format, sent: i64) {
    let client = server.client();
    let wanted = plants(0, sent + 10);
    let there = listed(&client);
    assert!(!there.is_empty() && there.len() <= usize::try_from(sent).expect("a count"));
    assert_eq!(there, wanted[..there.len()], "there is a row that was not sent whole");

    let again = client.import(format, "on_conflict=skip", format.body(&wanted)).json();
    let count = |name: &str| again[name].as_u64().expect("a count");
    assert_eq!(count("failed"), 0, "{again}");
    assert_eq!(count("replaced"), 0, "{again}");
    assert_eq!(count("created") + count("skipped"), wanted.len() as u64, "{again}");
    assert!(count("skipped") >= there.len() as u64, "{again}");
    assert_eq!(listed(&client), wanted);
}

/// The beginning of the row behind the `sent` that were sent whole, at several places, one of them
/// such that it could be taken for a whole row.
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

#[test]
fn what_was_taken_from_a_client_that_went_away_stays_and_a_second_run_completes_it() {
    for format in Format::ALL {
        for number in 0..half_rows(format, 0).len() {
            let server = TestServer::start();
            let mut connection = server.connect();
            connection.send(head(format, "", CHUNKED));
            let sent = send_until_taken(&server, &mut connection, format, |rows| match rows {
                // An empty chunk would be the end.
                "" => Vec::new(),
                rows => chunk(rows),
            });
            connection.send(chunk(&half_rows(format, sent)[number]));
            connection.finish_sending();
            connection.wait_for_close();
            check_and_complete(&server, format, sent);

            let server = TestServer::start();
            let mut connection = server.connect();
            connection.send(head(format, "", "Content-Length: 1000000000"));
            let sent =
                send_until_taken(&server, &mut connection, format, |rows| rows.as_bytes().to_vec());
            connection.send(&half_rows(format, sent)[number]);
            connection.finish_sending();
            connection.wait_for_close();
            check_and_complete(&server, format, sent);
        }
    }
}

#[test]
fn a_connection_that_is_reset_in_the_middle_of_an_import_leaves_whole_rows() {
    for format in Format::ALL {
        let server = TestServer::start();
        let mut connection = server.connect();
        connection.send(head(format, "", "Content-Length: 1000000000"));
        let sent =
            send_until_taken(&server, &mut connection, format, |rows| rows.as_bytes().to_vec());
        connection.send(&half_rows(format, sent)[0]);
        connection.reset();
        check_and_complete(&server, format, sent);
    }
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_an_import_keeps_whole_rows() {
    for format in Format::ALL {
        let mut server = TestServer::start();
        let mut connection = server.connect();
        connection.send(head(format, "", "Content-Length: 1000000000"));
        let sent =
            send_until_taken(&server, &mut connection, format, |rows| rows.as_bytes().to_vec());
        server.kill();
        server.restart();
        check_and_complete(&server, format, sent);
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
    // One that never begins, one that stops behind a row, and one that stops inside of one.
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
    // Whether the whole row of the second one was taken is not said; that of the third was not.
    let hundredth = server.client().read(100);
    if hundredth.status != 404 {
        hundredth.assert_new_plant(100, "Rosa", None);
    }
    for plant in &rows {
        server.client().read(plant.id).assert_new_plant(
            plant.id,
            &plant.name,
            plant.tag.as_deref(),
        );
    }
}

#[test]
fn an_import_that_does_not_end_in_the_drain_is_told_how_far_it_came() {
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
    let (stdin, mut rows) = io::pipe().expect("a pipe can be made");
    let url = format!("http://{}", server.address());
    let mut command = Command::new(program());
    command.args(["import", "--url", &url, "-"]).env("PLANTD_TOKEN", TOKEN).stdin(stdin);
    let mut import = Process::spawn(&mut command);
    // The command holds the other end of the pipe.
    drop(command);
    rows.write_all(format.body(&plants(4, 1)).as_bytes()).expect("the import reads");
    wait_until("the rows to be taken", || listed(&server.client()) == plants(1, 4));

    server.process().send_terminate();
    begun.send(chunk(format.row(&plants(5, 1)[0])));
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
    // It sees the answer when it has something to send.
    wait_until("the import to end", || {
        let _ = rows.write_all(b"\n");
        !import.is_running()
    });
    import.assert_exit_code(74);
    server.process().wait_for_exit();

    server.restart();
    assert_eq!(listed(&server.client()), plants(1, 5));
}
