//! How the program is called: flags, environment, exit codes, and what it says when it refuses.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use plantd_tests::{Launch, Process, TestServer, edit_plants, wait_until};

const USAGE: i32 = 64;
const IO: i32 = 74;
const CONFIGURATION: i32 = 78;

/// A launch with a folder of its own, which lives as long as the second value.
fn launch() -> (Launch, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    (Launch::new().data(&folder.path().join("data")), folder)
}

/// The program ends with this exit code, its standard error holds these words, and its standard
/// output nothing. Returns what it said.
#[track_caller]
fn check(launch: &Launch, exit_code: i32, words: &[&str]) -> String {
    let mut process = launch.spawn();
    let status = process.wait_for_exit();
    let stderr = process.stderr();
    assert_eq!(status.code(), Some(exit_code), "{stderr}");
    assert_eq!(process.stdout(), "", "{stderr}");
    assert!(!stderr.trim().is_empty(), "it says nothing");
    for word in words {
        assert!(stderr.contains(word), "{stderr:?} does not hold {word:?}");
    }
    stderr
}

#[track_caller]
fn run(arguments: &[&str]) -> Process {
    let (launch, _folder) = launch();
    let mut process = launch.arguments(arguments).spawn();
    let status = process.wait_for_exit();
    assert_eq!(status.code(), Some(0), "{arguments:?}: {}", process.stderr());
    process
}

