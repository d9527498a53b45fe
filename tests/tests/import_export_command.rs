//! `plantd import` and `plantd export`: the plants that they move, their messages and their exit codes.

use std::fs::{self, File, Permissions};
use std::io::{self, PipeReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use plantd_tests::{
    CONFIGURATION, FakeServer, Format, IO, Launch, NewPlant, Nginx, Process, TOKEN, TestServer,
    USAGE, answer, answer_of, make_pipe, mode, wait_until, write_tokens_file,
};
use tempfile::TempDir;

const FINDINGS: i32 = 1;

/// How many failed rows a report lists at most.
const ERRORS_MAX: usize = 1000;

const JSON: &str = "application/json";
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

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A command for the server at this address.
fn command(address: SocketAddr, arguments: &[&str]) -> Launch {
    let (subcommand, arguments) = arguments.split_first().expect("a subcommand");
    let url = format!("http://{address}");
    Launch::new().arguments([*subcommand, "--url", &url]).arguments(arguments)
}

#[track_caller]
fn run(launch: &Launch, exit_code: i32) -> Process {
    ended(launch.spawn(), exit_code)
}

#[track_caller]
fn ended(mut process: Process, exit_code: i32) -> Process {
    process.assert_exit_code(exit_code);
    process
}

/// Asserts that the command is refused with this exit code and one line on standard error that holds these words.
#[track_caller]
fn check_refusal(launch: &Launch, exit_code: i32, words: &[&str]) {
    let stderr = launch.assert_refused(exit_code, words);
    assert!(stderr.starts_with("error: "), "{stderr:?}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr:?}");
    assert!(!stderr.contains(TOKEN), "the message shows the token: {stderr}");
}

/// Asserts `BEGINNING in S s (R/s)REST`, with any time S and any rate R.
#[track_caller]
fn assert_summary(line: &str, beginning: &str, rest: &str) {
    let (said, time) = line.split_once(" in ").unwrap_or_else(|| panic!("no summary: {line:?}"));
    assert_eq!(said, beginning, "{line:?}");
    let (seconds, rate) = time.split_once(" s (").unwrap_or_else(|| panic!("no time: {line:?}"));
    assert!(seconds.parse::<f64>().is_ok(), "{line:?}");
    let (rate, end) = rate.split_once("/s)").unwrap_or_else(|| panic!("no rate: {line:?}"));
    assert!(!rate.is_empty() && rate.chars().all(|c| c.is_ascii_digit() || c == ','), "{line:?}");
    assert_eq!(end, rest, "{line:?}");
}

/// A standard input with these bytes.
fn pipe_of(bytes: impl AsRef<[u8]> + Send + 'static) -> PipeReader {
    let (reader, mut writer) = io::pipe().expect("a pipe can be made");
    // Fails if the command does not read to the end, which the test notices.
    thread::spawn(move || writer.write_all(bytes.as_ref()));
    reader
}

/// A standard input that repeats this line without end.
fn endless_pipe(line: &'static str) -> PipeReader {
    let (reader, mut writer) = io::pipe().expect("a pipe can be made");
    thread::spawn(move || while writer.write_all(line.as_bytes()).is_ok() {});
    reader
}

fn flag_of(format: Format) -> &'static str {
    match format {
        Format::Ndjson => "ndjson",
        Format::Csv => "csv",
    }
}

/// Plants whose texts need care in each format, in the order of their ids.
fn difficult_plants() -> Vec<NewPlant> {
    let quotes = ["a,b", ",", "\"", "\"\"", "\"quoted\", twice", "'x'", "\\", "\\u0041\\"];
    let of_formats = ["null", "007", "1e999", "id", "id,name,tag", "{\"id\":1}", "\\n\\\"", "#x"];
    let of_programs = ["=1+1", "+1", "-1", "@x", ";x", "|x", "<script>&amp;%41+</script>"];
    let invisible = [" edges ", "\u{3000}x\u{a0}", "\u{feff}", "\u{feff}x", "\u{200b}\u{ad}"];
    let letters = ["é", "e\u{301}", "ẞ İ ǅ", "植物 растение نبات", "x\u{2028}y\u{2029}z"];
    let rare = ["\u{fffd}\u{ffff}\u{10ffff}\u{e000}", "🌱👩\u{200d}🌾🏳\u{fe0f}\u{200d}🌈"];
    let longest = ["x", "𝒑", "\""].map(|character| character.repeat(255));
    let groups: [&[&str]; 6] = [&quotes, &of_formats, &of_programs, &invisible, &letters, &rare];
    let texts = groups.concat().into_iter().chain(longest.iter().map(String::as_str));
    let mut plants = vec![NewPlant::new(i64::MIN, "least", None)];
    for (number, text) in (0..).zip(texts) {
        plants.push(NewPlant::new(number, text, None));
        plants.push(NewPlant::new(-1 - number, "Rosa", Some(text)));
        plants.push(NewPlant::new(i64::MAX - number, text, Some(text)));
    }
    plants.sort();
    plants
}

