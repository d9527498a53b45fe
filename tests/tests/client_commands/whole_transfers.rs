//! An export or an import that is cut on its way is noticed, and an export replaces no file then.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use plantd_tests::{
    FakeServer, IO, Launch, Nginx, USAGE, answer, answer_of, endless_pipe, names_in,
    temporary_folder, wait_until,
};

use crate::JSON;

const NDJSON: &str = "application/x-ndjson";
const ROSA: &str = "{\"id\":1,\"name\":\"Rosa\"}\n";
const SALIX: &str = "{\"id\":2,\"name\":\"Salix\"}\n";
const TWO_ROWS: &str = "{\"id\":1,\"name\":\"Rosa\"}\n{\"id\":2,\"name\":\"Salix\"}\n";
/// The content type of an export, with the header that announces two plants.
const EXPORT_OF_TWO: &str = "application/x-ndjson\r\nX-Total-Count: 2";
const CSV_OF_TWO: &str = "text/csv\r\nX-Total-Count: 2";
/// Two rows that a report must account for.
const ROWS: &str = "id,name,tag\n1,Rosa,\n\n2,Salix,\n";
const EMPTY_REPORT: &str = r#"{"created":0,"replaced":0,"skipped":0,"failed":0,"errors":[]}"#;

fn command(address: SocketAddr, arguments: &[&str]) -> Launch {
    Launch::for_server(address, arguments)
}

/// A server that answers an export with `export`, and the list of the plants after it as `list` says for its target.
fn exporting(export: String, list: impl Fn(&str) -> String + Send + 'static) -> FakeServer {
    FakeServer::start(move |head, stream| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let answer = if target.contains("/export") { export.clone() } else { list(target) };
        stream.write_all(answer.as_bytes()).expect("the client reads");
    })
}

fn page(body: &str) -> String {
    answer_of("200 OK", JSON, body)
}

/// Asserts that an export to a file ends with 74 and these words, and leaves the file as it was, or absent.
#[track_caller]
fn check_no_export(address: SocketAddr, words: &[&str], name: &str) {
    let folder = temporary_folder();
    let path = folder.path().join(name);
    let export = command(address, &["export"]).arguments([&path]);
    export.assert_refused_in_a_line(IO, words);
    assert!(!path.exists(), "{words:?}");
    fs::write(&path, "as it was").expect("a file can be written");
    export.assert_refused_in_a_line(IO, words);
    assert_eq!(fs::read_to_string(&path).expect("a file can be read"), "as it was");
    assert_eq!(names_in(folder.path()), [name], "something was left behind");
}

#[test]
fn an_export_that_breaks_off_ends_with_74_and_leaves_the_file_unchanged() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nX-Total-Count: 2\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    for cut in [
        // Within a chunk, within a row, between two chunks, and before the last chunk.
        format!("{chunked}17\r\n{{\"id\":1"),
        format!("{chunked}8\r\n{{\"id\":1,\r\n"),
        format!("{chunked}17\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n\r\n"),
        format!("{chunked}17\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n\r\n0"),
        // Shorter than its length, ended by the close of the connection.
        format!("{head}Content-Length: 100\r\n\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n"),
        format!("{head}\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n"),
        head.to_owned(),
    ] {
        let server = exporting(cut, |_| String::new());
        check_no_export(server.address, &[&server.address.to_string()], "plants.ndjson");
        // Some plants may be on standard output already.
        let stderr = command(server.address, &["export"]).run(IO).stderr();
        assert!(stderr.starts_with("error: ") && !stderr.contains("exported"), "{stderr}");
    }
}

