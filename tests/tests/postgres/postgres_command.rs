//! The program with its plants in PostgreSQL: its options and messages, and its behavior while PostgreSQL is
//! unreachable or takes no writes.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use plantd_tests::{
    Authority, CONFIGURATION, Client, Connection, IO, Launch, TestServer, UNPRIVILEGED, USAGE,
    at_once, create_request, create_token, is_root, mode, plant_body, program, replace_file,
    revoke_token, wait_until,
};
use tempfile::TempDir;
use test_postgres::{Cluster, fresh_schema_name, shared};

use crate::user::User;

/// A password in a URL, which no output may contain.
const PASSWORD: &str = "correct-horse-battery";

/// The deadline for the message that PostgreSQL is not reachable.
const FEW_SECONDS: Duration = Duration::from_secs(15);

/// The id of a plant that no test creates.
const NO_PLANT: i64 = -1;

/// The commands that open a database, which refuse in the same words.
const COMMANDS: [&str; 2] = ["serve", "migrate"];

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Asserts that the program refuses, prints no password, and creates no folder.
#[track_caller]
fn refusal(launch: &Launch, exit_code: i32, words: &[&str]) -> String {
    let folder = folder();
    let data = folder.path().join("data");
    let said = launch.clone().data(&data).assert_refused(exit_code, words);
    assert!(!said.contains(PASSWORD), "the message shows the password: {said}");
    assert!(!data.exists(), "the program made a folder");
    said
}

#[track_caller]
pub(crate) fn is_ready(client: &Client) -> bool {
    let answer = client.get("/readyz");
    if answer.status != 200 {
        let said = answer.assert_error(503, 5003);
        assert!(said.contains("database does not answer or takes no writes"), "{said}");
    }
    answer.status == 200
}

#[test]
fn migrate_makes_the_tables_and_says_so_and_later_that_they_are_there() {
    let schema = fresh_schema_name();
    let launch = Launch::new().postgres(shared().url(), &schema).arguments(["migrate"]);
    for said in [
        format!("made the tables in schema {schema}\n"),
        format!("the tables in schema {schema} are there already\n"),
    ] {
        let mut process = launch.spawn();
        process.assert_exit_code(0);
        assert_eq!((process.stdout(), process.stderr()), (said, String::new()));
    }
    let server = TestServer::start_with(Launch::new().postgres(shared().url(), &schema));
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(shared().query(&format!("SELECT name FROM {schema}.plants")), "Rosa");
    let mut process = launch.spawn();
    process.assert_exit_code(0);
}

#[test]
fn without_the_right_to_make_the_extension_migrate_and_a_start_say_what_to_do() {
    let cluster = Cluster::start();
    let (schema, user) = (fresh_schema_name(), User::new(cluster.database()));
    cluster.query(&format!("CREATE SCHEMA {schema} AUTHORIZATION {}", user.name));
    let launch = Launch::new().postgres(&user.url(), &schema);
    let mut process = launch.clone().arguments(["migrate"]).spawn();
    process.assert_exit_code(0);
    assert_eq!(process.stdout(), format!("made the tables in schema {schema}\n"));
    let said = process.stderr();
    assert!(said.starts_with("warning: ") && said.contains("CREATE EXTENSION pg_trgm"), "{said}");

    let mut server = TestServer::start_with(launch);
    let client = server.client();
    client.create(1, "Rosa canina", None).assert_plant("Rosa canina", None);
    for _ in 0..3 {
        assert_eq!(client.list_all("name=canina").len(), 1);
    }
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert_eq!(log.matches("CREATE EXTENSION pg_trgm").count(), 1, "{log}");
}

#[test]
fn an_unreachable_postgres_is_reported_in_seconds_and_without_the_password() {
    // The build must not count toward the time.
    let _ = program();
    // One port is closed; the other accepts connections and stays silent.
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = nobody.local_addr().expect("an address");
    drop(nobody);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    for address in [closed, silent.local_addr().expect("an address")] {
        at_once(&COMMANDS, |command| {
            let url = format!("postgres://plantd:{PASSWORD}@{address}/plants");
            let launch = Launch::new().postgres(&url, "plants").environment("RUST_LOG", "trace");
            let place = format!("postgres://plantd@{address}/plants");
            let begun = Instant::now();
            let words = [place.as_str(), "PostgreSQL does not answer"];
            refusal(&launch.arguments([*command]), IO, &words);
            assert!(begun.elapsed() < FEW_SECONDS, "{:?}", begun.elapsed());
        });
    }
}