fn server_with(plants: &[NewPlant]) -> TestServer {
    let server = TestServer::start();
    let answer = server.client().import(Format::Ndjson, "", Format::Ndjson.body(plants));
    assert_eq!(answer.json()["created"], plants.len(), "{answer:?}");
    server
}

#[test]
fn an_import_of_an_export_exports_the_same_through_files_and_pipes() {
    let folder = folder();
    for plants in [vec![], difficult_plants()] {
        let server = server_with(&plants);
        let (count, counts) = (plants.len(), "0 replaced, 0 skipped, 0 failed");
        let exported_message = format!("exported {count} plants");
        for format in Format::ALL {
            let flag = flag_of(format);
            let exported = server.client().export(format);

            let path = folder.path().join(format!("plants.{flag}"));
            let process = run(&command(server.address(), &["export", text(&path)]), 0);
            assert_eq!(fs::read(&path).unwrap(), exported, "{format:?}");
            assert_eq!(process.stdout(), "");
            assert_summary(process.stderr().trim_end(), &exported_message, "");

            let process = run(&command(server.address(), &["export", "--format", flag]), 0);
            assert_eq!(process.stdout().as_bytes(), exported, "{format:?}");
            assert_summary(process.stderr().trim_end(), &exported_message, "");

            let by_file = TestServer::start();
            let process = run(&command(by_file.address(), &["import", text(&path)]), 0);
            let imported = format!("imported {count} plants");
            let counts = format!(": {count} created, {counts}");
            assert_summary(process.stdout().trim_end(), &imported, &counts);
            assert_eq!(process.stderr(), "");
            assert_eq!(by_file.client().list_all("limit=1000"), plants, "{format:?}");
            assert_eq!(by_file.client().export(format), exported, "{format:?}");

            let by_pipe = TestServer::start();
            let launch = command(by_pipe.address(), &["import", "--format", flag, "-"]);
            ended(launch.spawn_reading(pipe_of(exported.clone())), 0);
            assert_eq!(by_pipe.client().export(format), exported, "{format:?}");
        }
    }
}

#[test]
fn real_plants_are_moved_unchanged_and_survive_a_kill() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/plants.csv");
    let mut server = TestServer::start();
    let process = run(&command(server.address(), &["import", text(&source)]), 0);
    let counts = ": 960 created, 0 replaced, 0 skipped, 0 failed";
    assert_summary(process.stdout().trim_end(), "imported 960 plants", counts);
    server.kill();
    server.restart();

    let folder = folder();
    let path = folder.path().join("plants.csv");
    let process = run(&command(server.address(), &["export", text(&path)]), 0);
    assert_summary(process.stderr().trim_end(), "exported 960 plants", "");
    assert_eq!(fs::read_to_string(&path).unwrap(), fs::read_to_string(&source).unwrap());
}

#[test]
fn a_file_on_standard_input_is_read_from_its_current_position() {
    let server = TestServer::start();
    let folder = folder();
    let path = file(&folder, "plants", format!("not a plant\n{ROSA}"));
    let mut source = File::open(path).unwrap();
    source.read_exact(&mut [0; "not a plant\n".len()]).unwrap();
    ended(command(server.address(), &["import", "-"]).spawn_reading(source), 0);
    assert_eq!(server.client().list_all(""), [NewPlant::new(1, "Rosa", None)]);
}

/// Asserts the failed rows on standard error, each with its line and its error, and their count at the end.
#[track_caller]
fn check_failed_rows(process: &Process, name: &str, expected: &[(u32, u32)]) {
    let stderr = process.stderr();
    let lines: Vec<&str> = stderr.lines().collect();
    let (last, rows) = lines.split_last().expect("standard error has lines");
    assert_eq!(rows.len(), expected.len(), "{stderr}");
    for (row, (line, error)) in rows.iter().zip(expected) {
        let message = row
            .strip_prefix(&format!("{name}:{line}: "))
            .and_then(|rest| rest.strip_suffix(&format!(" (error {error})")))
            .unwrap_or_else(|| panic!("{row:?} is not about line {line} and error {error}"));
        assert!(!message.trim().is_empty(), "{row:?} says nothing");
    }
    let count = expected.len();
    assert!(last.starts_with("error: ") && last.contains(&count.to_string()), "{last:?}");
    assert!(process.stdout().trim_end().ends_with(&format!(" {count} failed")));
}

