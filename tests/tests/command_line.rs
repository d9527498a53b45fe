//! The command line: flags, environment, exit codes, and the messages of a refusal.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use plant_store::conformance::damage::{edit, plant_key};
use plantd_tests::{
    CONFIGURATION, FINDINGS, IO, Launch, READER_GONE, TOKEN, TestServer, USAGE, at_once,
    create_token, make_pipe, names_in, printed, program, repository, temporary_folder,
    token_command, variables, wait_until,
};

/// The program refuses to start, and creates no folder.
#[track_caller]
fn check(arguments: &[&str], exit_code: i32, words: &[&str]) -> String {
    check_with(Launch::new(), arguments, exit_code, words)
}

#[track_caller]
fn check_with(launch: Launch, arguments: &[&str], exit_code: i32, words: &[&str]) -> String {
    let folder = temporary_folder();
    let data = folder.path().join("data");
    let said = launch.data(&data).arguments(arguments).assert_refused(exit_code, words);
    assert!(!data.exists(), "{arguments:?} made the folder");
    said
}

/// Standard output and standard error of the program, which ends with this exit code.
#[track_caller]
fn output(arguments: &[&str], data: &Path, exit_code: i32) -> (String, String) {
    let process = Launch::new().data(data).arguments(arguments).run(exit_code);
    (process.stdout(), process.stderr())
}

#[test]
fn the_help_lists_each_subcommand_once_below_a_heading() {
    let all = printed(&["--help"]);
    assert!(all.contains("\nUsage: plantd [OPTIONS] [COMMAND]\n\nServer:\n  serve "), "{all}");
    assert_eq!(printed(&["help"]), all);
    let completions = printed(&["completions", "fish"]);
    let offers = completions.lines().filter(|line| line.contains("__fish_plantd_needs_command"));
    let names =
        offers.filter_map(|line| line.split_once("needs_command\" -f -a \"")?.1.split('"').next());
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let rows = all.lines().filter(|line| line.starts_with(&format!("  {name} ")));
        assert_eq!(rows.count(), 1, "{name}: {all}");
    }
}

#[test]
fn a_reader_that_ends_first_ends_each_command_quietly_and_a_full_disk_ends_it_with_74() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let folder = temporary_folder();
    let archive = folder.path().join("archive");
    fs::create_dir(&archive).expect("a folder can be made");
    let archive = archive.to_str().expect("UTF-8");
    let plants = repository("tests/data/plants.csv");
    let plants = plants.to_str().expect("UTF-8");
    let schema = test_postgres::fresh_schema_name();
    let url = format!("http://{}", server.address());
    let run = |arguments: &[&str], needs_server: bool, stdout: Stdio| {
        let mut command = Command::new(program());
        command.args(arguments).stdout(stdout).env("PLANTD_TOKEN", TOKEN);
        command.env("PLANTD_DATA", folder.path());
        command.env("PLANTD_POSTGRES", test_postgres::shared().url());
        command.env("PLANTD_POSTGRES_SCHEMA", &schema);
        if needs_server {
            command.args(["--url", &url]);
        }
        command.output().expect("the program can be started")
    };
    let nobody = || Stdio::from(io::pipe().expect("a pipe can be made").1);
    let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("it opens"));
    for (arguments, needs_server) in [
        (&["openapi"][..], false),
        (&["completions", "zsh"], false),
        (&["token", "list"], false),
        (&["token", "revoke", "mine"], false),
        (&["archive", "prune", "--keep", "7d", archive], false),
        (&["migrate"], false),
        (&["get", "1"], true),
        (&["list"], true),
        (&["export", "-"], true),
        (&["events"], true),
        (&["import", "--on-conflict", "skip", plants], true),
    ] {
        for (stdout, code) in [(nobody(), READER_GONE), (full(), IO)] {
            let _ = create_token(folder.path(), &["--name", "mine"]);
            let ended = run(arguments, needs_server, stdout);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {said}");
            assert_eq!(said.is_empty(), code == READER_GONE, "{arguments:?}: {said}");
            token_command(folder.path(), &["revoke", "mine"]).spawn().wait_for_exit();
        }
    }
    // Rows that failed matter more.
    let ended = run(&["import", plants], true, nobody());
    assert_eq!(ended.status.code(), Some(FINDINGS), "{ended:?}");
}