#[test]
fn an_export_that_was_truncated_silently_ends_with_74_and_leaves_the_file_unchanged() {
    let two_follow = ("200 OK", r#"[{"id":3,"name":"Salix"},{"id":4,"name":"Salix"}]"#);
    let error = ("503 Service Unavailable", r#"{"error":5003,"message":"shutting down"}"#);
    let end = ("200 OK", "[]");
    let no_count = "application/x-ndjson\r\nX-Total-Count: two";
    let encoded = "application/x-ndjson\r\nX-Total-Count: 2\r\nContent-Encoding: gzip";
    let of = |content_type, rows: &str| (content_type, rows.to_owned());
    let json = |rows: &str| of(EXPORT_OF_TWO, rows);
    let csv = |rows: &str| of(CSV_OF_TWO, &format!("id,name,tag\n{rows}"));
    for ((content_type, rows), following, words) in [
        // Between two rows, which only the list of the following plants reveals.
        (json(ROSA), two_follow, ["1 of 2 plants", ""]),
        (json(""), two_follow, ["0 of 2 plants", ""]),
        (csv("1,Rosa,\n"), two_follow, ["1 of 2 plants", ""]),
        // The list of the following plants gets no answer.
        (json(TWO_ROWS), error, ["shutting down", ""]),
        (json(TWO_ROWS), ("200 OK", "[{\"id\":3"), ["checked", ""]),
        (json(TWO_ROWS), ("200 OK", ""), ["checked", ""]),
        // The same page is listed again and again.
        (json(TWO_ROWS), two_follow, ["ascending", ""]),
        // Within a row.
        (json(ROSA.trim_end()), end, ["within a row", ""]),
        (csv("1,Rosa,\n2,Sal"), end, ["within a row", ""]),
        (of(CSV_OF_TWO, "id,name"), end, ["broke off", ""]),
        (of(CSV_OF_TWO, ""), end, ["broke off", ""]),
        // The answer is not a page of plants.
        (of(CSV_OF_TWO, "1,Rosa,\n2,Salix,\n"), end, ["id,name,tag", ""]),
        (csv("1\n"), end, ["no plant", ""]),
        (json("<p>Plants</p>\n"), end, ["no plant", ""]),
        (of(NDJSON, TWO_ROWS), end, ["x-total-count", ""]),
        (of(no_count, TWO_ROWS), end, ["x-total-count", ""]),
        (of(encoded, TWO_ROWS), end, ["--url", ""]),
        // A row is wrong.
        (json(&format!("{ROSA}<html>\n{SALIX}")), end, ["line 2", "no plant"]),
        (json(&format!("{ROSA}{{\n{SALIX}")), end, ["line 2", "no plant"]),
        (json(&format!("{{\"name\":\"Acer\"}}\n{TWO_ROWS}")), end, ["line 1", "no plant"]),
        (json(&format!("{TWO_ROWS}\n{SALIX}")), end, ["line 4", "plant 2 behind the plant 2"]),
        (json(&format!("{SALIX}{ROSA}")), end, ["line 2", "plant 1 behind the plant 2"]),
        (csv("1,Rosa,\n<html>\n2,Salix,\n"), end, ["line 3", "no plant"]),
        (csv("1,Rosa,\n1,Rosa,\n"), end, ["line 3", "plant 1 behind the plant 1"]),
        // A quoted cell may contain a line end, but a name may not.
        (csv("1,\"Ro\nsa\",\n2,Salix,\n"), end, ["line 2", "no plant"]),
        (csv("1,\"Rosa,\n2,Salix,\n"), end, ["line 2", "no plant"]),
    ] {
        let name = if content_type == CSV_OF_TWO { "a.csv" } else { "a.ndjson" };
        let export = answer_of("200 OK", content_type, &rows);
        let server = exporting(export, move |_| answer_of(following.0, JSON, following.1));
        check_no_export(server.address, &words, name);
    }
    let server = exporting(answer_of("200 OK", EXPORT_OF_TWO, ROSA), |_| page(two_follow.1));
    let said = command(server.address, &["export"]).run(IO).stderr();
    assert!(said.contains("throw away the part that went to standard output"), "{said}");
}

#[test]
fn deleted_plants_do_not_hide_that_an_export_was_truncated() {
    let export = answer_of("200 OK", EXPORT_OF_TWO, ROSA);
    let server = exporting(export, |target| {
        let link = "</plants?limit=1000&after=12000>; rel=\"next\"";
        if target.contains("after=12000") {
            page(r#"[{"id":20000,"name":"Salix"}]"#)
        } else {
            answer_of("200 OK", &format!("{JSON}\r\nLink: {link}"), "[]")
        }
    });
    check_no_export(server.address, &["1 of 2 plants"], "a.ndjson");
}

#[test]
fn an_export_without_a_declared_end_is_refused() {
    for (version, framing) in [
        ("1.1", ""),
        ("1.0", ""),
        ("1.0", "Content-Length: 48\r\n"),
        ("1.0", "Transfer-Encoding: chunked\r\n"),
        ("1.1", "Transfer-Encoding: identity\r\n"),
    ] {
        let answer = format!(
            "HTTP/{version} 200 OK\r\nContent-Type: {EXPORT_OF_TWO}\r\n{framing}\r\n{TWO_ROWS}"
        );
        let server = exporting(answer, |_| page("[]"));
        check_no_export(server.address, &["where its answer ends", "HTTP/1.1"], "plants.ndjson");
    }
    // An older server exports over HTTP/1.0, which hides a cut.
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: {EXPORT_OF_TWO}\r\n\r\n{ROSA}");
    let server = exporting(answer, |_| page(r#"[{"id":2,"name":"Salix"}]"#));
    let nginx = Nginx::in_front_of(server.address, "proxy_http_version 1.0;");
    check_no_export(nginx.address(), &["1 of 2 plants", "HTTP/1.0"], "plants.ndjson");
}

#[test]
fn a_truncated_export_with_a_tag_is_noticed_and_one_with_a_name_is_completed() {
    // The URL has a path and a trailing slash.
    let server = FakeServer::start(|head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/store/1/plants/export?tag=a" => answer(stream, "200 OK", EXPORT_OF_TWO, ROSA),
            "/store/1/plants/export?name=s" => answer(stream, "200 OK", NDJSON, ROSA),
            "/store/1/plants?limit=1000&after=1&tag=a"
            | "/store/1/plants?limit=1000&after=1&name=s" => {
                answer(stream, "200 OK", JSON, &format!("[{}]", SALIX.trim_end()));
            }
            "/store/1/plants?limit=1000&after=2&name=s" => answer(stream, "200 OK", JSON, "[]"),
            _ => answer(stream, "404 Not Found", JSON, ""),
        }
    });
    let url = format!("http://{}/store/1/", server.address);
    let export = Launch::new().arguments(["export", "--url", &url]);
    let stderr = export.clone().arguments(["--tag", "a"]).run(IO).stderr();
    assert!(stderr.contains("1 of 2 plants"), "{stderr}");
    assert_eq!(export.arguments(["--name", "s"]).run(0).stdout(), TWO_ROWS);
}

#[test]
fn plants_created_or_deleted_at_the_end_of_an_export_do_not_fail_it() {
    let created = "[{\"id\":3,\"name\":\"Salix\"},{\"id\":4,\"name\":\"Acer\",\"tag\":\"a\"}]";
    let created_rows =
        "{\"id\":3,\"name\":\"Salix\"}\n{\"id\":4,\"name\":\"Acer\",\"tag\":\"a\"}\n";
    for (rows, following, expected) in [
        // The second plant was deleted before the export reached it.
        (ROSA, "[]", ROSA),
        ("", "[]", ""),
        // Two plants were created after the last one.
        (TWO_ROWS, created, &format!("{TWO_ROWS}{created_rows}")),
    ] {
        let server = exporting(answer_of("200 OK", EXPORT_OF_TWO, rows), move |target| {
            page(if target.contains("after=4") { "[]" } else { following })
        });
        assert_eq!(command(server.address, &["export"]).run(0).stdout(), expected);
    }
}

#[test]
fn an_export_that_is_killed_leaves_the_file_as_it_was() {
    let server = FakeServer::start(|_, stream| {
        let part = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nX-Total-Count: 2\r\n\
                    Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n";
        stream.write_all(part.as_bytes()).expect("the client reads");
        // Waits until the client disconnects.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let folder = temporary_folder();
    let path = folder.path().join("plants.ndjson");
    fs::write(&path, "as it was").expect("a file can be written");
    let mut process = command(server.address, &["export"]).arguments([&path]).spawn();
    wait_until("some plants in another file", || {
        let names = names_in(folder.path());
        let mut others = names.iter().map(|name| folder.path().join(name));
        others.any(|other| other != path && fs::metadata(other).is_ok_and(|it| it.len() > 0))
    });
    process.kill();
    assert_eq!(fs::read_to_string(&path).expect("a file can be read"), "as it was");
}

/// A server that reads this many bytes of an import, and then answers.
fn importing(bytes: u64, import_answer: String) -> FakeServer {
    FakeServer::start(move |head, stream| {
        // A request without plants precedes an import.
        if !head.contains("on_conflict") {
            return answer(stream, "200 OK", JSON, EMPTY_REPORT);
        }
        io::copy(&mut stream.take(bytes), &mut io::sink()).expect("the answer can be sent");
        stream.write_all(import_answer.as_bytes()).expect("the client reads");
    })
}

#[test]
fn an_import_that_breaks_off_ends_with_74_and_says_how_to_continue() {
    let server = importing(1_000_000, String::new());
    let folder = temporary_folder();
    let path = folder.path().join("plants.ndjson");
    fs::write(&path, ROSA.repeat(2_000_000)).expect("a file can be written");
    let words = [&*server.address.to_string(), "broke", "--on-conflict skip"];
    let import = command(server.address, &["import"]);
    import.clone().arguments([&path]).assert_refused_in_a_line(IO, &words);
    let said = import.arguments(["-"]).run_reading(endless_pipe(ROSA), IO).stderr();
    assert!(said.contains("--on-conflict skip"), "{said}");
}

#[test]
fn an_import_ends_with_0_only_when_the_report_accounts_for_every_row() {
    let of =
        |created: u64| EMPTY_REPORT.replace("\"created\":0", &format!("\"created\":{created}"));
    let (one, two, three) = (of(1), of(2), of(3));
    let stopped = r#"{"error":5002,"message":"shutting down; 1 plants were created"}"#;
    let folder = temporary_folder();
    let path = folder.path().join("plants.csv");
    fs::write(&path, ROWS).expect("a file can be written");
    for (status, content_type, body, exit_code, word) in [
        ("200 OK", JSON, two.as_str(), 0, ""),
        ("200 OK", JSON, &one, IO, "2 rows were sent"),
        ("200 OK", JSON, &three, IO, "2 rows were sent"),
        ("200 OK", JSON, EMPTY_REPORT, IO, "2 rows were sent"),
        ("200 OK", JSON, "", IO, "does not tell"),
        ("200 OK", JSON, "{}", IO, "does not tell"),
        ("200 OK", "text/html", "<p>Plants</p>", IO, "does not tell"),
        ("204 No Content", JSON, "", IO, "204"),
        ("503 Service Unavailable", JSON, stopped, IO, "1 plants were created"),
        ("302 Found\r\nLocation: http://a.example", JSON, &two, USAGE, "http://a.example"),
    ] {
        let server = importing(ROWS.len() as u64, answer_of(status, content_type, body));
        let import = command(server.address, &["import"]).arguments([&path]);
        match exit_code {
            0 => drop(import.printed()),
            _ => drop(import.assert_refused_in_a_line(exit_code, &[word])),
        }
    }
}