#[test]
fn on_conflict_decides_about_taken_ids_and_failed_rows_are_listed_with_a_way_to_continue() {
    let folder = folder();
    let good = "id,name,tag\n1,Rosa,\n2,Salix,\n";
    let wrong = format!("{good}x,Acer,\n3,,\n");
    let taken: &[(u32, u32)] = &[(2, 3001)];
    let ways: &[&str] = &["skip", "keeps", "replace", "takes"];
    for (flag, name, replaced, skipped, taken, ways) in [
        (None, "old", 0, 0, taken, ways),
        (Some("--on-conflict=error"), "old", 0, 0, taken, ways),
        (Some("--on-conflict=skip"), "old", 0, 1, &[], &["--on-conflict skip"]),
        (Some("--on-conflict=replace"), "Rosa", 1, 0, &[], &["--on-conflict replace"]),
    ] {
        for (body, more_failed) in [(good, &[] as &[_]), (&wrong, &[(4, 1004), (5, 1005)])] {
            let failed = [taken, more_failed].concat();
            let path = file(&folder, "plants.csv", body);
            for from in [text(&path), "-"] {
                let server = server_with(&[NewPlant::new(1, "old", None)]);
                let launch = command(server.address(), &["import", "--format=csv", from]);
                let process = launch.arguments(flag).spawn_reading(pipe_of(body.to_owned()));
                let process = ended(process, if failed.is_empty() { 0 } else { FINDINGS });
                let imported = ["imported 1 plant", "imported 2 plants"][replaced];
                let failures = failed.len();
                let counts = format!(
                    ": 1 created, {replaced} replaced, {skipped} skipped, {failures} failed"
                );
                assert_summary(process.stdout().trim_end(), imported, &counts);
                if failures > 0 {
                    check_failed_rows(&process, from, &failed);
                    let stderr = process.stderr();
                    let last = stderr.lines().last().unwrap_or_default();
                    assert!(ways.iter().all(|way| last.contains(way)), "{last}");
                }
                let expected = [NewPlant::new(1, name, None), NewPlant::new(2, "Salix", None)];
                assert_eq!(server.client().list_all(""), expected);
            }
        }
    }
}

#[test]
fn failed_rows_that_are_not_listed_are_counted() {
    let server = TestServer::start();
    let folder = folder();
    let path = file(&folder, "plants.ndjson", "{\n".repeat(ERRORS_MAX + 2345));
    let process = run(&command(server.address(), &["import", text(&path)]), FINDINGS);
    let stderr = process.stderr();
    let listed = stderr.lines().filter(|line| line.contains("(error 1001)")).count();
    assert_eq!(listed, ERRORS_MAX);
    assert!(stderr.contains("2,345 more rows failed"), "{stderr}");
    assert!(process.stdout().trim_end().ends_with(" 3,345 failed"));
}

#[test]
fn the_format_is_that_of_the_flag_or_else_of_the_file_name() {
    let server = TestServer::start();
    let folder = folder();
    let csv = "id,name,tag\n1,Rosa,\n";
    for (name, flag, body) in [
        ("a.csv", None, csv),
        ("b.CSV", None, csv),
        ("c.jsonl", None, ROSA),
        ("d.txt", Some("csv"), csv),
        ("e.csv", Some("ndjson"), ROSA),
        ("f", Some("ndjson"), ROSA),
    ] {
        let path = file(&folder, name, body);
        let flag = flag.map(|flag| format!("--format={flag}"));
        let with_flag = |launch: Launch| launch.arguments(flag.clone());
        let import = command(server.address(), &["import", "--on-conflict=skip", text(&path)]);
        run(&with_flag(import), 0);
        run(&with_flag(command(server.address(), &["export", text(&path)])), 0);
        assert_eq!(fs::read_to_string(&path).unwrap(), body, "{name}");
    }
    for name in ["plants", "plants.txt", "plants.csv.gz", ".csv"] {
        let path = file(&folder, name, csv);
        for subcommand in ["import", "export"] {
            let launch = command(server.address(), &[subcommand, text(&path)]);
            check_refusal(&launch, USAGE, &[name, "--format"]);
        }
    }
    let path = file(&folder, "plants.json", "[]");
    check_refusal(
        &command(server.address(), &["export", text(&path)]),
        USAGE,
        &["csv, ndjson or spreadsheet"],
    );
}

#[test]
fn an_export_for_spreadsheets_is_what_the_server_sends() {
    let mut plants = difficult_plants();
    plants.insert(1, NewPlant::new(i64::MIN + 1, &format!("={}", "x".repeat(254)), Some("@x;-y")));
    let server = server_with(&plants);
    let accept = [("accept", "text/vnd.plantd.spreadsheet")];
    let expected = server.client().send("GET", "/plants/export", &accept, "").body;
    let folder = folder();
    let path = folder.path().join("plants.csv");
    let export = ["export", "--format=spreadsheet", text(&path)];
    run(&command(server.address(), &export), 0);
    assert!(fs::read(&path).unwrap() == expected, "the export differs from the server's");
}

#[test]
fn a_byte_order_mark_before_the_plants_of_a_file_is_skipped() {
    let server = TestServer::start();
    let folder = folder();
    let plant = NewPlant::new(1, "Rosa", None);
    for (name, text) in [
        ("plants.csv", Format::Csv.body([&plant])),
        ("plants.ndjson", Format::Ndjson.body([&plant])),
        ("plants.json", format!("[{}]", plant.json())),
    ] {
        let path = file(&folder, name, format!("\u{feff}{text}"));
        run(&command(server.address(), &["import", self::text(&path)]), 0);
        server.client().read(1).assert_new_plant(1, "Rosa", None);
        server.client().delete(1).assert_no_content();
    }
}

