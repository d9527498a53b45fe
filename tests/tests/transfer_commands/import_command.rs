//! `plantd import`: what it says about rows that fail, and what it reads.

use std::fs::File;
use std::io::{self, Read as _};

use plantd_tests::{
    CONFIGURATION, FINDINGS, Format, NewPlant, Process, TestServer, endless_pipe, pipe_of,
    temporary_folder,
};

use crate::{ROSA, assert_summary, command, difficult_plants, file, text};

/// How many failed rows a report lists at most.
const ERRORS_MAX: usize = 1000;

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
    let folder = temporary_folder();
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
                let server = TestServer::start_with_plants(&[NewPlant::new(1, "old", None)]);
                let launch = command(&server, &["import", "--format=csv", from]);
                let exit_code = if failed.is_empty() { 0 } else { FINDINGS };
                let stdin = pipe_of(body.to_owned());
                let process = launch.arguments(flag).run_reading(stdin, exit_code);
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
fn the_first_failed_rows_are_listed_and_all_are_counted() {
    let server = TestServer::start();
    let folder = temporary_folder();
    let path = file(&folder, "plants.ndjson", "{\n".repeat(ERRORS_MAX + 2345) + ROSA);
    let process = command(&server, &["import", text(&path)]).run(FINDINGS);
    let stderr = process.stderr();
    let (listed, rest) = stderr.split_once("2,345 more rows failed").expect("the rest is counted");
    let is_about = |(row, number): (&str, u32)| {
        row.starts_with(&format!("{}:{number}: ", text(&path))) && row.ends_with("(error 1001)")
    };
    let listed: Vec<_> = listed.lines().filter(|row| row.contains("(error ")).zip(1..).collect();
    assert!(listed.len() == ERRORS_MAX && listed.into_iter().all(is_about), "{stderr}");
    assert!(!rest.contains("(error "), "{rest}");
    assert!(process.stdout().trim_end().ends_with(" 3,345 failed"));
    assert_eq!(server.client().list_all(""), [NewPlant::new(1, "Rosa", None)]);
}

#[test]
fn a_json_array_is_imported_like_other_formats_and_a_byte_order_mark_is_skipped() {
    let plants = difficult_plants();
    let rows: Vec<String> = plants.iter().map(NewPlant::json).collect();
    let folder = temporary_folder();
    let import = |server: &TestServer, name: &str, body: &str| {
        let path = file(&folder, name, body);
        command(server, &["import", text(&path)])
    };
    let array = format!("[\n  {}\n]\n", rows.join(",\n  "));
    for (name, flag, body) in [
        ("plants.json", None, array.clone()),
        ("plants", Some("--format=json"), format!("\u{feff}{array}")),
        ("plants.csv", None, format!("\u{feff}{}", Format::Csv.body(&plants))),
        ("plants.ndjson", None, format!("\u{feff}{}", Format::Ndjson.body(&plants))),
    ] {
        let server = TestServer::start();
        import(&server, name, &body).arguments(flag).run(0);
        assert_eq!(server.client().list_all("limit=1000"), plants, "{name}");
    }
    let server = TestServer::start();
    let process = import(&server, "broken.json", &format!("[{},\n]", rows[0])).run(FINDINGS);
    check_failed_rows(&process, text(&folder.path().join("broken.json")), &[(2, 1001)]);
    let object = import(&server, "object.json", &rows[0]);
    object.assert_refused_in_a_line(FINDINGS, &["array", "1004"]);
}

#[test]
fn a_file_that_is_refused_as_a_whole_ends_with_1() {
    let server = TestServer::start();
    let folder = temporary_folder();
    for body in ["", "1,Rosa,\n", "names,id,tag\n"] {
        let path = file(&folder, "plants.csv", body);
        let launch = command(&server, &["import", text(&path)]);
        launch.assert_refused_in_a_line(FINDINGS, &["id,name,tag", "1004"]);
    }
    let large = format!("1,Rosa,\n{}", "x".repeat(4 * 1024 * 1024));
    let path = file(&folder, "plants.csv", &large);
    command(&server, &["import", text(&path)]).assert_refused_in_a_line(FINDINGS, &["1004"]);
    let launch = command(&server, &["import", "--format=csv", "-"]);
    let process = launch.run_reading(pipe_of(large), FINDINGS);
    assert!(process.stderr().contains("id,name,tag"), "{}", process.stderr());
}

#[test]
fn a_file_on_standard_input_is_read_from_its_current_position() {
    let server = TestServer::start();
    let folder = temporary_folder();
    let path = file(&folder, "plants", format!("not a plant\n{ROSA}"));
    let mut source = File::open(path).unwrap();
    source.read_exact(&mut [0; "not a plant\n".len()]).unwrap();
    command(&server, &["import", "-"]).run_reading(source, 0);
    assert_eq!(server.client().list_all(""), [NewPlant::new(1, "Rosa", None)]);
}

#[test]
fn an_import_with_a_wrong_token_ends_before_it_reads() {
    let server = TestServer::start();
    let launch = command(&server, &["import", "-"]).environment("PLANTD_TOKEN", "wrong");

    // One standard input has no end, the other never gets a byte.
    launch.run_reading(endless_pipe(ROSA), CONFIGURATION);
    let (quiet, _writer) = io::pipe().expect("a pipe can be made");
    launch.run_reading(quiet, CONFIGURATION);
    // The command leaves its standard input to the next reader.
    let folder = temporary_folder();
    let mut source = File::open(file(&folder, "plants", ROSA)).unwrap();
    launch.run_reading(source.try_clone().unwrap(), CONFIGURATION);
    let mut unread = String::new();
    source.read_to_string(&mut unread).unwrap();
    assert_eq!(unread, ROSA);
}
