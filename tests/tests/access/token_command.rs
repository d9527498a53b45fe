//! `plantd token`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use plantd_tests::{
    CONFIGURATION, IO, Launch, SmallDisk, USAGE, at_once, create_token, mode, names_in, program,
    revoke_token, set_mode, temporary_folder, token_command,
};
use serde_json::Value;

use crate::launch;

/// The words of each line of `plantd token list`, without the header.
#[track_caller]
pub(crate) fn list(data: &Path) -> Vec<Vec<String>> {
    let stdout = token_command(data, &["list"]).run(0).stdout();
    let mut lines = stdout.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("NAME")), "{stdout}");
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

pub(crate) fn names(data: &Path) -> Vec<String> {
    list(data).into_iter().map(|mut words| words.remove(0)).collect()
}

#[test]
fn a_tokens_file_in_which_two_tokens_have_one_name_is_refused_until_they_are_revoked() {
    let folder = temporary_folder();
    let (data, path) = (folder.path(), folder.path().join("tokens.json"));
    let _ = create_token(data, &["--name", "mine"]);
    let _ = create_token(data, &["--name", "other"]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"other\"", "\"mine\"")).unwrap();
    let words = ["tokens.json", "several tokens with the name mine", "plantd token revoke mine"];
    token_command(data, &["list"]).assert_refused_in_a_line(CONFIGURATION, &words);
    Launch::new().data(data).assert_refused(CONFIGURATION, &words);
    revoke_token(data, &["mine"]);
    assert!(names(data).is_empty());
}

#[test]
fn create_says_until_when_the_token_is_valid_and_which_scopes_there_are() {
    let folder = temporary_folder();
    let create = |arguments: &[&str]| {
        token_command(
            folder.path(),
            &[&["create", "--scope", "read", "--name"], arguments].concat(),
        )
    };
    assert_eq!(create(&["lasting"]).run(0).stderr(), "never expires\n");
    let said = create(&["short", "--expires", "90d"]).run(0).stderr();
    let until = said.strip_prefix("valid until ").and_then(|time| time.strip_suffix('\n'));
    assert_eq!(until, Some(list(folder.path())[1][3].as_str()), "{said}");

    let scopes = ["--scope metrics", "--scope backup", "--scope read", "--scope write"];
    let missing = token_command(folder.path(), &["create", "--name", "x"]);
    let said = missing.assert_refused(USAGE, &scopes);
    assert!(said.contains("read plants, events and the metrics"), "{said}");
    let wrong = token_command(folder.path(), &["create", "--name", "x", "--scope", "all"]);
    wrong.assert_refused(USAGE, &["metrics, backup, read, write"]);
    assert_eq!(names(folder.path()), ["lasting", "short"]);
}

#[test]
fn a_token_is_recognizable_and_only_its_digest_is_kept() {
    let folder = temporary_folder();
    let data = folder.path().join("data");
    let token = create_token(&data, &["--name", "first"]);
    let other = create_token(&data, &["--name", "second"]);
    assert_ne!(token, other);
    assert!(token.starts_with("plantd_"), "{token}");
    // 43 characters of base64 hold 256 bits; the checksum follows.
    assert_eq!(token.len(), "plantd_".len() + 43 + 6, "{token}");

    let file = data.join("tokens.json");
    assert_eq!(mode(&data), 0o700);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&token) && !text.contains(&token["plantd_".len()..]), "{text}");
    // Only the file and its lock remain.
    assert_eq!(names_in(&data), ["tokens.json", "tokens.json.lock"]);
    for name in names_in(&data) {
        assert_eq!(mode(&data.join(name)), 0o600);
    }
}

#[test]
fn the_list_shows_what_is_kept_of_each_token() {
    let folder = temporary_folder();
    let read = ["--name", "reader", "--scope", "read", "--expires", "90d"];
    let token = create_token(folder.path(), &read);
    let _ = create_token(folder.path(), &["--name", "writer"]);
    let lines = list(folder.path());
    let lines: Vec<Vec<&str>> =
        lines.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let [[reader, read, created, expires], [writer, write, later, never]] =
        [0, 1].map(|line| <[&str; 4]>::try_from(&*lines[line]).expect("four words"));
    assert_eq!(
        [reader, read, writer, write, never],
        ["reader", "read", "writer", "write", "never"]
    );
    for time in [created, expires, later] {
        assert!(time.len() == "2026-01-01T00:00:00Z".len() && time.ends_with('Z'), "{time}");
    }
    assert!(created < expires, "{lines:?}");
    let stdout = token_command(folder.path(), &["list"]).run(0).stdout();
    assert!(!stdout.contains(&token), "{stdout}");
}