#[test]
fn a_json_array_is_imported_like_other_formats() {
    let plants = difficult_plants();
    let rows: Vec<String> = plants.iter().map(NewPlant::json).collect();
    let folder = folder();
    let import = |server: &TestServer, name: &str, body: &str| {
        let path = file(&folder, name, body);
        command(server.address(), &["import", "--on-conflict=skip", text(&path)])
    };
    for (name, flag) in [("plants.json", None), ("plants", Some("--format=json"))] {
        let server = TestServer::start();
        let array = format!("[\n  {}\n]\n", rows.join(",\n  "));
        run(&import(&server, name, &array).arguments(flag), 0);
        assert_eq!(server.client().list_all("limit=1000"), plants);
    }
    let server = TestServer::start();
    let process = run(&import(&server, "broken.json", &format!("[{},\n]", rows[0])), FINDINGS);
    check_failed_rows(&process, text(&folder.path().join("broken.json")), &[(2, 1001)]);
    check_refusal(&import(&server, "object.json", &rows[0]), FINDINGS, &["array", "1004"]);
}

#[test]
fn a_url_may_have_a_path_and_a_trailing_slash() {
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    let export = |url: &str| run(&Launch::new().arguments(["export", "--url", url]), 0).stdout();
    assert_eq!(export(&format!("http://{}/", server.address())), ROSA);

    let proxy = FakeServer::start(|head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/store/1/plants/export" => answer(stream, "200 OK", EXPORT_OF_TWO, TWO_ROWS),
            "/store/1/plants?limit=1000&after=2" => answer(stream, "200 OK", JSON, "[]"),
            _ => answer(stream, "404 Not Found", JSON, ""),
        }
    });
    assert_eq!(export(&format!("http://{}/store/1/", proxy.address)), TWO_ROWS);
}

#[test]
fn a_url_without_the_operation_ends_with_64() {
    let server = TestServer::start();
    let folder = folder();
    let path = file(&folder, "plants.csv", "id,name,tag\n");
    let url = format!("http://{}/store", server.address());
    for arguments in [["import", text(&path)], ["export", "-"]] {
        let launch = Launch::new().arguments(arguments).arguments(["--url", &url]);
        check_refusal(&launch, USAGE, &["4004", "--url"]);
    }
}

#[test]
fn the_token_comes_from_the_file_or_else_from_the_environment() {
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    let folder = folder();
    let right = file(&folder, "right", format!("{TOKEN}\n"));
    let export = command(server.address(), &["export"]);
    run(&export, 0);
    let by_file = export.clone().arguments(["--token-file", text(&right)]);
    run(&by_file.clone().without_environment("PLANTD_TOKEN"), 0);
    // The flag overrides the environment.
    run(&by_file.clone().environment("PLANTD_TOKEN", "wrong"), 0);
    run(&by_file.environment("PLANTD_TOKEN", ""), 0);
    let none = export.without_environment("PLANTD_TOKEN");
    check_refusal(&none, USAGE, &["--token-file", "PLANTD_TOKEN"]);
}

#[test]
fn a_token_that_cannot_be_sent_ends_with_78_and_is_not_shown() {
    let server = TestServer::start();
    let folder = folder();
    for token in ["", " ", "two words", "two\nlines", "schlüssel", "bell\u{7}"] {
        let path = file(&folder, "token", token);
        let export = command(server.address(), &["export"]);
        let by_file = export.clone().arguments(["--token-file", text(&path)]);
        let by_environment = export.environment("PLANTD_TOKEN", token);
        for (launch, origin) in [(by_file, text(&path)), (by_environment, "PLANTD_TOKEN")] {
            // An empty variable counts as unset.
            if token.is_empty() && origin == "PLANTD_TOKEN" {
                continue;
            }
            check_refusal(&launch, CONFIGURATION, &[origin]);
            let stderr = launch.assert_refused(CONFIGURATION, &[]);
            let is_shown = !token.trim().is_empty() && stderr.contains(token);
            assert!(!is_shown, "the message shows the token: {stderr}");
        }
    }
    let large = file(&folder, "token", "x".repeat(1_000_000));
    let launch = command(server.address(), &["export", "--token-file", text(&large)]);
    check_refusal(&launch, CONFIGURATION, &[text(&large)]);
    let missing = folder.path().join("missing");
    for path in [missing.as_path(), folder.path()] {
        let launch = command(server.address(), &["export", "--token-file", text(path)]);
        check_refusal(&launch, IO, &[text(path)]);
    }
}

