//! TLS: who is let in, who is not, what is shown, and that all that is promised of connections holds.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use plantd_tests::{
    Authority, Connection, Format, IssuedCertificate, Launch, Process, ServerAddress, TOKEN,
    TestServer, chain_path, chunk, create_request, key_path, paste, plant_body, raw_head,
    replace_file, shown_command, wait_for, wait_until,
};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, Error, ProtocolVersion};
use tempfile::TempDir;

const USAGE: i32 = 64;
const IO: i32 = 74;
const CONFIGURATION: i32 = 78;

/// A folder with the files of a certificate, and whoever issued it.
struct Files {
    folder: TempDir,
    authority: Authority,
    certificate: IssuedCertificate,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let authority = Authority::new();
        let certificate = authority.issue();
        certificate.write(folder.path());
        Self { folder, authority, certificate }
    }

    fn launch(&self) -> Launch {
        tls_launch(self.folder.path())
    }

    fn start(&self) -> TestServer {
        TestServer::start_with(self.launch())
    }

    /// The certificate of the authority, in a file.
    fn roots(&self) -> String {
        let path = self.folder.path().join("roots.pem");
        replace_file(&path, &self.authority.pem());
        path.into_os_string().into_string().expect("UTF-8")
    }

    /// A client that trusts the authority.
    fn client(&self) -> Arc<ClientConfig> {
        self.authority.plain_client()
    }
}

/// A launch with the certificate in this folder.
fn tls_launch(folder: &Path) -> Launch {
    Launch::new()
        .environment("PLANTD_TLS_CERT", chain_path(folder))
        .environment("PLANTD_TLS_KEY", key_path(folder))
}

fn read_request(id: i64) -> String {
    raw_head(&format!("GET /plants/{id}"), "")
}

/// What a handshake failed of, as TLS says it.
fn tls_error(result: io::Result<Connection>) -> Error {
    let cause = result.map(|_| ()).expect_err("the handshake should fail");
    let error = cause.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    error.unwrap_or_else(|| panic!("no failure of TLS: {cause}")).clone()
}

fn curl(arguments: &[&str]) -> Output {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "--max-time", "20"]).args(arguments);
    curl.output().expect("install curl, or run `cargo xtask test`, which does")
}