#[test]
fn version_is_told() {
    let version = format!("plantd {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["--version"]).stdout(), version);
    assert_eq!(run(&["-V"]).stdout(), version);
}

#[test]
fn help_names_every_flag_and_variable() {
    let help = run(&["--help"]).stdout();
    assert!(help.starts_with("A plant store in one binary"), "{help}");
    for word in [
        "--listen",
        "PLANTD_LISTEN",
        "127.0.0.1:8080",
        "unix:PATH",
        "--tls-cert",
        "PLANTD_TLS_CERT",
        "--tls-key",
        "PLANTD_TLS_KEY",
        "--data",
        "PLANTD_DATA",
        "plantd-data",
        "--tokens",
        "PLANTD_TOKENS",
        "PLANTD_TOKEN ",
        "--cache-mb",
        "PLANTD_CACHE_MB",
        "--drain-delay",
        "PLANTD_DRAIN_DELAY",
        "1s",
        "--drain-timeout",
        "PLANTD_DRAIN_TIMEOUT",
        "10s",
        "--rate-limit",
        "PLANTD_RATE_LIMIT",
        "--cors-origin",
        "PLANTD_CORS_ORIGIN",
        "token",
        "RUST_LOG",
    ] {
        assert!(help.contains(word), "{word:?} is missing: {help}");
    }
    assert!(run(&["-h"]).stdout().contains("--listen"));
}

#[test]
fn a_wrong_command_line_ends_with_64() {
    let cases: [(&[&str], &str); 13] = [
        (&["--nonsense"], "--nonsense"),
        (&["nonsense"], "nonsense"),
        (&["serve", "nonsense"], "nonsense"),
        (&["--listen"], "--listen"),
        (&["--listen", "nonsense"], "--listen"),
        (&["--listen", "127.0.0.1"], "--listen"),
        (&["--listen", "127.0.0.1:65536"], "--listen"),
        (&["--listen=127.0.0.1:0", "--listen=127.0.0.1:0"], "--listen"),
        (&["--cache-mb", "0"], "--cache-mb"),
        (&["--cache-mb", "-1"], "-1"),
        (&["--cache-mb", "much"], "--cache-mb"),
        (&["--drain-delay", "soon"], "--drain-delay"),
        (&["--drain-timeout=10"], "--drain-timeout"),
    ];
    for (arguments, word) in cases {
        let (launch, folder) = launch();
        check(&launch.arguments(arguments), USAGE, &[word]);
        assert!(!folder.path().join("data").exists(), "{arguments:?} made the folder");
    }
}

#[test]
fn a_wrong_value_in_the_environment_ends_with_78() {
    for (name, value, word) in [
        ("PLANTD_LISTEN", "nonsense", "listen"),
        ("PLANTD_CACHE_MB", "much", "cache-mb"),
        ("PLANTD_CACHE_MB", "0", "cache-mb"),
        ("PLANTD_DRAIN_DELAY", "soon", "drain-delay"),
        ("PLANTD_DRAIN_TIMEOUT", "10", "drain-timeout"),
    ] {
        for arguments in [&[] as &[&str], &["serve"]] {
            let (launch, _folder) = launch();
            let launch = launch.environment(name, value).arguments(arguments);
            check(&launch, CONFIGURATION, &[word, value]);
        }
    }
}

#[test]
fn a_token_that_cannot_be_used_ends_with_78_and_is_not_told() {
    for token in ["", "0123456789abcde", "sh0rt", "with a space in it", "line\nline\nline\nline"] {
        let (launch, folder) = launch();
        let launch = launch.environment("PLANTD_TOKEN", token);
        let stderr = check(&launch, CONFIGURATION, &["PLANTD_TOKEN"]);
        assert!(token.is_empty() || !stderr.contains(token), "the token is told: {stderr}");
        assert!(!folder.path().join("data").join("first-run-token").exists());
    }
    let (launch, _folder) = launch();
    let launch = launch.environment("PLANTD_TOKEN", "sh0rt");
    check(&launch, CONFIGURATION, &["16 characters"]);
}

fn write_tokens(data: &Path, text: &str, mode: u32) {
    fs::create_dir(data).expect("a folder can be made");
    let path = data.join("tokens.json");
    fs::write(&path, text).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_tokens_file_that_is_broken_ends_with_78() {
    for text in ["", "{", "[]", "null", r#"{"tokens":[{}]}"#, r#"{"tokens":1}"#] {
        let (launch, folder) = launch();
        write_tokens(&folder.path().join("data"), text, 0o600);
        check(&launch, CONFIGURATION, &["tokens.json"]);
    }
}

#[test]
fn a_tokens_file_that_is_open_to_others_ends_with_78_and_the_way_to_close_it() {
    for mode in [0o640, 0o604, 0o620, 0o666] {
        let (launch, folder) = launch();
        write_tokens(&folder.path().join("data"), r#"{"tokens":[]}"#, mode);
        let stderr = check(&launch, CONFIGURATION, &["chmod 600"]);

        // What it says to do helps.
        let command = stderr.split_once("chmod 600").map(|(_, path)| format!("chmod 600{path}"));
        let status = std::process::Command::new("sh").args(["-c", &command.unwrap()]).status();
        assert!(status.unwrap().success(), "{stderr}");
        let mut process = launch.spawn();
        assert!(process.first_line().starts_with("plantd listening on "));
    }
}

#[test]
fn a_tokens_file_that_is_no_file_ends_with_78_and_mints_no_token() {
    let (launch, folder) = launch();
    let tokens = folder.path().join("tokens");
    let launch = launch
        .without_environment("PLANTD_TOKEN")
        .arguments(["--tokens", tokens.to_str().unwrap()]);
    std::os::unix::fs::symlink(folder.path().join("nowhere"), &tokens).unwrap();
    check(&launch, CONFIGURATION, &[tokens.to_str().unwrap(), "a link to nothing"]);
    fs::remove_file(&tokens).unwrap();
    fs::create_dir(&tokens).unwrap();
    check(&launch, CONFIGURATION, &[tokens.to_str().unwrap(), "is not a file"]);
    assert!(!folder.path().join("data/first-run-token").exists());
}

#[test]
fn a_folder_that_is_in_use_ends_with_74() {
    let server = TestServer::start();
    let data = server.data().to_str().unwrap();
    check(&Launch::new().data(server.data()), IO, &[data, "another process"]);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn a_port_that_is_in_use_ends_with_74() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (launch, _folder) = launch();
    check(&launch.arguments(["--listen", &address]), IO, &[&address, "--listen"]);
}

#[test]
fn a_folder_that_cannot_be_made_ends_with_74() {
    let (launch, folder) = launch();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for data in [file.clone(), file.join("data")] {
        check(&launch.clone().data(&data), IO, &[data.to_str().unwrap()]);
    }
}

#[test]
fn a_database_that_is_none_ends_with_74() {
    let mut server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    let plants = server.data().join("plants");
    fs::remove_dir_all(&plants).unwrap();
    fs::write(&plants, "no database").unwrap();
    check(&Launch::new().data(server.data()), IO, &[plants.to_str().unwrap()]);
}

#[test]
fn flags_win_over_the_environment() {
    for subcommand in [None, Some("serve")] {
        check_flags_win(subcommand);
    }
}

#[track_caller]
fn check_flags_win(subcommand: Option<&str>) {
    let (launch, folder) = launch();
    let [data, tokens] = ["flag-data", "flag-tokens"].map(|name| folder.path().join(name));
    let launch = launch
        .without_environment("PLANTD_TOKEN")
        .environment("PLANTD_LISTEN", "nonsense")
        .environment("PLANTD_TOKENS", folder.path().join("environment-tokens"))
        .environment("PLANTD_CACHE_MB", "much")
        .environment("PLANTD_DRAIN_DELAY", "never")
        .environment("PLANTD_DRAIN_TIMEOUT", "never")
        .arguments(subcommand)
        .arguments(["--listen", "127.0.0.1:0", "--cache-mb", "16", "--drain-delay", "0s"])
        .arguments(["--drain-timeout", "1s", "--data", data.to_str().expect("UTF-8")])
        .arguments(["--tokens", tokens.to_str().expect("UTF-8")]);
    let mut process = launch.spawn();
    assert!(process.first_line().starts_with("plantd listening on http://127.0.0.1:"));
    assert!(data.join("first-run-token").exists() && tokens.exists());
    assert!(!folder.path().join("data").exists());
    assert!(!folder.path().join("environment-tokens").exists());
    process.send_terminate();
    assert_eq!(process.wait_for_exit().code(), Some(0));
}

#[test]
fn without_a_subcommand_plantd_serves() {
    for arguments in [&[] as &[&str], &["serve"], &["serve", "--cache-mb", "16"]] {
        let server = TestServer::start_with(Launch::new().arguments(arguments));
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    }
}

#[test]
fn the_folder_is_plantd_data_unless_said_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Launch::new().current_folder(folder.path()).spawn();
    assert!(process.first_line().starts_with("plantd listening on "));
    assert!(folder.path().join("plantd-data").is_dir());
}

/// A folder with three plants, and the six events that led to them, which no server has open.
fn folder_to_verify() -> TestServer {
    let mut server = TestServer::start();
    let client = server.client();
    for id in 1..=4 {
        client.create(id, "Rosa", Some("Rosaceae")).assert_plant("Rosa", Some("Rosaceae"));
    }
    client.patch(2, r#"{"tag":null}"#).assert_plant("Rosa", None);
    client.delete(3).assert_no_content();
    assert_eq!(server.terminate().code(), Some(0));
    server
}

/// A command ends with this exit code. Returns what it wrote to standard output and standard error.
#[track_caller]
fn check_command(arguments: &[&str], data: &Path, exit_code: i32) -> (String, String) {
    let mut process = Launch::new().data(data).arguments(arguments).spawn();
    let status = process.wait_for_exit();
    assert_eq!(status.code(), Some(exit_code), "{arguments:?}: {}", process.stderr());
    (process.stdout(), process.stderr())
}

#[test]
fn verify_says_in_one_line_that_everything_agrees() {
    let server = folder_to_verify();
    let expected = "everything agrees: 3 plants, 6 events\n";
    for arguments in [&["verify"] as &[&str], &["verify", "--data", "data"]] {
        let mut process = Launch::new()
            .data(server.data())
            .current_folder(server.data().parent().expect("a folder"))
            .arguments(arguments)
            .spawn();
        assert_eq!(process.wait_for_exit().code(), Some(0), "{}", process.stderr());
        assert_eq!((process.stdout().as_str(), process.stderr().as_str()), (expected, ""));
    }
}

#[test]
fn verify_lists_what_does_not_agree_where_serve_refuses() {
    let server = folder_to_verify();
    edit_plants(server.data(), |plants| drop(plants.remove(&1)));
    let (listed, advice) = check_command(&["verify"], server.data(), 1);
    let listed: Vec<&str> = listed.lines().collect();
    let expected = [
        "plant 1 is missing; event 1 is its last one",
        "there are 2 plants, and the count says 3",
        "the plants do not match their digest",
        "plant 1 is in the index of tag \"Rosaceae\" and does not have that tag",
    ];
    assert_eq!(listed, expected);
    assert!(advice.contains("disagreements: 4") && advice.contains("backup"), "{advice}");

    let data = server.data().to_str().expect("UTF-8");
    let words = ["there are 2 plants", "plantd verify", "plantd export --data", data, "backup"];
    check(&Launch::new().data(server.data()), IO, &words);
    // To look at it has changed nothing.
    assert_eq!(check_command(&["verify"], server.data(), 1).0.lines().count(), expected.len());
}

#[test]
fn verify_and_export_say_what_is_damaged_so_that_nothing_can_be_read() {
    let server = folder_to_verify();
    let data = server.data().to_str().expect("UTF-8");
    fs::write(server.data().join("plants/sled/db"), vec![0xA5; 1 << 20]).expect("writes");
    let (listed, said) = check_command(&["verify"], server.data(), 1);
    assert_eq!(listed, "");
    assert!(said.contains("sled cannot open") && said.contains("restore a backup"), "{said}");
    check_command(&["export", "--data", data], server.data(), IO);
}

#[test]
fn verify_and_export_of_a_folder_that_is_none_or_in_use_end_with_74() {
    let (launch, folder) = launch();
    let data = folder.path().join("data");
    for command in [&["verify"] as &[&str], &["export", "--data", data.to_str().expect("UTF-8")]] {
        check(&launch.clone().arguments(command), IO, &["there is no database"]);
        assert!(!data.exists(), "{command:?} made the folder");
    }
    let server = TestServer::start();
    let data = server.data().to_str().expect("UTF-8");
    for command in [["verify", "--data", data], ["export", "--data", data]] {
        check(&Launch::new().arguments(command), IO, &["another process"]);
    }
}

#[test]
fn export_reads_a_folder_itself_and_says_what_is_left_out() {
    let server = folder_to_verify();
    let data = server.data().to_str().expect("UTF-8");
    let export = ["export", "--data", data];
    let (rows, _) = check_command(&export, server.data(), 0);
    let expected = [
        r#"{"id":1,"name":"Rosa","tag":"Rosaceae"}"#,
        r#"{"id":2,"name":"Rosa"}"#,
        r#"{"id":4,"name":"Rosa","tag":"Rosaceae"}"#,
    ];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
    let csv = ["export", "--data", data, "--format", "csv"];
    let (rows, _) = check_command(&csv, server.data(), 0);
    assert_eq!(rows, "id,name,tag\n1,Rosa,Rosaceae\n2,Rosa,\n4,Rosa,Rosaceae\n");

    edit_plants(server.data(), |plants| drop(plants.insert(2, vec![1])));
    let (rows, said) = check_command(&export, server.data(), 1);
    assert_eq!(rows.lines().collect::<Vec<_>>(), [expected[0], expected[2]]);
    for words in ["left out: the record of plant 2", "2 of 3 plants"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn export_reads_a_folder_or_asks_a_server_and_not_both() {
    for flag in ["--url=http://127.0.0.1:1", "--token-file=token"] {
        let (launch, _folder) = launch();
        check(&launch.arguments(["export", "--data", "data", flag]), USAGE, &["--data"]);
    }
}

#[test]
fn a_number_that_cannot_be_used_is_refused_with_its_flag_and_what_is_allowed() {
    const TOO_LARGE: &str = "99999999999999999999999";
    let duration = ["such as 500ms"; 2];
    let token = ["token", "create", "--name", "x"];
    for (command, flag, allowed, zero_is_allowed) in [
        (&[] as &[&str], "--cache-mb", ["from 1 to", "1048576"], false),
        (&[], "--keep-events", ["from 0 to", "18446744073709551615"], true),
        (&[], "--rate-limit", ["from 1 to", "4294967295"], false),
        (&[], "--postgres-connections", ["from", "1000"], false),
        (&[], "--drain-delay", duration, true),
        (&[], "--drain-timeout", duration, true),
        (&token, "--expires", duration, true),
    ] {
        for value in ["0", "-1", "-1s", TOO_LARGE, "", "much", "1.5"] {
            if value == "0" && zero_is_allowed {
                continue;
            }
            let words = [flag, value, allowed[0], allowed[1]];
            let (launch, folder) = launch();
            let arguments = command.iter().copied().chain([flag, value]);
            check(&launch.clone().arguments(arguments), USAGE, &words);
            if command.is_empty() {
                let variable = flag.replace("--", "PLANTD_").replace('-', "_").to_uppercase();
                let launch = launch.environment(&variable, value);
                check(&launch, CONFIGURATION, &[&words[..], &[&variable]].concat());
            }
            assert!(!folder.path().join("data").exists(), "{flag} {value} made the folder");
        }
    }
}

#[test]
fn a_flag_that_other_programs_have_leads_to_the_one_for_it() {
    for arguments in [&["--port", "8090"][..], &["--port=8090"], &["serve", "--port", "8090"]] {
        let (launch, _folder) = launch();
        let words = ["--port", "--listen ADDRESS:PORT"];
        let stderr = check(&launch.arguments(arguments), USAGE, &words);
        assert!(!stderr.contains("--postgres"), "{stderr}");
    }
}

#[test]
fn a_file_that_is_missing_is_named_and_said_to_be_missing() {
    let (launch, folder) = launch();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().expect("UTF-8");
    let url = format!("postgres://127.0.0.1:1/plants?sslrootcert={missing}");
    for arguments in [
        &["--tls-cert", missing, "--tls-key", missing][..],
        &["token", "list", "--tokens", missing],
        &["export", "--token-file", missing],
        &["verify", "--data", missing],
        &["--postgres", &url],
        &["--tokens", &format!("{missing}/tokens.json")],
    ] {
        let launch = launch.clone().without_environment("PLANTD_TOKEN").arguments(arguments);
        let stderr = check(&launch, IO, &[missing]);
        let is_said = ["no such file", "No such file", "there is no"].iter();
        assert!(is_said.clone().any(|words| stderr.contains(words)), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("entity"), "{stderr}");
    }
}

#[test]
fn a_log_filter_that_is_mistyped_ends_with_78_and_one_of_any_target_does_not() {
    let levels = "off, error, warn, info, debug, trace";
    for arguments in [&[] as &[&str], &["verify"], &["token", "list"], &["openapi"]] {
        for (filter, word) in [
            ("infoo", "infoo"),
            ("plantd=infoo", "infoo"),
            ("info,plantd::access=of", "of"),
            ("info,warnn", "warnn"),
            ("a=b=c", "a=b=c"),
            ("info/a/b", "/"),
        ] {
            let (launch, folder) = launch();
            let launch = launch.environment("RUST_LOG", filter).arguments(arguments);
            check(&launch, CONFIGURATION, &["RUST_LOG", word, levels, "TARGET=LEVEL"]);
            assert!(!folder.path().join("data").exists());
        }
    }
    for filter in ["", " ", ",", "INFO", "info,unknown=trace", "plantd,plant_http::server=info"] {
        let server = TestServer::start_with(Launch::new().environment("RUST_LOG", filter));
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        wait_until("the log to tell of it", || server.stderr().contains("plantd::audit"));
    }
}