#[test]
fn a_refused_token_ends_with_78() {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "data", write_tokens_file);
    let folder = folder();
    let path = file(&folder, "plants.csv", "id,name,tag\n1,Rosa,\n");
    let output = folder.path().join("output.csv");
    let import = command(server.address(), &["import", text(&path)]);
    let export = command(server.address(), &["export", text(&output)]);
    for (launch, token, number) in [
        (&import, "unknown", "2002"),
        (&import, "expired", "2002"),
        (&import, "reader", "2003"),
        (&export, "unknown", "2002"),
        (&export, "expired", "2002"),
    ] {
        let launch = launch.clone().environment("PLANTD_TOKEN", token);
        check_refusal(&launch, CONFIGURATION, &["PLANTD_TOKEN", number]);
        if number == "2002" {
            let words = ["refuses the token of PLANTD_TOKEN", "--token-file"];
            check_refusal(&launch, CONFIGURATION, &words);
        }
    }
    assert!(!output.exists());
    run(&import.environment("PLANTD_TOKEN", "writer"), 0);
    run(&export.environment("PLANTD_TOKEN", "reader"), 0);
}

#[test]
fn an_import_with_a_wrong_token_ends_before_it_reads() {
    let server = TestServer::start();
    let launch = command(server.address(), &["import", "-"]).environment("PLANTD_TOKEN", "wrong");

    // One standard input has no end, the other never gets a byte.
    let endless = endless_pipe(ROSA);
    ended(launch.spawn_reading(endless), CONFIGURATION);
    let (quiet, _writer) = io::pipe().expect("a pipe can be made");
    ended(launch.spawn_reading(quiet), CONFIGURATION);
    // The command leaves its standard input to the next reader.
    let folder = folder();
    let mut source = File::open(file(&folder, "plants", ROSA)).unwrap();
    ended(launch.spawn_reading(source.try_clone().unwrap()), CONFIGURATION);
    let mut unread = String::new();
    source.read_to_string(&mut unread).unwrap();
    assert_eq!(unread, ROSA);
}

#[test]
fn a_failure_of_the_connection_or_the_server_is_reported_with_what_to_do() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    let server = TestServer::start();
    let plain = server.address().to_string();
    let silent = FakeServer::start(|_, _| {}).address.to_string();
    let other = FakeServer::start(|_, stream| {
        stream.write_all(b"220 mail.example ESMTP\r\n").expect("the client reads");
    });
    let other = other.address.to_string();
    let folder = folder();
    let path = file(&folder, "plants.csv", "id,name,tag\n");
    for (scheme, authority, words) in [
        ("http", refused.as_str(), ["nothing listens", "start the server"]),
        ("https", &refused, ["nothing listens", "start the server"]),
        ("http", "plants.invalid", ["is not known", "--url"]),
        ("https", &plain, ["does not speak TLS", "http://"]),
        ("http", &silent, ["broke the connection off", "https://"]),
        ("http", &other, ["does not answer in HTTP", "--url"]),
    ] {
        let url = format!("{scheme}://{authority}");
        for arguments in [["export", "-"], ["export", text(&path)], ["import", text(&path)]] {
            let launch = Launch::new().arguments(arguments).arguments(["--url", &url]);
            check_refusal(&launch, IO, &[&url, words[0], words[1]]);
        }
        // A failed export leaves the file unchanged.
        assert_eq!(fs::read_to_string(&path).unwrap(), "id,name,tag\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    let busy = FakeServer::start(|_, stream| {
        let body = r#"{"error":5003,"message":"too busy, try again"}"#;
        answer(stream, "503 Service Unavailable", JSON, body);
    });
    for arguments in [&["export"] as &[&str], &["import", text(&path)]] {
        let words = ["too busy, try again", "5003"];
        check_refusal(&command(busy.address, arguments), IO, &words);
    }
}

#[test]
fn a_file_that_is_refused_as_a_whole_ends_with_1() {
    let server = TestServer::start();
    let folder = folder();
    for body in ["", "1,Rosa,\n", "names,id,tag\n"] {
        let path = file(&folder, "plants.csv", body);
        let launch = command(server.address(), &["import", text(&path)]);
        check_refusal(&launch, FINDINGS, &["id,name,tag", "1004"]);
    }
    let large = format!("1,Rosa,\n{}", "x".repeat(4 * 1024 * 1024));
    let path = file(&folder, "plants.csv", &large);
    check_refusal(&command(server.address(), &["import", text(&path)]), FINDINGS, &["1004"]);
    let launch = command(server.address(), &["import", "--format=csv", "-"]);
    let process = ended(launch.spawn_reading(pipe_of(large)), FINDINGS);
    assert!(process.stderr().contains("id,name,tag"), "{}", process.stderr());
}

#[test]
fn a_file_that_cannot_be_read_or_written_ends_with_74() {
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    let folder = folder();
    let missing = folder.path().join("missing.csv");
    let nowhere = folder.path().join("missing/plants.csv");
    let taken = folder.path().join("folder.csv");
    fs::create_dir(&taken).unwrap();
    for (subcommand, path, words) in [
        ("import", missing.as_path(), "cannot read"),
        ("import", &taken, "cannot read"),
        ("export", &nowhere, "cannot write"),
        ("export", &taken, "cannot write"),
        ("export", Path::new("/dev/full"), "cannot write"),
    ] {
        let launch = command(server.address(), &[subcommand, "--format=csv", text(path)]);
        check_refusal(&launch, IO, &[words, text(path)]);
    }
    let files = fs::read_dir(folder.path()).expect("a folder can be read");
    assert_eq!(files.count(), 1, "something was left behind");
}

