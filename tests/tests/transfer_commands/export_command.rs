//! `plantd export`: which plants it exports, and where they go.

use std::fs;
use std::thread;

use plantd_tests::{
    Launch, NewPlant, TestServer, USAGE, make_pipe, mode, names_in, set_mode, temporary_folder,
};

use crate::{ROSA, command, difficult_plants, file, rosa, text};

#[test]
fn an_export_for_spreadsheets_is_what_the_server_sends() {
    let mut plants = difficult_plants();
    plants.insert(1, NewPlant::new(i64::MIN + 1, &format!("={}", "x".repeat(254)), Some("@x;-y")));
    let server = TestServer::start_with_plants(&plants);
    let accept = [("accept", "text/vnd.plantd.spreadsheet")];
    let expected = server.client().send("GET", "/plants/export", &accept, "").body;
    let folder = temporary_folder();
    let path = folder.path().join("plants.csv");
    command(&server, &["export", "--format=spreadsheet", text(&path)]).run(0);
    assert!(fs::read(&path).unwrap() == expected, "the export differs from the server's");
}

#[test]
fn an_export_replaces_a_file_and_keeps_its_permissions() {
    let server = rosa();
    let folder = temporary_folder();

    let new = folder.path().join("new.ndjson");
    command(&server, &["export", text(&new)]).umask("000").run(0);
    assert_eq!(mode(&new), 0o600, "a new file is for its owner alone");

    let old = file(&folder, "old.ndjson", "what was there before, and was longer than that");
    let link = folder.path().join("link.ndjson");
    std::os::unix::fs::symlink("old.ndjson", &link).unwrap();
    for (path, permissions) in [(&old, 0o600), (&old, 0o666), (&link, 0o640)] {
        fs::write(&old, "what was there before").unwrap();
        set_mode(&old, permissions);
        command(&server, &["export", text(path)]).run(0);
        assert_eq!(fs::read_to_string(&old).unwrap(), ROSA);
        assert_eq!(mode(&old), permissions);
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    // A file name without a folder refers to the current folder.
    command(&server, &["export", "here.ndjson"]).current_folder(folder.path()).run(0);
    assert_eq!(fs::read_to_string(folder.path().join("here.ndjson")).unwrap(), ROSA);
    let names = ["here.ndjson", "link.ndjson", "new.ndjson", "old.ndjson"];
    assert_eq!(names_in(folder.path()), names, "something was left behind");
}

#[test]
fn an_export_to_a_device_or_a_pipe_goes_there() {
    let server = rosa();
    command(&server, &["export", "--format=csv", "/dev/null"]).run(0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());

    let folder = temporary_folder();
    let pipe = folder.path().join("pipe.csv");
    make_pipe(&pipe);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe)
    });
    command(&server, &["export", text(&pipe)]).run(0);
    assert_eq!(reader.join().unwrap().unwrap(), "id,name,tag\n1,Rosa,\n");
}

#[test]
fn an_export_with_a_tag_or_a_part_of_the_name_has_those_plants() {
    let server = TestServer::start_with_plants(&[
        NewPlant::new(1, "Rosa canina", Some("Rosaceae")),
        NewPlant::new(2, "Salix alba", Some("Salicaceae")),
        NewPlant::new(3, "Rosa & Söhne", Some("-a=b&c")),
    ]);
    for (selection, ids) in [
        (&["--tag", "Rosaceae"] as &[&str], &["1"] as &[&str]),
        (&["--tag", "-a=b&c"], &["3"]),
        (&["--name", "ROSA"], &["1", "3"]),
        (&["--name", "söhne", "--tag", "-a=b&c"], &["3"]),
        (&["--name", "söhne", "--tag", "Rosaceae"], &[]),
        (&["--tag", "nothing"], &[]),
    ] {
        let export = command(&server, &["export", "--format=csv"]).arguments(selection);
        let exported = export.run(0).stdout();
        let rows = exported.lines().skip(1);
        let exported: Vec<&str> = rows.filter_map(|row| row.split(',').next()).collect();
        assert_eq!(exported, ids, "{selection:?}");
    }
    let wrong = command(&server, &["export", "--tag", ""]);
    wrong.assert_refused_in_a_line(USAGE, &["tag", "1006"]);
    let without_server = Launch::new().arguments(["export", "--data", "data", "--tag", "Rosaceae"]);
    without_server.assert_refused(USAGE, &["--tag"]);
}