#[test]
fn an_invalid_value_ends_with_64_by_the_flag_and_with_78_by_the_environment() {
    refusal(&Launch::new().arguments(["migrate"]), USAGE, &["--postgres", "PLANTD_POSTGRES"]);
    let url = |rest: &str| format!("postgres://plantd{rest}");
    let postgres = ["--postgres", "PLANTD_POSTGRES"];
    let schema = ["--postgres-schema", "PLANTD_POSTGRES_SCHEMA"];
    for ([flag, variable], value) in [
        (postgres, "nonsense".to_owned()),
        (postgres, String::new()),
        (postgres, format!("mysql://plantd:{PASSWORD}@one/plants")),
        (postgres, format!("plantd:{PASSWORD}@one/plants")),
        (postgres, url(&format!(":{PASSWORD}@one:port/plants"))),
        (postgres, url(&format!(":{PASSWORD}@/plants"))),
        (postgres, url(&format!(":{PASSWORD}@one/plants?sslmode=maybe"))),
        (postgres, url(&format!(":{PASSWORD}@one/plants?connect_timeout=soon"))),
        (postgres, url(&format!("@one/plants?password={PASSWORD}&nonsense=1"))),
        (postgres, url(&format!("@one/plants?{PASSWORD}"))),
        (postgres, url(&format!("@one/plants?sslmode={PASSWORD}"))),
        (postgres, url(&format!(":1/plants?password=a@{PASSWORD}"))),
        (postgres, url(&format!(":1/plants?application_name={PASSWORD}@two"))),
        // An @ in a password must be written %40; the text after it would be taken for a host.
        (postgres, url(&format!(":p@{PASSWORD}@one/plants"))),
        (schema, "Plants".to_owned()),
        (schema, "a\"; DROP TABLE plants; --".to_owned()),
        (schema, "pg_catalog".to_owned()),
        (schema, String::new()),
    ] {
        for command in COMMANDS {
            let launch = Launch::new()
                .environment("PLANTD_POSTGRES", "postgres://127.0.0.1:1/plants")
                .arguments([command]);
            // An empty variable counts as unset.
            if !value.is_empty() {
                let by_environment = launch.clone().environment(variable, &value);
                refusal(&by_environment, CONFIGURATION, &[variable]);
            }
            refusal(&launch.arguments([flag, &value]), USAGE, &[flag]);
        }
    }
}

#[test]
fn a_wrong_command_line_does_not_reveal_a_password() {
    let url = format!("postgres://plantd:{PASSWORD}@127.0.0.1/plants");
    let equals = format!("--postgres={url}");
    let wrong: [&[&str]; 8] = [
        &[&equals, "--nonsense"],
        &["--postgres", &url, "nonsense"],
        &["--postgres", &url, "--postgres", &url],
        &["migrate", &url],
        &["migrate", "--postgres-schema", &url],
        &["migrate", "--postgres-connections", &url],
        &[&url],
        &["--listen", &url],
    ];
    for arguments in wrong {
        refusal(&Launch::new().arguments(arguments), USAGE, &[]);
    }
    for arguments in [&["--help"][..], &["serve", "--help"], &["migrate", "--help"]] {
        let mut process = Launch::new().postgres(&url, "plants").arguments(arguments).spawn();
        process.assert_exit_code(0);
        let help = process.stdout() + &process.stderr();
        assert!(help.contains("PLANTD_POSTGRES") && !help.contains(PASSWORD), "{help}");
    }
}

#[test]
fn the_first_start_makes_a_folder_for_its_token_alone() {
    let launch = Launch::new()
        .without_environment("PLANTD_TOKEN")
        .postgres(shared().url(), &fresh_schema_name());
    let server = TestServer::start_with(launch);
    assert_eq!(mode(server.data()), 0o700);
    let mut files: Vec<_> = fs::read_dir(server.data())
        .expect("a folder can be read")
        .map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"))
        .collect();
    files.sort_unstable();
    files.retain(|name| !name.ends_with(".lock"));
    assert_eq!(files, ["first-run-token", "tokens.json"]);
    for name in files {
        assert_eq!(mode(&server.data().join(name)), 0o600);
    }
    let token =
        fs::read_to_string(server.data().join("first-run-token")).expect("a file can be read");
    let client = server.client().with_token(token.trim());
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
}