#[test]
fn clients_that_trust_the_authority_are_served_and_the_ready_line_says_https() {
    let files = Files::new();
    let server = files.start();
    assert!(matches!(server.place(), ServerAddress::Https(_)), "{:?}", server.place());
    let client = server.tls_client(&files.authority);
    client.create(1, "Rosa", None).assert_plant("Rosa", None);

    let authorization = format!("Authorization: Bearer {TOKEN}");
    for name in ["127.0.0.1", "localhost"] {
        let url = format!("https://{name}:{}/plants/1", server.address().port());
        let output = curl(&["--cacert", &files.roots(), "-H", &authorization, &url]);
        assert_eq!(output.stdout, br#"{"id":1,"name":"Rosa"}"#, "{output:?}");
    }
}

#[test]
fn a_client_that_trusts_another_authority_sends_nothing() {
    let files = Files::new();
    let server = files.start();
    let stranger = Authority::new().plain_client();
    let error = tls_error(Connection::open_tls(server.address(), &stranger));
    assert!(matches!(error, Error::InvalidCertificate(_)), "{error:?}");

    let output = curl(&[&format!("https://{}/livez", server.address())]);
    // 60: the certificate is not trusted.
    assert_eq!(output.status.code(), Some(60), "{output:?}");
    assert!(!server.stderr().contains("/livez"), "{}", server.stderr());
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_a_connection_is_kept() {
    let files = Files::new();
    let server = files.start();
    for (id, (version, name)) in
        (1..).zip([(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)])
    {
        let mut connection = server.connect_tls(&files.authority.client(&[version], &[]));
        assert_eq!(connection.agreed().0, Some(name));
        connection.send(create_request(&plant_body(id, "Rosa", None)));
        connection.receive().assert_plant("Rosa", None);
        for _ in 0..20 {
            connection.send(read_request(id));
            connection.receive().assert_new_plant(id, "Rosa", None);
        }
        // All at once, and over more than one record.
        let requests = read_request(id).repeat(300);
        connection.send(&requests);
        for _ in 0..300 {
            connection.receive().assert_new_plant(id, "Rosa", None);
        }
    }
}

#[test]
fn http_1_1_is_agreed_on_and_a_client_that_speaks_only_http_2_is_refused() {
    let files = Files::new();
    let server = files.start();
    let versions = rustls::ALL_VERSIONS;
    for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
        let mut connection = server.connect_tls(&files.authority.client(versions, protocols));
        assert_eq!(connection.agreed().1, Some(&b"http/1.1"[..]));
    }
    let mut connection = server.connect_tls(&files.authority.client(versions, &[]));
    assert_eq!(connection.agreed().1, None);

    let client = files.authority.client(versions, &["h2"]);
    let error = tls_error(Connection::open_tls(server.address(), &client));
    assert_eq!(error, Error::AlertReceived(AlertDescription::NoApplicationProtocol));
}

#[test]
fn who_speaks_no_tls_is_turned_away_and_fills_no_log() {
    let files = Files::new();
    let mut server = files.start();
    for bytes in [
        &b"GET /livez HTTP/1.1\r\nHost: plants\r\n\r\n"[..],
        b"\r\n\r\n",
        b"SSH-2.0-scanner\r\n",
        &[0; 300],
        // The beginning of a handshake that is none.
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ] {
        let mut connection = server.connect();
        connection.send(bytes);
        // What comes may be an alert, which is no answer.
        connection.wait_for_close();
    }
    drop(server.connect());
    let mut connection = server.connect();
    connection.send(b"\x16\x03\x01");
    connection.finish_sending();
    connection.wait_for_close();

    let client = server.tls_client(&files.authority);
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    let is_of_the_end = |line: &str| line.ends_with(" draining") || line.ends_with(" closed");
    let lines: Vec<&str> = log.lines().filter(|line| !is_of_the_end(line)).collect();
    assert!(matches!(lines[..], [line] if line.contains("POST /plants 200")), "{log}");
}

#[test]
fn what_a_client_cannot_do_without_tls_it_cannot_do_with_it_either() {
    let files = Files::new();
    let server = files.start();
    let client = server.tls_client(&files.authority);
    client.without_token().read(1).assert_error(401, 2001);
    client.with_token("another-token-of-the-tests").read(1).assert_error(401, 2002);
    client.read(1).assert_error(404, 3002);
}

#[test]
fn a_client_that_ends_its_sending_still_gets_its_answers() {
    let files = Files::new();
    let server = files.start();
    let body = plant_body(1, "Rosa", None);
    for end in [Connection::finish_sending, Connection::break_off_sending] {
        let mut connection = server.connect_tls(&files.client());
        connection.send(create_request(&body) + &read_request(1));
        end(&mut connection);
        assert!([200, 400].contains(&connection.receive().status));
        connection.receive().assert_new_plant(1, "Rosa", None);
        connection.assert_closed();
    }
    // A body that breaks off is none.
    let mut connection = server.connect_tls(&files.client());
    let head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    connection.send(raw_head("PUT /plants/2", head));
    connection.send(chunk(r#"{"name":"Rosa"}"#));
    connection.break_off_sending();
    connection.wait_for_close();
    server.tls_client(&files.authority).read(2).assert_error(404, 3002);
}

#[test]
fn the_server_says_in_tls_that_it_ends_a_connection() {
    let files = Files::new();
    let server = files.start();
    for version in [&TLS12, &TLS13] {
        let mut connection = server.connect_tls(&files.authority.client(&[version], &[]));
        connection.send(raw_head("GET /plants/1", "Connection: close\r\n"));
        connection.receive().assert_error(404, 3002);
        // It fails where nothing is said.
        connection.assert_closed();
    }
}

#[test]
fn a_handshake_that_does_not_end_is_cut_off_and_nobody_waits_for_it() {
    let files = Files::new();
    let server = files.start();
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.send(b"\x16\x03\x01\x02");
    let mut trickling = server.connect();
    // A record with room for all that trickles.
    trickling.send(b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb");
    for id in 1..10 {
        let client = server.tls_client(&files.authority);
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    silent.assert_silent_for(Duration::from_millis(1));
    wait_until("the end of a handshake that trickles", || {
        thread::sleep(Duration::from_millis(50));
        trickling.try_send(b"x").is_err()
    });
    silent.wait_for_close();
    slow.wait_for_close();
}

#[test]
fn a_later_head_that_does_not_end_ends_the_connection_also_within_a_record() {
    let files = Files::new();
    let server = files.start();
    let [mut first, mut later, mut record] = [(); 3].map(|()| server.connect_tls(&files.client()));
    for connection in [&mut later, &mut record] {
        connection.send(read_request(1));
        connection.receive().assert_error(404, 3002);
    }
    first.send("GET /livez HTTP/1.1\r\nX: ");
    // Records that hold next to nothing.
    wait_until("the end of a connection on which a later head trickles", || {
        thread::sleep(Duration::from_millis(50));
        later.try_send("x").is_err()
    });
    // A record that would hold a whole head.
    let sealed = record.seal(raw_head("GET /livez", &format!("X: {}\r\n", "x".repeat(2000))));
    let mut bytes = sealed.chunks(1);
    wait_until("the end of a connection on which a record trickles", || {
        thread::sleep(Duration::from_millis(50));
        record.send_sealed(bytes.next().expect("it lasts longer than the server waits")).is_err()
    });
    first.wait_for_close();
}

#[test]
fn a_client_that_takes_nothing_of_its_answer_does_not_hold_it_for_ever() {
    // More than the buffers of the sockets and of TLS take.
    const PLANTS: i64 = 10_000;
    let files = Files::new();
    let mut server = files.start();
    // It keeps its connection, so that the number of sockets changes by the export's only.
    let client = server.tls_client(&files.authority);
    let long = "𝒑".repeat(255);
    let rows: String = (0..PLANTS).map(|id| plant_body(id, &long, Some(&long)) + "\n").collect();
    let report = client.import(Format::Ndjson, "", &rows);
    assert_eq!(report.json()["created"], PLANTS);
    let before = server.process().sockets();

    let mut connection = server.connect_tls(&files.client());
    connection.send(raw_head("GET /plants/export", ""));
    wait_until("the export to begin", || server.process().sockets() > before);
    wait_until("the server to give up", || server.process().sockets() == before);
    // In TLS as in HTTP, what came is not said to be whole.
    let cause = connection.try_receive().expect_err("not all of it came");
    assert!(
        matches!(cause.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset),
        "{cause}"
    );
}

/// Begins a create whose head the server has taken for sure: it has let the body come.
#[track_caller]
fn begin_create(server: &TestServer, client: &Arc<ClientConfig>, body: &str) -> Connection {
    let mut connection = server.connect_tls(client);
    let lines = format!(
        "Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    connection.send(raw_head("POST /plants", &lines));
    assert_eq!(connection.receive().status, 100);
    connection
}

/// Waits until no new connections are taken.
#[track_caller]
fn wait_for_refusal(address: SocketAddr) {
    wait_until("the server to take no more connections", || TcpStream::connect(address).is_err());
}

#[test]
fn what_was_sent_before_the_drain_closes_is_answered_also_where_a_part_of_a_record_was() {
    let files = Files::new();
    let mut server = files.start();
    let client = files.client();
    let body = plant_body(1, "Rosa", None);
    let mut half_sent = begin_create(&server, &client, &body);
    half_sent.send(&body[..10]);
    let mut part_of_a_record = server.connect_tls(&client);
    part_of_a_record.send(read_request(3));
    part_of_a_record.receive().assert_error(404, 3002);
    let sealed = part_of_a_record.seal(create_request(&plant_body(2, "Abies", None)));
    part_of_a_record.send_sealed(&sealed[..20]).expect("the server takes it");
    let mut resting = server.connect_tls(&client);
    resting.send(read_request(3));
    resting.receive().assert_error(404, 3002);

    server.process().send_terminate();
    wait_for_refusal(server.address());
    resting.assert_closed();
    assert!(server.process().is_running(), "it did not wait for the requests");
    part_of_a_record.send_sealed(&sealed[20..]).expect("the server takes it");
    part_of_a_record.receive().assert_plant("Abies", None);
    part_of_a_record.assert_closed();
    half_sent.send(&body[10..]);
    half_sent.receive().assert_plant("Rosa", None);
    half_sent.assert_closed();
    assert_eq!(server.process().wait_for_exit().code(), Some(0));

    server.restart();
    let client = server.tls_client(&files.authority);
    client.read(1).assert_new_plant(1, "Rosa", None);
    client.read(2).assert_new_plant(2, "Abies", None);
}

#[test]
fn a_handshake_that_rests_does_not_hold_the_end_up() {
    let files = Files::new();
    let mut server = TestServer::start_with(files.launch().arguments(["--drain-timeout", "60s"]));
    let body = plant_body(1, "Rosa", None);
    // The body comes no more for a while: how long that may take is the time to compare with. It has begun
    // before the others came, whose handshake may take as long.
    let mut half_sent = begin_create(&server, &files.client(), &body);
    half_sent.send(&body[..10]);
    let mut silent = server.connect();
    let mut begun = server.connect();
    begun.send(b"\x16\x03\x01\x02");

    server.process().send_terminate();
    silent.wait_for_close();
    begun.wait_for_close();
    half_sent.send(&body[10..]);
    half_sent.receive().assert_plant("Rosa", None);
    assert_eq!(server.process().wait_for_exit().code(), Some(0));
}

#[test]
fn connections_that_rest_do_not_hold_the_end_up() {
    let files = Files::new();
    // The drain would time out before the keep-alive ends them.
    let mut server = TestServer::start_with(files.launch().arguments(["--drain-timeout", "40s"]));
    let client = files.client();
    let mut resting: Vec<Connection> = (0..20).map(|_| server.connect_tls(&client)).collect();
    for connection in &mut resting[..10] {
        connection.send(read_request(1));
        connection.receive().assert_error(404, 3002);
    }
    assert_eq!(server.terminate().code(), Some(0));
    for connection in &mut resting {
        connection.assert_closed();
    }
}

#[test]
fn a_handshake_counts_as_a_connection() {
    let files = Files::new();
    // 64 of them are kept for what is no connection.
    let mut server = TestServer::start_with(files.launch().descriptor_limits(68, 68));
    let mut kept = server.connect_tls(&files.client());
    kept.send(create_request(&plant_body(1, "Rosa", None)));
    kept.receive().assert_plant("Rosa", None);
    let before = server.process().sockets();
    let _in_handshake: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    wait_until("all of them to be taken", || server.process().sockets() == before + 3);
    // It waits until one of them is cut off.
    let mut connection = server.connect_tls(&files.client());
    assert!(server.process().sockets() <= before + 3, "there are more connections than may be");
    assert!(server.stderr().contains("4 connections are open; others wait"), "{}", server.stderr());
    connection.send(read_request(1));
    connection.receive().assert_new_plant(1, "Rosa", None);
}

#[test]
fn import_and_export_move_plants_over_tls_when_they_trust_the_authority() {
    let files = Files::new();
    let server = files.start();
    let url = format!("https://{}", server.address());
    let rows = "{\"id\":1,\"name\":\"Rosa\"}\n{\"id\":2,\"name\":\"Abies\"}\n";
    let path = files.folder.path().join("plants.ndjson");
    fs::write(&path, rows).expect("it is written");
    let path = path.to_str().expect("UTF-8");

    let import = Launch::new().arguments(["import", "--url", &url, path]);
    let mut process = import.spawn();
    process.assert_exit_code(IO);
    let said = process.stderr();
    assert!(
        said.contains("does not trust the certificate") && said.contains("SSL_CERT_FILE"),
        "{said}"
    );
    assert!(said.contains("UnknownIssuer") && !said.contains("cannot reach"), "{said}");
    assert!(said.lines().count() == 1 && !said.contains(TOKEN), "{said}");

    let trusting = |launch: Launch| launch.environment("SSL_CERT_FILE", files.roots());
    trusting(import).spawn().assert_exit_code(0);
    let other_name = url.replace("127.0.0.1", "[::ffff:127.0.0.1]");
    let export = |url: &str| trusting(Launch::new().arguments(["export", "--url", url]));
    let no_roots = |name| {
        export(&url).environment("SSL_CERT_FILE", name).environment("SSL_CERT_DIR", "/missing")
    };
    for (launch, words) in [
        (export(&other_name), ["is for another name", "--url"]),
        (no_roots("/missing"), ["there are no certificates", "SSL_CERT_FILE"]),
        (no_roots("/dev/null"), ["there are no certificates", "SSL_CERT_FILE"]),
    ] {
        let mut process = launch.spawn();
        process.assert_exit_code(IO);
        let said = process.stderr();
        assert!(words.into_iter().all(|word| said.contains(word)), "{said}");
        assert!(said.lines().count() == 1 && !said.contains("cannot reach"), "{said}");
    }
    let mut process = export(&url).spawn();
    process.assert_exit_code(0);
    assert_eq!(process.stdout(), rows);
}

/// The certificate that a new connection is shown, at a handshake of its own.
fn shown(server: &TestServer, client: &Arc<ClientConfig>) -> Vec<u8> {
    let (certificate, is_new) = server.connect_tls(client).certificate();
    assert!(is_new, "a session went on");
    certificate.to_vec()
}

#[test]
fn a_certificate_that_changes_is_shown_to_new_connections_and_the_open_ones_go_on() {
    let files = Files::new();
    let mut server = files.start();
    let mut open = server.connect_tls(&files.client());
    assert_eq!(open.certificate().0, files.certificate.der);
    // A client that would go on with its session.
    let returning = files.client();
    for is_new in [true, false] {
        let mut connection = server.connect_tls(&returning);
        assert_eq!(connection.certificate(), (files.certificate.der.clone(), is_new));
        // What lets it go on comes with the first answer.
        connection.send(read_request(1));
        connection.receive().assert_error(404, 3002);
    }

    let renewed = files.authority.issue();
    renewed.write(files.folder.path());
    wait_until("the new certificate to be shown", || {
        shown(&server, &files.client()) == renewed.der.as_ref()
    });
    let mut connection = server.connect_tls(&returning);
    assert_eq!(connection.certificate(), (renewed.der.clone(), true), "the old session goes on");
    connection.send(create_request(&plant_body(1, "Rosa", None)));
    connection.receive().assert_plant("Rosa", None);
    open.send(read_request(1));
    open.receive().assert_new_plant(1, "Rosa", None);

    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(server.stderr().matches("the TLS certificate changed").count(), 1);
}

#[test]
fn files_that_are_broken_leave_the_last_certificate_in_force_and_the_log_says_so() {
    let files = Files::new();
    let server = files.start();
    let folder = files.folder.path();
    let another = files.authority.issue();
    let mut told = 0;
    let mut break_with = |breaks: &dyn Fn()| {
        breaks();
        told += 1;
        let log = wait_for("the log to say that the files are broken", || {
            let log = server.stderr();
            (log.matches("what was in force stays in force").count() == told).then_some(log)
        });
        assert_eq!(shown(&server, &files.client()), files.certificate.der.as_ref());
        let line = log.lines().rfind(|line| line.contains("stays in force")).expect("the line");
        assert!(line.contains(folder.to_str().expect("UTF-8")), "{line}");
        for secret in files.certificate.key.lines().chain(another.key.lines()).filter(is_secret) {
            assert!(!log.contains(secret), "the log tells of the key: {log}");
        }
    };
    break_with(&|| replace_file(&chain_path(folder), "no certificate"));
    break_with(&|| fs::remove_file(chain_path(folder)).expect("it is there"));
    break_with(&|| replace_file(&chain_path(folder), &another.chain));
    break_with(&|| replace_file(&key_path(folder), "-----BEGIN PRIVATE KEY-----\nAAAA\n"));

    another.write(folder);
    wait_until("the new certificate to be shown", || {
        shown(&server, &files.client()) == another.der.as_ref()
    });
}

/// Whether a line of a key tells something of it.
fn is_secret(line: &&str) -> bool {
    !line.starts_with("-----")
}

#[test]
fn a_certificate_that_is_a_link_is_followed_where_the_link_leads() {
    let files = Files::new();
    let folder = files.folder.path();
    let (first, second) = (folder.join("first"), folder.join("second"));
    let current = folder.join("current");
    let renewed = files.authority.issue();
    for (path, certificate) in [(&first, &files.certificate), (&second, &renewed)] {
        fs::create_dir(path).expect("a folder can be made");
        certificate.write(path);
    }
    symlink(&first, &current).expect("a link can be made");
    let server = TestServer::start_with(tls_launch(&current));
    assert_eq!(shown(&server, &files.client()), files.certificate.der.as_ref());

    let next = folder.join("next");
    symlink(&second, &next).expect("a link can be made");
    fs::rename(next, &current).expect("a link can be renamed");
    wait_until("the new certificate to be shown", || {
        shown(&server, &files.client()) == renewed.der.as_ref()
    });
}

/// A start with these files ends with this exit code, names the file, and tells nothing of a key.
#[track_caller]
fn check_refusal(files: &Files, exit_code: i32, file: &Path, word: &str) {
    let data = files.folder.path().join("data");
    let mut process = files.launch().data(&data).spawn();
    process.assert_exit_code(exit_code);
    let said = process.stderr();
    assert_eq!(process.stdout(), "", "{said}");
    for word in [file.to_str().expect("UTF-8"), word] {
        assert!(said.contains(word), "{said:?} does not hold {word:?}");
    }
    for secret in files.certificate.key.lines().filter(is_secret) {
        assert!(!said.contains(secret), "it tells of the key: {said}");
    }
    assert!(!data.exists(), "it made the folder");
}

#[test]
fn files_that_cannot_be_used_end_a_start_and_the_message_says_what_to_do() {
    let files = Files::new();
    let folder = files.folder.path();
    let (chain, key) = (chain_path(folder), key_path(folder));
    let IssuedCertificate { chain: good_chain, key: good_key, .. } = &files.certificate;
    let another = files.authority.issue();

    for (path, good) in [(&chain, good_chain), (&key, good_key)] {
        fs::remove_file(path).expect("it is there");
        check_refusal(&files, IO, path, "check the path");
        fs::create_dir(path).expect("a folder can be made");
        check_refusal(&files, CONFIGURATION, path, "is not a file");
        fs::remove_dir(path).expect("it is empty");
        replace_file(path, &" ".repeat(1024 * 1024 + 1));
        check_refusal(&files, CONFIGURATION, path, "1048576 bytes");
        replace_file(path, good);
    }
    let broken_chain = good_chain.replacen('M', "!", 1);
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, word) in [
        ("", "BEGIN CERTIFICATE"),
        ("no certificate", "BEGIN CERTIFICATE"),
        (good_key, "BEGIN CERTIFICATE"),
        (&broken_chain, "broken PEM"),
        (no_der, "cannot be read"),
        (&another.chain, "the key is not that of the certificate"),
        (&files.authority.pem(), "the key is not that of the certificate"),
    ] {
        replace_file(&chain, text);
        check_refusal(&files, CONFIGURATION, &chain, word);
    }
    replace_file(&chain, good_chain);
    let encrypted = good_key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let broken_key = good_key.replacen("-----END", "-----BEGIN", 1);
    let garbled_key = good_key.replacen('M', "!", 1);
    let short_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (text, word) in [
        ("", "PKCS#8"),
        ("no key", "PKCS#8"),
        (good_chain, "PKCS#8"),
        (&encrypted, "not encrypted"),
        (&broken_key, "broken PEM"),
        (&garbled_key, "broken PEM"),
        (short_key, "Ed25519"),
        (&another.key, "the key is not that of the certificate"),
    ] {
        replace_file(&key, text);
        check_refusal(&files, CONFIGURATION, &key, word);
    }
}

#[test]
fn a_pipe_in_the_place_of_a_key_is_not_waited_for() {
    let files = Files::new();
    let key = key_path(files.folder.path());
    fs::remove_file(&key).expect("it is there");
    let made = Command::new("mkfifo").arg(&key).status();
    assert!(made.expect("mkfifo can be run").success(), "a pipe can be made");
    check_refusal(&files, CONFIGURATION, &key, "is not a file");
}

#[test]
fn keys_are_taken_in_every_usual_form() {
    let files = Files::new();
    let folder = files.folder.path();
    let (chain, key) = (chain_path(folder), key_path(folder));
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(folder).output();
        let output = output.expect("install openssl, or run `cargo xtask test`, which does");
        assert!(output.status.success(), "{output:?}");
    };
    for (algorithm, option, form, begins_with) in [
        ("RSA", "rsa_keygen_bits:2048", "-traditional", "-----BEGIN RSA PRIVATE KEY"),
        ("RSA", "rsa_keygen_bits:2048", "", "-----BEGIN PRIVATE KEY"),
        ("EC", "ec_paramgen_curve:P-256", "-traditional", "-----BEGIN EC PRIVATE KEY"),
        ("EC", "ec_paramgen_curve:P-384", "", "-----BEGIN PRIVATE KEY"),
    ] {
        let options = ["-algorithm", algorithm, "-pkeyopt", option, "-out", "made.pem"];
        openssl(&[&["genpkey"][..], &options].concat());
        let form: Vec<&str> = [form].into_iter().filter(|form| !form.is_empty()).collect();
        openssl(&[&["pkey", "-in", "made.pem", "-out", "privkey.pem"][..], &form].concat());
        let names = "subjectAltName=IP:127.0.0.1";
        let request = ["req", "-x509", "-key", "made.pem", "-out", "fullchain.pem"];
        openssl(&[&request[..], &["-subj", "/CN=plants", "-addext", names]].concat());
        let text = fs::read_to_string(&key).expect("it is there");
        assert!(text.starts_with(begins_with), "{algorithm}: another form than the test wants");

        let server = files.start();
        let roots = chain.to_str().expect("UTF-8");
        let output =
            curl(&["--cacert", roots, &format!("https://{}/livez", server.address()), "-f"]);
        assert!(output.status.success(), "{algorithm}: {output:?}");
    }
}

#[test]
fn one_file_may_hold_both_the_certificate_and_the_key() {
    let files = Files::new();
    let path = chain_path(files.folder.path());
    let IssuedCertificate { chain, key, .. } = &files.certificate;
    for text in [format!("{key}{chain}"), format!("{chain}{key}")] {
        replace_file(&path, &text);
        let server = TestServer::start_with(files.launch().environment("PLANTD_TLS_KEY", &path));
        let client = server.tls_client(&files.authority);
        client.create(1, "Rosa", None).assert_plant("Rosa", None);
    }
}

#[test]
fn a_key_that_is_open_to_others_is_warned_of_and_what_the_warning_says_helps() {
    let files = Files::new();
    let key = key_path(files.folder.path());
    for (mode, is_warned_of) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).expect("it is ours");
        let mut server = files.start();
        assert_eq!(server.terminate().code(), Some(0));
        let log = server.stderr();
        let command = log.split_once("run: ").map(|(_, rest)| rest.lines().next().expect("a line"));
        assert_eq!(command.is_some(), is_warned_of, "{mode:o}: {log}");
        if let Some(command) = command {
            let status = Command::new("sh").args(["-c", command]).status();
            assert!(status.expect("a shell").success(), "{command}");
            let mode = fs::metadata(&key).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o007, 0, "{command}");
        }
    }
}

#[test]
fn a_flag_or_a_variable_that_stands_alone_is_refused_and_so_is_tls_on_a_unix_socket() {
    let files = Files::new();
    let folder = files.folder.path();
    let (chain, key) = (chain_path(folder), key_path(folder));
    let [chain, key] = [&chain, &key].map(|path| path.to_str().expect("UTF-8"));
    let unix = format!("unix:{}", folder.join("socket").display());
    let data = folder.join("data");
    let check = |variables: &[(&str, &str)], flags: &[&str], exit_code: i32, words: &[&str]| {
        let launch = variables
            .iter()
            .fold(Launch::new(), |launch, (name, value)| launch.environment(name, *value));
        let mut process = launch.data(&data).arguments(flags).spawn();
        process.assert_exit_code(exit_code);
        let said = process.stderr();
        for word in words {
            assert!(said.contains(word), "{variables:?} {flags:?}: {said}");
        }
        assert!(!data.exists(), "it made the folder");
    };
    let both = ["--tls-cert", "--tls-key"];
    check(&[], &["--tls-cert", chain], USAGE, &both);
    check(&[], &["serve", "--tls-key", key], USAGE, &both);
    check(&[("PLANTD_TLS_CERT", chain)], &[], CONFIGURATION, &both);
    check(&[("PLANTD_TLS_KEY", key)], &["serve"], CONFIGURATION, &both);
    let flags = ["--tls-cert", chain, "--tls-key", key];
    let variables = [("PLANTD_TLS_CERT", chain), ("PLANTD_TLS_KEY", key)];
    let listen = ("PLANTD_LISTEN", unix.as_str());
    check(&[listen], &flags, USAGE, &["TCP"]);
    check(&variables, &["--listen", &unix], USAGE, &["TCP"]);
    check(&[listen, variables[0], variables[1]], &[], CONFIGURATION, &["TCP"]);

    // One of each is a pair.
    let launch = Launch::new().environment("PLANTD_TLS_CERT", chain);
    let mut process = launch.data(&data).arguments(["--tls-key", key]).spawn();
    assert!(matches!(process.place(), ServerAddress::Https(_)));
}

#[test]
fn the_command_that_the_first_start_shows_creates_a_plant_over_tls() {
    let files = Files::new();
    let folder = files.folder.path().join("it's a \"folder\" of $HOME");
    fs::create_dir(&folder).expect("a folder can be made");
    files.certificate.write(&folder);
    let server = TestServer::start_with(tls_launch(&folder).without_environment("PLANTD_TOKEN"));
    let command = shown_command(&server);
    let output = paste(&command);
    let expected = br#"{"name":"Rosa canina","tag":"Rosaceae"}"#;
    assert_eq!(output.stdout, expected, "{command}: {output:?}");
}

/// How often a server that listens here warns that tokens travel in the clear.
#[track_caller]
fn warnings(launch: Launch) -> usize {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut process: Process = launch.data(&folder.path().join("data")).spawn();
    assert!(process.becomes_ready(), "{}", process.stderr());
    process.send_terminate();
    process.assert_exit_code(0);
    let log = process.stderr();
    let lines = log.lines().filter(|line| line.contains("WARN") && line.contains("tokens"));
    lines.inspect(|line| assert!(line.contains("--tls-cert") && line.contains("proxy"))).count()
}

#[test]
fn a_server_that_others_can_reach_in_the_clear_warns_of_that_once() {
    let files = Files::new();
    let listen = |address: &str| Launch::new().arguments(["--listen", address]);
    assert_eq!(warnings(listen("0.0.0.0:0")), 1);
    assert_eq!(warnings(listen("127.0.0.1:0")), 0);
    assert_eq!(warnings(listen("127.8.9.10:0")), 0);
    assert_eq!(warnings(files.launch().arguments(["--listen", "0.0.0.0:0"])), 0);
    let socket = format!("unix:{}", files.folder.path().join("socket").display());
    assert_eq!(warnings(listen(&socket)), 0);
}