#[test]
fn a_killed_command_does_not_block_the_next_one() {
    let folder = temporary_folder();
    let data = folder.path();
    let _ = create_token(data, &["--name", "mine"]);
    let trace = data.join("trace");
    let mut killed = token_command(data, &["create", "--scope", "write", "--name", "lost"])
        .under_strace(&trace, &["-e", "inject=rename,renameat,renameat2:signal=KILL"])
        .spawn();
    assert_eq!(killed.wait_for_exit().code(), None, "strace did not kill the command");
    fs::remove_file(&trace).expect("the trace exists");
    assert_eq!(names(data), ["mine"]);
    assert_eq!(killed.stdout(), "");
    let _ = create_token(data, &["--name", "next"]);
    assert_eq!(names(data), ["mine", "next"]);
    assert_eq!(names_in(data), ["tokens.json", "tokens.json.lock"]);
}

#[test]
fn waiting_for_the_lock_of_another_process_has_a_deadline() {
    let folder = temporary_folder();
    let _ = create_token(folder.path(), &["--name", "mine"]);
    let lock = File::open(folder.path().join("tokens.json.lock")).expect("a file can be opened");
    lock.lock().expect("a lock");
    let launch = token_command(folder.path(), &["revoke", "mine"]);
    launch.assert_refused_in_a_line(IO, &["another process"]);
    assert_eq!(names(folder.path()), ["mine"]);
    drop(lock);
    revoke_token(folder.path(), &["mine"]);
}

#[test]
fn tokens_that_are_made_at_the_same_time_are_all_kept() {
    const EACH: usize = 6;
    let folder = temporary_folder();
    let long = "x".repeat(63);
    let owners = ["a", "ci.2@example", "first-run", &long];
    at_once(&owners, |name| {
        for number in 0..EACH {
            let _ = create_token(folder.path(), &["--name", &format!("{name}{number}")]);
        }
    });
    let mut names = names(folder.path());
    names.sort();
    let expected =
        owners.iter().flat_map(|name| (0..EACH).map(move |number| format!("{name}{number}")));
    assert_eq!(names, expected.collect::<Vec<String>>());
}