#[test]
fn each_start_logs_the_version_the_plants_the_folder_and_the_addresses_in_one_line() {
    let launch = Launch::new().arguments(["--metrics-listen", "127.0.0.1:0"]);
    let mut server = TestServer::start_with(launch);
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    let data = server.data().display().to_string();
    let begin = format!("plantd {} serves 1 plant in {data} at http://", env!("CARGO_PKG_VERSION"));
    let address = server.address().to_string();
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" serves ")).collect();
    let line = *lines.last().expect("the start has a line");
    assert!(line.contains(&format!("{begin}{address}, metrics at http://127.0.0.1:")), "{line}");
    assert!(line.contains("INFO"), "{line}");

    let mut open = TestServer::start_with(Launch::new().arguments(["--listen", "0.0.0.0:0"]));
    let port = open.address().port();
    assert_eq!(open.terminate().code(), Some(0));
    let shown = format!("http://127.0.0.1:{port} (listens on http://0.0.0.0:{port})");
    assert!(open.stderr().contains(&shown), "{}", open.stderr());
}

#[test]
fn a_wrong_command_line_ends_with_64_and_a_wrong_environment_with_78() {
    for (arguments, word) in [
        (&["--nonsense"][..], "--nonsense"),
        (&["nonsense"], "nonsense"),
        (&["--listen"], "--listen"),
        (&["--drain-timeout=10"], "--drain-timeout"),
        (&["import"], "FILE"),
        (&["import", "a.csv", "--listen", "127.0.0.1:0"], "--listen"),
        (&["export", "--on-conflict", "skip"], "--on-conflict"),
    ] {
        check(arguments, USAGE, &[word]);
    }
    for (name, value, word) in
        [("PLANTD_LISTEN", "nonsense", "listen"), ("PLANTD_DRAIN_TIMEOUT", "10", "drain-timeout")]
    {
        for arguments in [&[] as &[&str], &["serve"]] {
            let launch = Launch::new().environment(name, value);
            check_with(launch, arguments, CONFIGURATION, &[word, value]);
        }
    }
}

#[test]
fn an_address_that_is_not_written_as_the_standards_say_is_refused_before_anything_is_sent() {
    let ports = [":99999", ":65536", ":18431x", ":+80", ":-1", ":0", ":", ":8 0"];
    let numbers = ["256.1.1.1", "010.0.0.1", "127.1", "0x7f.1", "2130706433", "%31%32%37.0.0.1"];
    let others = ["[::1]:99999", "[::1", "/plants", "127.0.0.1\t", "127.0.0.1:65536/plants"];
    let hosts = [&numbers[..], &others].concat().into_iter().map(|host| format!("http://{host}"));
    let urls = hosts.chain(ports.map(|port| format!("http://127.0.0.1{port}")));
    let no_urls = ["http:127.0.0.1", "http:/\\127.0.0.1", " http://127.0.0.1", "localhost:8080"];
    let schemes = ["ftp://127.0.0.1", "unix:", ""];
    for url in urls.chain([&no_urls[..], &schemes].concat().into_iter().map(str::to_owned)) {
        let words = ["--url", "give a URL", "http://127.0.0.1:8080"];
        check(&["health", "--url", &url], USAGE, &words);
    }
    for (more, word) in [("?a", "the query"), ("#top", "the fragment")] {
        let url = format!("http://127.0.0.1/{more}");
        check(&["health", "--url", &url], USAGE, &["--url", "leave out", word]);
    }
    let user = ["health", "--url", "http://user:secret@127.0.0.1"];
    check(&user, USAGE, &["--url", "leave out the user"]);

    let of_name = ["localhost:+0", "localhost:", "localhost:00", "localhost", "localhost:0/"];
    let others = ["127.0.0.1:+0", "127.0.0.1:65536", "127.0.0.1:", "127.1:0", "::1:0", ":0"];
    for flag in ["--listen", "--metrics-listen"] {
        for address in [&of_name[..], &others, &["user@localhost:0"]].concat() {
            let words = [flag, "give an address and a port"];
            check(&[flag, address], USAGE, &words);
            let variable = flag.replace("--", "PLANTD_").replace('-', "_").to_uppercase();
            check_with(Launch::new().environment(&variable, address), &[], CONFIGURATION, &words);
        }
    }
    for place in ["one:+5432", "one:0", "[::1]:+5432", "one,two:+5432", "one/plants?port=+5432"] {
        let words = ["--postgres", "a port is a number from 1 to 65535"];
        check(&["--postgres", &format!("postgres://{place}")], USAGE, &words);
    }
}

