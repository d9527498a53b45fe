//! `plantd import` and `plantd export` with a server on any store: the plants that they move, their messages and their exit
//! codes.

mod export_command;
mod import_command;

use std::fs;
use std::path::{Path, PathBuf};

use plantd_tests::{
    Format, IO, Launch, NewPlant, TestServer, USAGE, names_in, pipe_of, temporary_folder,
};
use tempfile::TempDir;

const ROSA: &str = "{\"id\":1,\"name\":\"Rosa\"}\n";

fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn rosa() -> TestServer {
    TestServer::start_with_plants(&[NewPlant::new(1, "Rosa", None)])
}

/// The command for this server.
fn command(server: &TestServer, arguments: &[&str]) -> Launch {
    Launch::for_server(server.address(), arguments)
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

#[test]
fn an_import_of_an_export_exports_the_same_through_files_and_pipes() {
    let folder = temporary_folder();
    for plants in [vec![], difficult_plants()] {
        let server = TestServer::start_with_plants(&plants);
        let count = plants.len();
        let exported_message = format!("exported {count} plants");
        for (format, flag) in [(Format::Ndjson, "ndjson"), (Format::Csv, "csv")] {
            let exported = server.client().export(format);

            let path = folder.path().join(format!("plants.{flag}"));
            let process = command(&server, &["export", text(&path)]).run(0);
            assert_eq!(fs::read(&path).unwrap(), exported, "{format:?}");
            assert_eq!(process.stdout(), "");
            assert_summary(process.stderr().trim_end(), &exported_message, "");

            let process = command(&server, &["export", "--format", flag]).run(0);
            assert_eq!(process.stdout().as_bytes(), exported, "{format:?}");
            assert_summary(process.stderr().trim_end(), &exported_message, "");

            let by_file = TestServer::start();
            let said = command(&by_file, &["import", text(&path)]).printed();
            let counts = format!(": {count} created, 0 replaced, 0 skipped, 0 failed");
            assert_summary(said.trim_end(), &format!("imported {count} plants"), &counts);
            assert_eq!(by_file.client().list_all("limit=1000"), plants, "{format:?}");

            let by_pipe = TestServer::start();
            let launch = command(&by_pipe, &["import", "--format", flag, "-"]);
            launch.run_reading(pipe_of(exported.clone()), 0);
            assert_eq!(by_pipe.client().export(format), exported, "{format:?}");
        }
    }
}

#[test]
fn the_format_is_that_of_the_flag_or_else_of_the_file_name() {
    let server = TestServer::start();
    let folder = temporary_folder();
    let csv = "id,name,tag\n1,Rosa,\n";
    for (name, flag, body) in [
        ("a.csv", None, csv),
        ("b.CSV", None, csv),
        ("c.jsonl", None, ROSA),
        ("d.txt", Some("--format=csv"), csv),
        ("e.csv", Some("--format=ndjson"), ROSA),
        ("f", Some("--format=ndjson"), ROSA),
    ] {
        let path = file(&folder, name, body);
        let import = command(&server, &["import", "--on-conflict=skip", text(&path)]);
        import.arguments(flag).run(0);
        command(&server, &["export", text(&path)]).arguments(flag).run(0);
        assert_eq!(fs::read_to_string(&path).unwrap(), body, "{name}");
    }
    for name in ["plants", "plants.txt", "plants.csv.gz", ".csv"] {
        let path = file(&folder, name, csv);
        for subcommand in ["import", "export"] {
            let launch = command(&server, &[subcommand, text(&path)]);
            launch.assert_refused_in_a_line(USAGE, &[name, "--format"]);
        }
    }
    let path = file(&folder, "plants.json", "[]");
    let words = ["csv, ndjson or spreadsheet"];
    command(&server, &["export", text(&path)]).assert_refused_in_a_line(USAGE, &words);
}

#[test]
fn a_file_that_cannot_be_read_or_written_ends_with_74() {
    let server = rosa();
    let folder = temporary_folder();
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
        let launch = command(&server, &[subcommand, "--format=csv", text(path)]);
        launch.assert_refused_in_a_line(IO, &[words, text(path)]);
    }
    assert_eq!(names_in(folder.path()), ["folder.csv"], "something was left behind");
}