#[test]
fn a_token_that_cannot_be_printed_is_not_kept() {
    let folder = temporary_folder();
    let _ = create_token(folder.path(), &["--name", "mine"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    for stdout in [Stdio::from(full), Stdio::from(writer)] {
        let output = Command::new(program())
            .args(["token", "create", "--scope", "write", "--name", "lost", "--data"])
            .arg(folder.path())
            .stdout(stdout)
            .output()
            .expect("the program can be started");
        assert_eq!(output.status.code(), Some(IO), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("no token was made"), "{stderr}");
    }
    assert_eq!(names(folder.path()), ["mine"]);
}

#[test]
fn a_full_disk_leaves_the_tokens_as_they_were() {
    let disk = SmallDisk::new("size=1m");
    let data = disk.data();
    let launch = |arguments: &[&str]| token_command(&data, arguments).within(&disk);
    launch(&["create", "--scope", "write", "--name", "mine"]).spawn().assert_exit_code(0);
    disk.fill("filler");
    launch(&["create", "--scope", "write", "--name", "other"])
        .assert_refused_in_a_line(IO, &["cannot write", "room"]);
    launch(&["revoke", "mine"]).assert_refused_in_a_line(IO, &["cannot write", "room"]);
    let listed = launch(&["list"]).run(0).stdout();
    assert!(listed.contains("mine") && !listed.contains("other"), "{listed}");
}

#[test]
fn an_invalid_command_is_refused_and_reveals_no_token() {
    let folder = temporary_folder();
    let data = folder.path();
    let token = create_token(data, &["--name", "mine"]);
    let before = fs::read(data.join("tokens.json")).unwrap();
    let create = |arguments: &[&str], words: &str| {
        let arguments = [&["create", "--scope", "write"], arguments].concat();
        token_command(data, &arguments).assert_refused_in_a_line(USAGE, &[words])
    };
    let mut said = String::new();
    for name in ["", "a b", "a\nb", "a=b", "é", "-a", &"x".repeat(65)] {
        said += &create(&[&format!("--name={name}")], "1 to 64");
    }
    said += &create(&["--name", &token], "looks like a token");
    said += &create(&["--name", "PLANTD_TOKEN"], "PLANTD_TOKEN");
    said += &create(&["--name", "x", "--expires", "0s"], "never be valid");
    said += &create(&["--name", "x", "--expires", "9000y"], "9999");
    for (arguments, words) in [
        (&["create", &token][..], "not shown"),
        (&["revoke", "mine", &token], "not shown"),
        (&["revoke", &token], "looks like a token"),
        (&["revoke", "nobody"], "token list"),
    ] {
        said += &token_command(data, arguments).assert_refused_in_a_line(USAGE, &[words]);
    }
    assert!(!said.contains(&token), "a message shows the token: {said}");
    assert_eq!(fs::read(data.join("tokens.json")).unwrap(), before);
}

#[test]
fn an_unusable_tokens_file_ends_every_command_and_stays_unchanged() {
    let folder = temporary_folder();
    let data = folder.path().join("data");
    for arguments in [&["list"][..], &["revoke", "mine"]] {
        token_command(&data, arguments).assert_refused_in_a_line(IO, &["tokens.json", "--data"]);
    }
    let _ = create_token(&data, &["--name", "mine"]);
    let path = data.join("tokens.json");
    let commands = [
        launch().data(&data),
        token_command(&data, &["list"]),
        token_command(&data, &["revoke", "mine"]),
        token_command(&data, &["create", "--scope", "write", "--name", "other"]),
    ];
    for mode in [0o640, 0o604, 0o620, 0o666] {
        for command in &commands {
            set_mode(&path, mode);
            let said = command.assert_refused(CONFIGURATION, &["chmod 600"]);
            // The command in the message solves the problem.
            let shown = said.split_once("chmod 600").map(|(_, path)| format!("chmod 600{path}"));
            let status = Command::new("sh").args(["-c", &shown.unwrap()]).status();
            assert!(status.unwrap().success(), "{said}");
            assert_eq!(names(&data), ["mine"]);
        }
    }
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"tokens":1}"#,
        r#"{"tokens":[{}]}"#,
        r#"{"tokens":["secret"]}"#,
        r#"{"tokens":[{"name":"x"}]}"#,
        r#"{"tokens":[],"secret":1}"#,
        r#"{"tokens":[{"name":"x","scope":"secret"}]}"#,
        r#"{"tokens":[{"name":"secret "}]}"#,
        r#"{"tokens":[{"sha256":"secret"}]}"#,
        &format!(r#"{{"tokens":[{{"sha256":"{}"}}]}}"#, "+f".repeat(32)),
    ] {
        fs::write(&path, text).unwrap();
        for command in &commands {
            let words = ["tokens.json", "broken at line 1"];
            let said = command.assert_refused(CONFIGURATION, &words);
            assert!(!said.contains("secret"), "{said}");
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
        }
    }
    fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    commands[0].assert_refused(CONFIGURATION, &["tokens.json", "more than 1048576 bytes"]);
    fs::remove_file(&path).unwrap();
    symlink(folder.path().join("nowhere"), &path).unwrap();
    commands[0].assert_refused(CONFIGURATION, &["tokens.json", "a link to nothing"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    commands[0].assert_refused(CONFIGURATION, &["tokens.json", "is not a file"]);
    assert!(!data.join("first-run-token").exists(), "a token was made");
}

#[test]
fn the_1001st_token_is_refused_and_a_file_with_too_many_tokens_can_be_edited() {
    let folder = temporary_folder();
    let (data, path) = (folder.path(), folder.path().join("tokens.json"));
    let _ = create_token(data, &["--name", &"x".repeat(64)]);
    let _ = create_token(data, &["--name", "mine"]);
    let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).expect("JSON");
    let fill = |count: usize| {
        let mut tokens: Vec<Value> = (1..count)
            .map(|number| {
                let mut token = file["tokens"][0].clone();
                token["name"] = format!("{number:064}").into();
                token
            })
            .collect();
        tokens.push(file["tokens"][1].clone());
        fs::write(&path, serde_json::json!({ "tokens": tokens }).to_string()).unwrap();
    };
    let create = token_command(data, &["create", "--scope", "write", "--name", "other"]);

    fill(999);
    let _ = create_token(data, &["--name", "last"]);
    let length = fs::metadata(&path).unwrap().len();
    assert!(length * 3 <= 1024 * 1024, "a full file of {length} bytes is almost too large");
    create.assert_refused_in_a_line(CONFIGURATION, &["1000 tokens", "revoke"]);
    assert_eq!(names(data).len(), 1000);

    fill(1002);
    let list = token_command(data, &["list"]);
    list.assert_refused_in_a_line(CONFIGURATION, &["1002 tokens", "more than 1000", "revoke"]);
    revoke_token(data, &["mine"]);
    create.assert_refused_in_a_line(CONFIGURATION, &["1000 tokens", "revoke"]);
    revoke_token(data, &[&format!("{:064}", 1)]);
    assert_eq!(names(data).len(), 1000);
}