#[test]
fn servers_share_their_plants_and_a_tokens_file() {
    let schema = fresh_schema_name();
    let folder = folder();
    let tokens = folder.path().join("tokens.json");
    let to_file = ["--tokens", tokens.to_str().expect("UTF-8")];
    let other = create_token(folder.path(), &[&["--name", "other"][..], &to_file].concat());
    let token = create_token(folder.path(), &[&["--name", "shared"][..], &to_file].concat());
    let start = || {
        let launch = Launch::new().postgres(shared().url(), &schema).arguments(to_file);
        // The smallest number of connections suffices.
        let launch = launch.arguments(["--postgres-connections", "10"]);
        TestServer::start_with(launch.without_environment("PLANTD_TOKEN"))
    };
    let servers = [start(), start()];
    assert_ne!(servers[0].data(), servers[1].data());
    let [one, two] = servers.each_ref().map(|server| server.client().with_token(&token));
    one.create(1, "Rosa", None).assert_plant("Rosa", None);
    two.read(1).assert_new_plant(1, "Rosa", None);

    revoke_token(folder.path(), &[&["shared"][..], &to_file].concat());
    for client in [&one, &two] {
        wait_until("the token to be in force no more", || client.read(NO_PLANT).status == 401);
        client.with_token(&other).read(1).assert_new_plant(1, "Rosa", None);
    }
}