#[test]
fn an_export_replaces_a_file_and_keeps_its_permissions() {
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    let folder = folder();

    let new = folder.path().join("new.ndjson");
    run(&command(server.address(), &["export", text(&new)]).umask("000"), 0);
    assert_eq!(mode(&new), 0o600, "a new file is for its owner alone");

    let old = file(&folder, "old.ndjson", "what was there before, and was longer than that");
    let link = folder.path().join("link.ndjson");
    std::os::unix::fs::symlink("old.ndjson", &link).unwrap();
    for (path, permissions) in [(&old, 0o600), (&old, 0o666), (&link, 0o640)] {
        fs::write(&old, "what was there before").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(permissions)).unwrap();
        run(&command(server.address(), &["export", text(path)]), 0);
        assert_eq!(fs::read_to_string(&old).unwrap(), ROSA);
        assert_eq!(mode(&old), permissions);
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "something was left behind");
    // A file name without a folder refers to the current folder.
    let launch = command(server.address(), &["export", "here.ndjson"]);
    run(&launch.current_folder(folder.path()), 0);
    assert_eq!(fs::read_to_string(folder.path().join("here.ndjson")).unwrap(), ROSA);
}

#[test]
fn an_export_to_a_device_or_a_pipe_goes_there() {
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    run(&command(server.address(), &["export", "--format=csv", "/dev/null"]), 0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());

    let folder = folder();
    let pipe = folder.path().join("pipe.csv");
    make_pipe(&pipe);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe)
    });
    run(&command(server.address(), &["export", text(&pipe)]), 0);
    assert_eq!(reader.join().unwrap().unwrap(), "id,name,tag\n1,Rosa,\n");
}

/// Asserts that an export ends with 74 and these words, and leaves its file as it was, or absent.
#[track_caller]
fn check_no_export(address: SocketAddr, words: &[&str], name: &str) {
    let folder = folder();
    let path = file(&folder, name, "as it was");
    check_refusal(&command(address, &["export", text(&path)]), IO, words);
    assert_eq!(fs::read_to_string(&path).expect("a file can be read"), "as it was");
    let files = fs::read_dir(folder.path()).expect("a folder can be read");
    assert_eq!(files.count(), 1, "something was left behind");
    fs::remove_file(&path).expect("the file was there before");
    check_refusal(&command(address, &["export", text(&path)]), IO, words);
    assert!(!path.exists(), "{words:?}");
}

#[test]
fn an_export_that_breaks_off_ends_with_74_and_leaves_the_file_unchanged() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nX-Total-Count: 2\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let cuts = [
        // Within a chunk, within a row, between two chunks, and before the last chunk.
        format!("{chunked}17\r\n{{\"id\":1"),
        format!("{chunked}8\r\n{{\"id\":1,\r\n"),
        format!("{chunked}17\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n\r\n"),
        format!("{chunked}17\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n\r\n0"),
        // Shorter than its length, ended by the close of the connection.
        format!("{head}Content-Length: 100\r\n\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n"),
        format!("{head}\r\n{{\"id\":1,\"name\":\"Rosa\"}}\n"),
        // No answer.
        String::new(),
        head.to_owned(),
    ];
    for cut in cuts {
        let server = FakeServer::start(move |_, stream| {
            stream.write_all(cut.as_bytes()).expect("the client reads");
        });
        let url = format!("http://{}", server.address);
        check_no_export(server.address, &[&url], "plants.ndjson");
        // Some plants may be on standard output already.
        let stderr = run(&command(server.address, &["export"]), IO).stderr();
        assert!(stderr.starts_with("error: ") && !stderr.contains("exported"), "{stderr}");
    }
}

/// A server that answers an export with these bytes, and the list of the plants after it with this status and body.
fn exporting_raw(export: String, following: (&'static str, &'static str)) -> FakeServer {
    FakeServer::start(move |head, stream| {
        if head.contains("/plants/export") {
            stream.write_all(export.as_bytes()).expect("the client reads");
        } else {
            answer(stream, following.0, JSON, following.1);
        }
    })
}

/// A server that exports these rows, and answers the list of the plants after them with this status and body.
fn exporting(
    content_type: &str,
    rows: &str,
    following: (&'static str, &'static str),
) -> FakeServer {
    exporting_raw(answer_of("200 OK", content_type, rows), following)
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
        check_no_export(exporting(content_type, &rows, following).address, &words, name);
    }
    let server = exporting(EXPORT_OF_TWO, ROSA, two_follow);
    let throw_away = "throw away the part that went to standard output";
    assert!(run(&command(server.address, &["export"]), IO).stderr().contains(throw_away));
}