#[test]
fn a_token_that_cannot_be_sent_or_is_short_ends_with_78_and_is_not_told() {
    for (token, word) in [
        ("0123456789abcde", "16 characters"),
        ("sh0rt", "16 characters"),
        ("with a space in it", "PLANTD_TOKEN"),
        ("line\nline\nline\nline", "PLANTD_TOKEN"),
        ("0123456789abcdeé", "ASCII letters"),
        ("================", "= at its end"),
    ] {
        let launch = Launch::new().environment("PLANTD_TOKEN", token);
        let said = check_with(launch, &[], CONFIGURATION, &["PLANTD_TOKEN", word]);
        assert!(!said.contains(token), "the message shows the token: {said}");
    }
    for token in ["abcdefghijklmn==", "a-b._~+/abcdefghij"] {
        let server = TestServer::start_with(Launch::new().environment("PLANTD_TOKEN", token));
        server.client().with_token(token).read(1).assert_error(404, 3002);
    }
}

#[test]
fn a_port_or_a_folder_that_cannot_be_used_ends_with_74() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let folder = temporary_folder();
    let launch = Launch::new().data(&folder.path().join("of the port"));
    launch.arguments(["--listen", &address]).assert_refused(IO, &[&address, "--listen"]);

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let plants = folder.path().join("data/plants");
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(&plants, "no database").unwrap();
    for (data, named) in [
        (&file, &file),
        (&file.join("data"), &file.join("data")),
        (&folder.path().join("data"), &plants),
    ] {
        Launch::new().data(data).assert_refused(IO, &[named.to_str().unwrap()]);
    }
}