#[test]
fn a_server_stays_up_while_postgres_is_away_and_goes_on_when_it_is_back() {
    let mut cluster = Cluster::start();
    let url = cluster.url().replace("postgres@", &format!("postgres:{PASSWORD}@"));
    let launch =
        Launch::new().postgres(&url, &fresh_schema_name()).environment("RUST_LOG", "trace");
    let mut server = TestServer::start_with(launch);
    let client = server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    assert!(is_ready(&client));

    for stopped in 1..=2 {
        cluster.stop_fast();
        wait_until("/readyz to say no", || !is_ready(&client));
        // The server tries each request for some seconds, so the second outage has no requests.
        if stopped == 1 {
            let begun = Instant::now();
            let said = client.create(2, "Abies", None).assert_error(503, 5003);
            assert!(said.contains("database does not answer"), "{said}");
            client.delete(1).assert_error(503, 5003);
            assert!(begun.elapsed() < 2 * FEW_SECONDS, "{:?}", begun.elapsed());
            client.read(1).assert_error(503, 5002);
        }
        assert_eq!(client.get("/livez").status, 200);
        assert!(server.process().is_running());
        cluster.start_again();
        wait_until("/readyz to say yes", || is_ready(&client));
        client.read(1).assert_new_plant(1, "Rosa", None);
        client.read(2).assert_error(404, 3002);
        client.create(10 + stopped, "Abies", None).assert_plant("Abies", None);
    }
    assert_eq!(client.list("").total_count(), Some(3));
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    assert!(log.contains("PostgreSQL does not answer"), "{log}");
    assert_eq!(log.matches("PostgreSQL answers again").count(), 2, "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
}

#[test]
fn a_server_ends_in_order_even_while_postgres_is_away() {
    const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
    let mut cluster = Cluster::start();
    let mut server =
        TestServer::start_with(Launch::new().postgres(&cluster.url(), &fresh_schema_name()));
    let client = server.client();
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    for is_frozen in [false, true] {
        server.restart();
        server.client().read(1).assert_new_plant(1, "Rosa", None);
        if is_frozen {
            cluster.freeze();
        } else {
            cluster.stop_fast();
        }
        let client = server.client();
        wait_until("/readyz to say no", || !is_ready(&client));
        // A request is under way at the shutdown.
        let mut connection = server.connect();
        connection.send(create_request(&plant_body(2, "Abies", None)));
        let begun = Instant::now();
        assert_eq!(server.terminate().code(), Some(0), "{}", server.stderr());
        assert!(begun.elapsed() < DRAIN_TIMEOUT + FEW_SECONDS, "{:?}", begun.elapsed());
        if is_frozen {
            cluster.unfreeze();
        } else {
            connection.receive().assert_error(503, 5003);
            cluster.start_again();
        }
        assert!(Connection::try_open(server.address()).is_err(), "the server still listens");
    }
}

/// Writes a file that the server alone can read.
#[track_caller]
fn write_for_server(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be written");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("permissions can be set");
    if is_root() {
        chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("the owner can be changed");
    }
}

#[test]
fn over_tls_only_a_verified_server_gets_any_data() {
    let (cluster, authority, folder) = (Cluster::start(), Authority::new(), folder());
    let certificate = authority.issue();
    write_for_server(&cluster.data().join("server.crt"), &certificate.chain);
    write_for_server(&cluster.data().join("server.key"), &certificate.key);
    let who = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
    write_for_server(&cluster.data().join("pg_hba.conf"), who);
    cluster.set("ssl", "on");
    let [roots, stranger] = [&authority, &Authority::new()].map(|authority| {
        let path = folder.path().join(fresh_schema_name());
        replace_file(&path, &authority.pem());
        format!("sslrootcert={}", path.display())
    });
    let trusting = format!("sslmode=verify-full&{roots}");
    let url = |name: &str, options: &str| {
        let place = format!("{name}:{}/postgres?hostaddr=127.0.0.1", cluster.port());
        format!("postgres://postgres:{PASSWORD}@{place}&{options}")
    };
    let schema = fresh_schema_name();
    for name in ["127.0.0.1", "localhost"] {
        let server = TestServer::start_with(Launch::new().postgres(&url(name, &trusting), &schema));
        server.client().put(1, r#"{"name":"Rosa"}"#);
        server.client().read(1).assert_new_plant(1, "Rosa", None);
        let is_encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                            WHERE application_name = 'plantd'";
        assert_eq!(cluster.query(is_encrypted), "t");
    }

    let begun = Instant::now();
    for (url, words) in [
        (url("localhost", &format!("sslmode=verify-full&{stranger}")), "certificate"),
        // PostgreSQL's certificate is verified even where the URL asks for less.
        (url("localhost", &stranger), "certificate"),
        (url("localhost", "sslmode=require"), "certificate"),
        (url("another.example", &trusting), "another.example"),
        (url("localhost", "sslmode=disable"), "no encryption"),
    ] {
        for command in COMMANDS {
            let launch = Launch::new().postgres(&url, &schema).arguments([command]);
            refusal(&launch, IO, &[words]);
        }
    }
    assert!(begun.elapsed() < 2 * FEW_SECONDS, "{:?}", begun.elapsed());
}

#[test]
fn a_refusal_by_postgres_is_reported_with_what_to_do() {
    let cluster = Cluster::start();
    let who = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    write_for_server(&cluster.data().join("pg_hba.conf"), who);
    cluster.set("password_encryption", "scram-sha-256");
    cluster.query("CREATE ROLE gardener LOGIN SUPERUSER PASSWORD 'another-one'");
    cluster.query("CREATE DATABASE shelf");
    cluster.query("ALTER DATABASE shelf SET default_transaction_read_only = on");
    let port = cluster.port();
    let place = |user: &str, database: &str| {
        format!("postgres://{user}@127.0.0.1:{port}/{database}?sslmode=disable")
    };
    for (url, words) in [
        (
            place(&format!("gardener:{PASSWORD}"), "postgres"),
            ["password authentication failed", "check the user and the password in the URL"],
        ),
        (place("gardener", "postgres"), ["password missing", "put the password into the URL"]),
        (place("gardener:another-one", "none"), ["does not exist", "create the database"]),
        (place("gardener:another-one", "shelf"), ["does not allow writes", "read_only"]),
    ] {
        for command in COMMANDS {
            let launch = Launch::new().postgres(&url, "plants").arguments([command]);
            let said = refusal(&launch, IO, &words);
            assert!(said.contains("PostgreSQL refuses the connection"), "{said}");
            assert!(!said.contains("does not answer"), "{said}");
        }
    }
}

#[test]
fn a_file_without_certificates_ends_with_78_and_is_named() {
    let folder = folder();
    let path = folder.path().join("none.pem");
    fs::write(&path, "nothing\n").expect("a file can be written");
    let path = path.to_str().expect("UTF-8");
    let url = format!("postgres://plantd:{PASSWORD}@127.0.0.1:1/plants?sslrootcert={path}");
    let launch = Launch::new().postgres(&url, "plants").arguments(["migrate"]);
    refusal(&launch, CONFIGURATION, &[path]);
}

#[test]
fn a_backup_and_an_archive_are_refused_in_favor_of_the_tools_of_postgres() {
    let folder = folder();
    let launch = Launch::new().postgres(shared().url(), &fresh_schema_name());
    let server = TestServer::start_with(launch.clone());
    let said = server.client().get("/backup").assert_error(404, 4006);
    assert!(said.contains("pg_basebackup or pgBackRest"), "{said}");
    let url = format!("http://{}", server.address());
    let backup = Launch::new().arguments(["backup", "--url", &url]);
    backup.arguments([folder.path().join("backup")]).assert_refused(USAGE, &["pg_basebackup"]);
    let archive = ["--archive".as_ref(), folder.path().as_os_str()];
    refusal(&launch.clone().arguments(archive), CONFIGURATION, &["archive_mode", "pgBackRest"]);
    let required = launch.arguments(["--archive-required"]);
    refusal(&required, CONFIGURATION, &["there is no archive that could be required"]);
}