#[test]
fn deleted_plants_do_not_hide_that_an_export_was_truncated() {
    let server = FakeServer::start(|head, stream| {
        if head.contains("/plants/export") {
            answer(stream, "200 OK", EXPORT_OF_TWO, ROSA);
        } else if head.contains("after=12000 ") {
            answer(stream, "200 OK", JSON, r#"[{"id":20000,"name":"Salix"}]"#);
        } else {
            let link = "</plants?limit=1000&after=12000>; rel=\"next\"";
            answer(stream, "200 OK", &format!("{JSON}\r\nLink: {link}"), "[]");
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
        let server = exporting_raw(answer, ("200 OK", "[]"));
        check_no_export(server.address, &["where its answer ends", "HTTP/1.1"], "plants.ndjson");
    }
}

#[test]
fn an_export_behind_a_proxy_that_speaks_http_1_0_ends_with_74() {
    // The default of older nginx versions.
    const HTTP_1_0: &str = "proxy_http_version 1.0;";
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    let nginx = Nginx::in_front_of(server.address(), HTTP_1_0);
    check_no_export(nginx.address(), &["HTTP/1.1", "1008"], "plants.ndjson");

    // An older server exports over HTTP/1.0, which hides a cut.
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: {EXPORT_OF_TWO}\r\n\r\n{ROSA}");
    let server = exporting_raw(answer, ("200 OK", "[{\"id\":2,\"name\":\"Salix\"}]"));
    let nginx = Nginx::in_front_of(server.address, HTTP_1_0);
    check_no_export(nginx.address(), &["1 of 2 plants", "HTTP/1.0"], "plants.ndjson");
}

#[test]
fn an_export_with_a_tag_or_a_part_of_the_name_has_those_plants() {
    let server = server_with(&[
        NewPlant::new(1, "Rosa canina", Some("Rosaceae")),
        NewPlant::new(2, "Salix alba", Some("Salicaceae")),
        NewPlant::new(3, "Rosa & Söhne", Some("-a=b&c")),
    ]);
    let folder = folder();
    let path = folder.path().join("plants.csv");
    for (selection, ids) in [
        (&["--tag", "Rosaceae"] as &[&str], &[1_i64] as &[i64]),
        (&["--tag", "-a=b&c"], &[3]),
        (&["--name", "ROSA"], &[1, 3]),
        (&["--name", "söhne", "--tag", "-a=b&c"], &[3]),
        (&["--name", "söhne", "--tag", "Rosaceae"], &[]),
        (&["--tag", "nothing"], &[]),
    ] {
        run(&command(server.address(), &["export", text(&path)]).arguments(selection), 0);
        let exported = fs::read_to_string(&path).unwrap();
        let rows = exported.lines().skip(1);
        let exported: Vec<i64> =
            rows.map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!(exported, ids, "{selection:?}");
    }
    let wrong = command(server.address(), &["export", "--tag", ""]);
    check_refusal(&wrong, USAGE, &["tag", "1006"]);
    let without_server = Launch::new().arguments(["export", "--data", text(folder.path())]);
    without_server.arguments(["--tag", "Rosaceae"]).assert_refused(USAGE, &["--tag"]);
}

#[test]
fn a_truncated_export_with_a_tag_is_noticed_and_one_with_a_name_is_completed() {
    let server = FakeServer::start(|head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/plants/export?tag=a" => answer(stream, "200 OK", EXPORT_OF_TWO, ROSA),
            "/plants/export?name=s" => answer(stream, "200 OK", NDJSON, ROSA),
            "/plants?limit=1000&after=1&tag=a" | "/plants?limit=1000&after=1&name=s" => {
                answer(stream, "200 OK", JSON, &format!("[{}]", SALIX.trim_end()));
            }
            "/plants?limit=1000&after=2&name=s" => answer(stream, "200 OK", JSON, "[]"),
            _ => answer(stream, "404 Not Found", JSON, ""),
        }
    });
    let export = command(server.address, &["export"]);
    let stderr = run(&export.clone().arguments(["--tag", "a"]), IO).stderr();
    assert!(stderr.contains("1 of 2 plants"), "{stderr}");
    assert_eq!(run(&export.arguments(["--name", "s"]), 0).stdout(), TWO_ROWS);
}

#[test]
fn plants_created_or_deleted_at_the_end_of_an_export_do_not_fail_it() {
    let created = "[{\"id\":3,\"name\":\"Salix\"},{\"id\":4,\"name\":\"Acer\",\"tag\":\"a\"}]";
    let created_row = "{\"id\":3,\"name\":\"Salix\"}\n{\"id\":4,\"name\":\"Acer\",\"tag\":\"a\"}\n";
    for (rows, following, expected) in [
        // The second plant was deleted before the export reached it.
        (ROSA, "[]", ROSA.to_owned()),
        ("", "[]", String::new()),
        // Two plants were created after the last one.
        (TWO_ROWS, created, format!("{TWO_ROWS}{created_row}")),
    ] {
        let server = FakeServer::start(move |head, stream| {
            if head.contains("/plants/export") {
                answer(stream, "200 OK", EXPORT_OF_TWO, rows);
            } else {
                let is_end = head.contains("after=4");
                answer(stream, "200 OK", JSON, if is_end { "[]" } else { following });
            }
        });
        assert_eq!(run(&command(server.address, &["export"]), 0).stdout(), expected);
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
    let folder = folder();
    let path = file(&folder, "plants.ndjson", "as it was");
    let mut process = command(server.address, &["export", text(&path)]).spawn();
    wait_until("some plants in another file", || {
        let mut others =
            fs::read_dir(folder.path()).expect("a folder can be read").filter_map(Result::ok);
        others.any(|other| {
            other.path() != path && other.metadata().is_ok_and(|metadata| metadata.len() > 0)
        })
    });
    process.kill();
    assert_eq!(fs::read_to_string(&path).expect("a file can be read"), "as it was");
}

#[test]
fn an_answer_that_is_not_from_plantd_ends_without_a_file() {
    let html = "<p>Plants</p>";
    let redirect = "308 Permanent Redirect\r\nLocation: https://a.example";
    for (status, content_type, exit_code, words) in [
        ("200 OK", "text/html", IO, ["text/html", "--url"]),
        ("200 OK", "text/csv", IO, ["text/csv", "application/x-ndjson"]),
        ("502 Bad Gateway", "text/html", IO, ["502", "Bad Gateway"]),
        ("418 I'm a teapot", "text/html", USAGE, ["418", "does not say why"]),
        (redirect, "a/b", USAGE, ["https://a.example", "--url"]),
    ] {
        let server = FakeServer::start(move |_, stream| answer(stream, status, content_type, html));
        let folder = folder();
        let path = folder.path().join("plants.ndjson");
        check_refusal(&command(server.address, &["export", text(&path)]), exit_code, &words);
        assert!(!path.exists(), "{status}");
    }
}

#[test]
fn the_text_of_a_server_cannot_control_the_terminal() {
    let body = r#"{"error":1234,"message":"red \u001b[31m alarm\u0007\r\n\u009b2J"}"#;
    let server = FakeServer::start(move |_, stream| answer(stream, "400 Bad Request", JSON, body));
    let stderr = run(&command(server.address, &["export"]), USAGE).stderr();
    assert!(stderr.contains("red ") && stderr.contains("(error 1234)"), "{stderr:?}");
    assert!(!stderr.trim_end_matches('\n').contains(char::is_control), "{stderr:?}");
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
    let folder = folder();
    let path = file(&folder, "plants.ndjson", ROSA.repeat(2_000_000));
    let url = format!("http://{}", server.address);
    let launch = command(server.address, &["import", text(&path)]);
    check_refusal(&launch, IO, &[&url, "broke", "--on-conflict skip"]);
    let launch = command(server.address, &["import", "-"]);
    let process = ended(launch.spawn_reading(endless_pipe(ROSA)), IO);
    assert!(process.stderr().contains("--on-conflict skip"), "{}", process.stderr());
}

#[test]
fn an_import_ends_with_0_only_when_the_report_accounts_for_every_row() {
    let of =
        |created: u64| EMPTY_REPORT.replace("\"created\":0", &format!("\"created\":{created}"));
    let (one, two, three) = (of(1), of(2), of(3));
    let stopped = r#"{"error":5002,"message":"shutting down; 1 plants were created"}"#;
    let cases: [(&str, &str, &str, i32, &str); 10] = [
        ("200 OK", JSON, &two, 0, ""),
        ("200 OK", JSON, &one, IO, "2 rows were sent"),
        ("200 OK", JSON, &three, IO, "2 rows were sent"),
        ("200 OK", JSON, EMPTY_REPORT, IO, "2 rows were sent"),
        ("200 OK", JSON, "", IO, "does not tell"),
        ("200 OK", JSON, "{}", IO, "does not tell"),
        ("200 OK", "text/html", "<p>Plants</p>", IO, "does not tell"),
        ("204 No Content", JSON, "", IO, "204"),
        ("503 Service Unavailable", JSON, stopped, IO, "1 plants were created"),
        ("302 Found\r\nLocation: http://a.example", JSON, &two, USAGE, "http://a.example"),
    ];
    let folder = folder();
    let path = file(&folder, "plants.csv", ROWS);
    for (status, content_type, body, exit_code, word) in cases {
        let server = importing(ROWS.len() as u64, answer_of(status, content_type, body));
        let launch = command(server.address, &["import", text(&path)]);
        match exit_code {
            0 => drop(run(&launch, 0)),
            _ => check_refusal(&launch, exit_code, &[word]),
        }
    }
}

#[test]
fn a_client_ignores_the_environment_of_a_server() {
    let server = server_with(&[NewPlant::new(1, "Rosa", None)]);
    let launch = command(server.address(), &["export"])
        .environment("PLANTD_LISTEN", "nonsense")
        .environment("PLANTD_CACHE_MB", "much");
    assert_eq!(run(&launch, 0).stdout(), ROSA);
}