#[test]
fn flags_win_over_the_environment_and_without_a_subcommand_plantd_serves() {
    for subcommand in [None, Some("serve")] {
        let folder = temporary_folder();
        let data = folder.path().join("flag-data");
        let launch = Launch::new()
            .environment("PLANTD_DATA", folder.path().join("data"))
            .environment("PLANTD_LISTEN", "nonsense")
            .environment("PLANTD_DRAIN_TIMEOUT", "never")
            .arguments(subcommand)
            .arguments(["--listen", "127.0.0.1:0", "--drain-timeout", "1s"])
            .arguments(["--data", data.to_str().expect("UTF-8")]);
        let mut process = launch.spawn();
        assert!(process.first_line().starts_with("plantd listening on http://127.0.0.1:"));
        assert_eq!(names_in(folder.path()), ["flag-data"]);
        process.send_terminate();
        process.assert_exit_code(0);
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let folder = temporary_folder();
    let all = variables();
    assert!(all.len() > 20, "{all:?}");
    let empty = all
        .iter()
        .chain([&"NOTIFY_SOCKET".to_owned()])
        .fold(Launch::new().current_folder(folder.path()), |launch, variable| {
            launch.environment(variable, "")
        });
    // The default port may be taken here.
    let mut process = empty.clone().arguments(["--listen", "127.0.0.1:0"]).spawn();
    assert!(process.first_line().starts_with("plantd listening on http://127.0.0.1:"));
    // The first start has made a token, in the folder that is the default.
    assert!(folder.path().join("plantd-data/tokens.json").exists());
    process.send_terminate();
    process.assert_exit_code(0);

    empty.clone().arguments(["verify"]).run(0);
    empty
        .clone()
        .arguments(["get", "1"])
        .assert_refused(USAGE, &["there is no token", "--token-file"]);
    empty.clone().arguments(["migrate"]).assert_refused(USAGE, &["--postgres"]);
    // On the command line, nobody leaves a value empty by chance.
    empty.arguments(["--listen", ""]).assert_refused(USAGE, &["--listen"]);
}

/// A folder with three plants, and the six events that led to them, which no server has open. No two plants have the same
/// name, so the search index shows whether one is missing.
fn folder_to_verify() -> TestServer {
    let mut server = TestServer::start();
    let client = server.client();
    for id in 1..=4 {
        let name = format!("Rosa {id}");
        client.create(id, &name, Some("Rosaceae")).assert_plant(&name, Some("Rosaceae"));
    }
    client.patch(2, r#"{"tag":null}"#).assert_plant("Rosa 2", None);
    client.delete(3).assert_no_content();
    assert_eq!(server.terminate().code(), Some(0));
    server
}

#[test]
fn verify_says_in_one_line_that_everything_agrees_or_lists_what_does_not() {
    let server = folder_to_verify();
    let data = server.data().to_str().expect("UTF-8");
    let agrees = ("everything agrees: 3 plants, 6 events\n".to_owned(), String::new());
    assert_eq!(output(&["verify"], server.data(), 0), agrees);
    assert_eq!(output(&["verify", "--data", data], Path::new("nowhere"), 0), agrees);

    edit(&server.data().join("plants"), |content| drop(content.plants.remove(&plant_key(1))));
    // The second verification shows that the first one has changed nothing.
    for _ in 0..2 {
        let (listed, advice) = output(&["verify"], server.data(), 1);
        let listed: Vec<&str> = listed.lines().collect();
        let expected = [
            "plant 1 is missing; event 1 is its last one",
            "there are 2 plants, and the count says 3",
            "the plants do not match their digest",
            "the counts of the tags do not match the plants",
            "the search index of table 2 does not match its plants",
        ];
        assert_eq!(listed, expected);
        assert!(advice.contains("disagreements: 5") && advice.contains("backup"), "{advice}");
    }
}

#[test]
fn a_pipe_or_a_folder_in_place_of_a_file_of_a_table_is_named_and_holds_nothing_up() {
    let make_folder = |path: &Path| fs::create_dir(path).expect("a folder can be made");
    for make in [make_pipe as fn(&Path), make_folder] {
        let server = folder_to_verify();
        let file = server.data().join("plants/tables/000000000001/db");
        fs::remove_file(&file).expect("a file can be removed");
        make(&file);
        for arguments in [&[] as &[&str], &["verify"]] {
            let launch = Launch::new().data(server.data()).arguments(arguments);
            launch.assert_refused(IO, &["check the path", "/db: it is no regular file"]);
        }
    }
}

#[test]
fn verify_and_export_refuse_a_folder_that_is_in_use_or_none() {
    let folder = temporary_folder();
    let none = folder.path().join("data");
    for command in [&["verify"] as &[&str], &["export", "--data", none.to_str().expect("UTF-8")]] {
        Launch::new().data(&none).arguments(command).assert_refused(IO, &["there is no database"]);
        assert!(!none.exists(), "{command:?} made the folder");
    }
    let server = TestServer::start();
    let data = server.data().to_str().expect("UTF-8").to_owned();
    for command in ["serve", "verify", "export"] {
        let launch = Launch::new().arguments([command, "--data", &data]);
        launch.assert_refused(IO, &[&data, "another process"]);
    }
}

#[test]
fn export_reads_a_folder_itself_and_says_what_is_left_out() {
    let server = folder_to_verify();
    let data = server.data().to_str().expect("UTF-8");
    let export = ["export", "--data", data];
    let (rows, _) = output(&export, server.data(), 0);
    let expected = [
        r#"{"id":1,"name":"Rosa 1","tag":"Rosaceae"}"#,
        r#"{"id":2,"name":"Rosa 2"}"#,
        r#"{"id":4,"name":"Rosa 4","tag":"Rosaceae"}"#,
    ];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
    let (rows, _) = output(&["export", "--data", data, "--format", "csv"], server.data(), 0);
    assert_eq!(rows, "id,name,tag\n1,Rosa 1,Rosaceae\n2,Rosa 2,\n4,Rosa 4,Rosaceae\n");
    let (rows, _) =
        output(&["export", "--data", data, "--format", "spreadsheet"], server.data(), 0);
    assert!(rows.starts_with("\u{feff}id,name,tag\r\n1,\"Rosa 1\",\"Rosaceae\"\r\n"), "{rows}");

    edit(&server.data().join("plants"), |content| {
        content.plants.insert(plant_key(2), Some(vec![1]));
    });
    let (rows, said) = output(&export, server.data(), 1);
    assert_eq!(rows.lines().collect::<Vec<_>>(), [expected[0], expected[2]]);
    for words in ["left out: the record of plant 2", "2 of 3 plants"] {
        assert!(said.contains(words), "{said}");
    }
    for flag in ["--url=http://127.0.0.1:1", "--token-file=token"] {
        check(&["export", "--data", "data", flag], USAGE, &["--data"]);
    }
}

#[test]
fn a_number_that_cannot_be_used_is_refused_with_its_flag_and_what_is_allowed() {
    const TOO_LARGE: &str = "99999999999999999999999";
    let duration = ["such as 10s"; 2];
    let token = ["token", "create", "--name", "x", "--scope", "read"];
    for (command, flag, allowed, more) in [
        (&[] as &[&str], "--cache-mb", ["from 1 to", "1048576"], &["0", "1048577"][..]),
        (&[], "--keep-events", ["from 0 to", "18446744073709551615"], &[]),
        (&[], "--keep-events-for", duration, &["soon"]),
        (&[], "--max-followers", ["from 0 to", "32768"], &["32769"]),
        (&[], "--rate-limit", ["from 1 to", "4294967295"], &["0", "4294967296"]),
        (&[], "--postgres-connections", ["from 10 to", "1000"], &["0", "9", "1001"]),
        (&[], "--drain-delay", duration, &["soon"]),
        (&[], "--drain-timeout", duration, &["soon"]),
        (&token, "--expires", duration, &["soon"]),
    ] {
        for value in ["-1", "-1s", TOO_LARGE, "", "much", "1.5"].iter().chain(more) {
            let words = [flag, value, allowed[0], allowed[1]];
            let arguments = [command, &[flag, value]].concat();
            check(&arguments, USAGE, &words);
            // An empty variable counts as unset.
            if command.is_empty() && !value.is_empty() {
                let variable = flag.replace("--", "PLANTD_").replace('-', "_").to_uppercase();
                let launch = Launch::new().environment(&variable, *value);
                check_with(launch, &[], CONFIGURATION, &[&words[..], &[&variable]].concat());
            }
        }
    }
}

#[test]
fn a_flag_that_other_programs_have_leads_to_the_one_for_it() {
    for arguments in [&["--port", "8090"][..], &["--port=8090"], &["serve", "--port", "8090"]] {
        let said = check(arguments, USAGE, &["--port", "--listen ADDRESS:PORT"]);
        assert!(!said.contains("--postgres"), "{said}");
    }
}

#[test]
fn a_file_that_is_missing_is_named_and_said_to_be_missing() {
    let folder = temporary_folder();
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
        let launch = Launch::new().without_environment("PLANTD_TOKEN");
        let launch = launch.data(&folder.path().join("data"));
        let said = launch.arguments(arguments).assert_refused(IO, &[missing]);
        let words = ["no such file", "No such file", "there is no"];
        assert!(words.iter().any(|words| said.contains(words)), "{arguments:?}: {said}");
        assert!(!said.contains("entity"), "{said}");
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
            let launch = Launch::new().environment("RUST_LOG", filter);
            let words = ["RUST_LOG", word, levels, "TARGET=LEVEL"];
            check_with(launch, arguments, CONFIGURATION, &words);
        }
    }
    let filters = ["", " ", ",", "INFO", "info,unknown=trace", "plantd,plant_http::server=info"];
    at_once(&filters, |filter| {
        let server = TestServer::start_with(Launch::new().environment("RUST_LOG", *filter));
        server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
        wait_until("the log line", || server.stderr().contains("plantd::audit"));
    });
}

#[test]
fn health_tells_whether_a_server_is_ready() {
    let mut server = TestServer::start_with(Launch::new().environment("PLANTD_DRAIN_DELAY", "1h"));
    let url = format!("http://{}", server.address());
    let health = ["health", "--url", &url];
    assert_eq!(output(&health, server.data(), 0), (String::new(), String::new()));
    server.process().send_terminate();
    wait_until("the drain to begin", || server.stderr().contains("draining"));
    assert!(output(&health, server.data(), 1).1.contains("not ready"));
    server.kill();
    assert!(output(&health, server.data(), IO).1.contains("nothing listens"));

    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let health = ["health", "--url", &url];
    assert!(output(&health, server.data(), 1).1.contains("does not answer within 3 s"));
}
