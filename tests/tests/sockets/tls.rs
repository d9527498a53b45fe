//! TLS: which clients get a connection, how long a handshake may take, and which certificate is shown.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use plantd_tests::{
    CONFIGURATION, Connection, IO, IssuedCertificate, Launch, ServerAddress, TOKEN, TestServer,
    USAGE, at_once, chain_path, create_request, key_path, make_pipe, paste, plant_body, raw_head,
    replace_file, shown_command, wait_for, wait_until,
};
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, AlertDescription, ClientConfig, Error, ProtocolVersion};

use crate::transport::{Site, read_request, unix_launch, wait_for_refusal};

/// A file with the certificate of the authority.
fn roots(site: &Site) -> String {
    let path = site.folder.path().join("roots.pem");
    replace_file(&path, &site.authority.pem());
    path.into_os_string().into_string().expect("UTF-8")
}

/// The TLS error of a failed handshake.
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
fn alpn_selects_http_1_1_and_refuses_a_client_that_speaks_only_http_2() {
    let site = Site::new();
    let server = site.start_tls();
    for (version, name) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
    {
        for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
            let mut connection = server.connect_tls(&site.authority.client(&[version], protocols));
            assert_eq!(connection.agreed(), (Some(name), Some(&b"http/1.1"[..])));
        }
    }
    assert_eq!(server.connect_tls(&site.client()).agreed().1, None);

    let client = site.authority.client(ALL_VERSIONS, &["h2"]);
    let error = tls_error(Connection::open_tls(server.address(), &client));
    assert_eq!(error, Error::AlertReceived(AlertDescription::NoApplicationProtocol));
}

#[test]
fn a_client_without_tls_is_turned_away_and_fills_no_log() {
    let site = Site::new();
    let mut server = site.start_tls();
    for bytes in [
        &b"GET /livez HTTP/1.1\r\nHost: plants\r\n\r\n"[..],
        b"\r\n\r\n",
        b"SSH-2.0-scanner\r\n",
        &[0; 300],
        // An invalid handshake.
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ] {
        let mut connection = server.connect();
        connection.send(bytes);
        // A TLS alert may arrive, but no answer.
        connection.wait_for_close();
    }
    drop(server.connect());
    let mut connection = server.connect();
    connection.send(b"\x16\x03\x01");
    connection.finish_sending();
    connection.wait_for_close();

    let client = server.tls_client(&site.authority);
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.stderr();
    let is_of_the_server =
        |line: &str| [" serves ", " draining", " closed"].iter().any(|words| line.contains(words));
    let lines: Vec<&str> = log.lines().filter(|line| !is_of_the_server(line)).collect();
    assert!(matches!(lines[..], [line] if line.contains("POST /plants 200")), "{log}");
}

#[test]
fn a_handshake_or_a_record_that_does_not_end_is_cut_off_and_delays_no_other_client() {
    let site = Site::new();
    let server = site.start_tls();
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.send(b"\x16\x03\x01\x02");
    let mut trickling = server.connect();
    // A record that is longer than all trickled bytes.
    trickling.send(b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb");
    for id in 1..10 {
        let client = server.tls_client(&site.authority);
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
    }
    silent.assert_silent_for(Duration::from_millis(1));
    // After a request, the beginning of a record with a whole head.
    let mut later = server.connect_tls(&site.client());
    later.send(read_request(-1));
    later.receive().assert_error(404, 3002);
    let sealed = later.seal(raw_head("GET /livez", &format!("X: {}\r\n", "x".repeat(2000))));
    let mut record = sealed.chunks(1);
    let (mut handshake_ended, mut record_ended) = (false, false);
    wait_until("the end of a handshake and of a record that trickle", || {
        thread::sleep(Duration::from_millis(50));
        handshake_ended = handshake_ended || trickling.try_send(b"x").is_err();
        record_ended = record_ended || {
            let byte = record.next().expect("the record is longer than the server waits");
            later.send_sealed(byte).is_err()
        };
        handshake_ended && record_ended
    });
    silent.wait_for_close();
    slow.wait_for_close();
}

#[test]
fn a_drain_answers_a_request_whose_record_arrived_in_part_and_waits_for_no_handshake() {
    let site = Site::new();
    let launch = Launch::new().tls(site.folder.path()).arguments(["--drain-timeout", "60s"]);
    let mut server = TestServer::start_with(launch);
    // The deadline of this head is the time to compare with. It begins before those of the handshakes, which are as
    // long.
    let mut part_of_a_record = server.connect_tls(&site.client());
    part_of_a_record.send(read_request(3));
    part_of_a_record.receive().assert_error(404, 3002);
    let sealed = part_of_a_record.seal(create_request(&plant_body(2, "Abies", None)));
    part_of_a_record.send_sealed(&sealed[..20]).expect("the server takes it");
    let mut silent = server.connect();
    let mut begun = server.connect();
    begun.send(b"\x16\x03\x01\x02");

    server.process().send_terminate();
    wait_for_refusal(&server);
    silent.wait_for_close();
    begun.wait_for_close();
    part_of_a_record.send_sealed(&sealed[20..]).expect("the server takes it");
    part_of_a_record.receive().assert_plant("Abies", None);
    part_of_a_record.assert_closed();
    assert_eq!(server.process().wait_for_exit().code(), Some(0));

    server.restart();
    server.tls_client(&site.authority).read(2).assert_new_plant(2, "Abies", None);
}

#[test]
fn a_handshake_counts_as_a_connection() {
    let site = Site::new();
    // 128 descriptors are reserved for uses other than connections.
    let mut server =
        TestServer::start_with(Launch::new().tls(site.folder.path()).descriptor_limits(132, 132));
    let mut kept = server.connect_tls(&site.client());
    kept.send(create_request(&plant_body(1, "Rosa", None)));
    kept.receive().assert_plant("Rosa", None);
    let before = server.process().sockets();
    let _in_handshake: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    wait_until("all of them to be taken", || server.process().sockets() == before + 3);
    // This connection waits until one of the handshakes is cut off.
    let mut connection = server.connect_tls(&site.client());
    assert!(server.process().sockets() <= before + 3, "there are more connections than may be");
    wait_until("the log line", || server.stderr().contains("4 connections are open; others wait"));
    connection.send(read_request(1));
    connection.receive().assert_new_plant(1, "Rosa", None);
}

#[test]
fn import_and_export_move_plants_over_tls_when_they_trust_the_authority() {
    let site = Site::new();
    let server = site.start_tls();
    let url = format!("https://{}", server.address());
    let rows = "{\"id\":1,\"name\":\"Rosa\"}\n{\"id\":2,\"name\":\"Abies\"}\n";
    let path = site.folder.path().join("plants.ndjson");
    fs::write(&path, rows).expect("a file can be written");
    let roots = roots(&site);
    let import = Launch::new().arguments(["import", "--url", &url, path.to_str().expect("UTF-8")]);
    let export = |url: &str, roots: &str| {
        Launch::new()
            .arguments(["export", "--url", url])
            .environment("SSL_CERT_FILE", roots)
            .environment("SSL_CERT_DIR", "/missing")
    };
    let other_name = url.replace("127.0.0.1", "[::ffff:127.0.0.1]");
    let no_trust = ["does not trust the certificate", "SSL_CERT_FILE", "UnknownIssuer"];
    for (launch, words) in [
        (&import, &no_trust[..]),
        (&export(&other_name, &roots), &["is for another name", "--url"]),
        (&export(&url, "/missing"), &["there are no certificates", "SSL_CERT_FILE"]),
        (&export(&url, "/dev/null"), &["there are no certificates", "SSL_CERT_FILE"]),
    ] {
        let said = launch.assert_refused(IO, words);
        assert!(said.lines().count() == 1 && !said.contains("cannot reach"), "{said}");
        assert!(!said.contains(TOKEN), "{said}");
    }
    import.environment("SSL_CERT_FILE", &roots).spawn().assert_exit_code(0);
    let mut process = export(&url, &roots).spawn();
    process.assert_exit_code(0);
    assert_eq!(process.stdout(), rows);
}

/// The certificate shown to a new connection with a full handshake.
fn shown(server: &TestServer, client: &Arc<ClientConfig>) -> Vec<u8> {
    let (certificate, is_new) = server.connect_tls(client).certificate();
    assert!(is_new, "a session went on");
    certificate.to_vec()
}

#[track_caller]
fn wait_until_shown(server: &TestServer, site: &Site, certificate: &IssuedCertificate) {
    wait_until("the new certificate to be shown", || {
        shown(server, &site.client()) == certificate.der.as_ref()
    });
}

#[test]
fn a_certificate_that_changes_is_shown_to_new_connections_and_the_open_ones_go_on() {
    let site = Site::new();
    let mut server = site.start_tls();
    let mut open = server.connect_tls(&site.client());
    assert_eq!(open.certificate().0, site.certificate.der);
    // A client that resumes its session if it can.
    let returning = site.client();
    for is_new in [true, false] {
        let mut connection = server.connect_tls(&returning);
        assert_eq!(connection.certificate(), (site.certificate.der.clone(), is_new));
        // The first answer brings the ticket that resumes the session.
        connection.send(read_request(1));
        connection.receive().assert_error(404, 3002);
    }

    let renewed = site.authority.issue();
    renewed.write(site.folder.path());
    wait_until_shown(&server, &site, &renewed);
    let mut connection = server.connect_tls(&returning);
    assert_eq!(connection.certificate(), (renewed.der.clone(), true), "the old session goes on");
    connection.send(create_request(&plant_body(1, "Rosa", None)));
    connection.receive().assert_plant("Rosa", None);
    open.send(read_request(1));
    open.receive().assert_new_plant(1, "Rosa", None);

    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(server.stderr().matches("the TLS certificate changed").count(), 1);
}

#[track_caller]
fn assert_key_is_not_told(key: &str, said: &str) {
    for secret in key.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!said.contains(secret), "the message shows the key: {said}");
    }
}

#[test]
fn broken_files_leave_the_last_certificate_in_force_and_the_log_says_so() {
    let site = Site::new();
    let server = site.start_tls();
    let folder = site.folder.path();
    let another = site.authority.issue();
    let mut told = 0;
    let mut break_with = |breaks: &dyn Fn()| {
        breaks();
        told += 1;
        let log = wait_for("the log to say that the files are broken", || {
            let log = server.stderr();
            (log.matches("what was in force stays in force").count() == told).then_some(log)
        });
        assert_eq!(shown(&server, &site.client()), site.certificate.der.as_ref());
        let line = log.lines().rfind(|line| line.contains("stays in force")).expect("the line");
        assert!(line.contains(folder.to_str().expect("UTF-8")), "{line}");
        for certificate in [&site.certificate, &another] {
            assert_key_is_not_told(&certificate.key, &log);
        }
    };
    break_with(&|| replace_file(&chain_path(folder), "no certificate"));
    break_with(&|| fs::remove_file(chain_path(folder)).expect("a file can be removed"));
    break_with(&|| replace_file(&chain_path(folder), &another.chain));
    break_with(&|| replace_file(&key_path(folder), "-----BEGIN PRIVATE KEY-----\nAAAA\n"));

    another.write(folder);
    wait_until_shown(&server, &site, &another);
}

#[test]
fn a_certificate_below_a_link_is_shown_as_soon_as_the_link_changes() {
    let site = Site::new();
    let folder = site.folder.path();
    let (first, second) = (folder.join("first"), folder.join("second"));
    let current = folder.join("current");
    let renewed = site.authority.issue();
    for (path, certificate) in [(&first, &site.certificate), (&second, &renewed)] {
        fs::create_dir(path).expect("a folder can be made");
        certificate.write(path);
    }
    symlink(&first, &current).expect("a link can be made");
    let server = TestServer::start_with(Launch::new().tls(&current));
    assert_eq!(shown(&server, &site.client()), site.certificate.der.as_ref());

    let next = folder.join("next");
    symlink(&second, &next).expect("a link can be made");
    fs::rename(next, &current).expect("a link can be renamed");
    wait_until_shown(&server, &site, &renewed);
}

/// Asserts that a start with these files fails, names the file, creates no folder, and reveals nothing of a key.
#[track_caller]
fn check_refusal(site: &Site, exit_code: i32, file: &Path, word: &str) {
    let data = site.folder.path().join("data");
    let launch = Launch::new().tls(site.folder.path()).data(&data);
    let said = launch.assert_refused(exit_code, &[file.to_str().expect("UTF-8"), word]);
    assert_key_is_not_told(&site.certificate.key, &said);
    assert!(!data.exists(), "the server made the folder");
}

#[test]
fn unusable_files_end_a_start_and_the_message_says_what_to_do() {
    let site = Site::new();
    let folder = site.folder.path();
    let (chain, key) = (chain_path(folder), key_path(folder));
    let IssuedCertificate { chain: good_chain, key: good_key, .. } = &site.certificate;
    let another = site.authority.issue();

    for (path, good) in [(&chain, good_chain), (&key, good_key)] {
        fs::remove_file(path).expect("a file can be removed");
        check_refusal(&site, IO, path, "check the path");
        fs::create_dir(path).expect("a folder can be made");
        check_refusal(&site, CONFIGURATION, path, "is not a file");
        fs::remove_dir(path).expect("a folder can be removed");
        // The server does not wait for a pipe.
        make_pipe(path);
        check_refusal(&site, CONFIGURATION, path, "is not a file");
        replace_file(path, &" ".repeat(1024 * 1024 + 1));
        check_refusal(&site, CONFIGURATION, path, "1048576 bytes");
        replace_file(path, good);
    }
    let broken_chain = good_chain.replacen('M', "!", 1);
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let encrypted = good_key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let broken_key = good_key.replacen("-----END", "-----BEGIN", 1);
    let garbled_key = good_key.replacen('M', "!", 1);
    let short_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (path, text, word) in [
        (&chain, "", "BEGIN CERTIFICATE"),
        (&chain, "no certificate", "BEGIN CERTIFICATE"),
        (&chain, good_key, "BEGIN CERTIFICATE"),
        (&chain, &broken_chain, "broken PEM"),
        (&chain, no_der, "cannot be read"),
        (&chain, &another.chain, "the key is not that of the certificate"),
        (&chain, &site.authority.pem(), "the key is not that of the certificate"),
        (&key, "", "PKCS#8"),
        (&key, "no key", "PKCS#8"),
        (&key, good_chain, "PKCS#8"),
        (&key, &encrypted, "not encrypted"),
        (&key, &broken_key, "broken PEM"),
        (&key, &garbled_key, "broken PEM"),
        (&key, short_key, "Ed25519"),
        (&key, &another.key, "the key is not that of the certificate"),
    ] {
        site.certificate.write(folder);
        replace_file(path, text);
        check_refusal(&site, CONFIGURATION, path, word);
    }
}

#[test]
fn keys_are_accepted_in_every_usual_format() {
    let forms = [
        ("RSA", "rsa_keygen_bits:2048", &["-traditional"][..], "-----BEGIN RSA PRIVATE KEY"),
        ("RSA", "rsa_keygen_bits:2048", &[], "-----BEGIN PRIVATE KEY"),
        ("EC", "ec_paramgen_curve:P-256", &["-traditional"], "-----BEGIN EC PRIVATE KEY"),
        ("EC", "ec_paramgen_curve:P-384", &[], "-----BEGIN PRIVATE KEY"),
    ];
    at_once(&forms, |(algorithm, option, form, begins_with)| {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let openssl = |arguments: &[&str]| {
            let output = Command::new("openssl").args(arguments).current_dir(&folder).output();
            let output = output.expect("install openssl, or run `cargo xtask test`, which does");
            assert!(output.status.success(), "{output:?}");
        };
        openssl(&["genpkey", "-algorithm", algorithm, "-pkeyopt", option, "-out", "made.pem"]);
        openssl(&[&["pkey", "-in", "made.pem", "-out", "privkey.pem"][..], form].concat());
        let names = "subjectAltName=IP:127.0.0.1";
        let request = ["req", "-x509", "-key", "made.pem", "-out", "fullchain.pem"];
        openssl(&[&request[..], &["-subj", "/CN=plants", "-addext", names]].concat());
        let text = fs::read_to_string(key_path(folder.path())).expect("a file can be read");
        assert!(text.starts_with(begins_with), "another form than the test wants");

        let server = TestServer::start_with(Launch::new().tls(folder.path()));
        let chain = chain_path(folder.path());
        let url = format!("https://{}/livez", server.address());
        let output = curl(&["--cacert", chain.to_str().expect("UTF-8"), &url, "-f"]);
        assert!(output.status.success(), "{output:?}");
    });
}

#[test]
fn one_file_may_hold_both_the_certificate_and_the_key() {
    let site = Site::new();
    let path = chain_path(site.folder.path());
    let IssuedCertificate { chain, key, .. } = &site.certificate;
    for text in [format!("{key}{chain}"), format!("{chain}{key}")] {
        replace_file(&path, &text);
        let launch = Launch::new().tls(site.folder.path()).environment("PLANTD_TLS_KEY", &path);
        let server = TestServer::start_with(launch);
        let client = server.tls_client(&site.authority);
        client.create(1, "Rosa", None).assert_plant("Rosa", None);
    }
}

#[test]
fn a_key_that_others_can_read_causes_a_warning_whose_advice_helps() {
    let site = Site::new();
    let key = key_path(site.folder.path());
    for (mode, is_warned_of) in [(0o600, false), (0o640, false), (0o644, true), (0o602, true)] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).expect("permissions can be set");
        let mut server = site.start_tls();
        assert_eq!(server.terminate().code(), Some(0));
        let log = server.stderr();
        let command = log.split_once("run: ").map(|(_, rest)| rest.lines().next().expect("a line"));
        assert_eq!(command.is_some(), is_warned_of, "{mode:o}: {log}");
        if let Some(command) = command {
            let status = Command::new("sh").args(["-c", command]).status();
            assert!(status.expect("a shell").success(), "{command}");
            assert_eq!(plantd_tests::mode(&key) & 0o007, 0, "{command}");
        }
    }
}

#[test]
fn a_certificate_without_a_key_is_refused_and_so_is_tls_on_a_unix_socket() {
    let site = Site::new();
    let folder = site.folder.path();
    let (chain, key) = (chain_path(folder), key_path(folder));
    let [chain, key] = [&chain, &key].map(|path| path.to_str().expect("UTF-8"));
    let data = folder.join("data");
    let plain = Launch::new().data(&data);
    let unix = unix_launch(&site.socket()).data(&data);
    let unix_flag = format!("unix:{}", site.socket().display());
    let certificate = plain.clone().environment("PLANTD_TLS_CERT", chain);
    let both = &["--tls-cert", "--tls-key"][..];
    let flags = ["--tls-cert", chain, "--tls-key", key];
    for (launch, exit_code, words) in [
        (plain.clone().arguments(["--tls-cert", chain]), USAGE, both),
        (plain.clone().arguments(["serve", "--tls-key", key]), USAGE, both),
        (certificate.clone(), CONFIGURATION, both),
        (plain.clone().environment("PLANTD_TLS_KEY", key), CONFIGURATION, both),
        (unix.clone().arguments(flags), USAGE, &["TCP"]),
        (plain.tls(folder).arguments(["--listen", &unix_flag]), USAGE, &["TCP"]),
        (unix.tls(folder), CONFIGURATION, &["TCP"]),
    ] {
        launch.assert_refused(exit_code, words);
        assert!(!data.exists(), "the server made the folder");
    }
    // The certificate may come from the environment and the key from a flag.
    let mut process = certificate.arguments(["--tls-key", key]).spawn();
    assert!(matches!(process.server_address(), ServerAddress::Https(_)));
}

#[test]
fn the_command_that_the_first_start_shows_creates_a_plant_on_each_transport_and_in_any_folder() {
    let name = "it's a \"folder\" of $HOME; `plants` & \\more*";
    let site = Site::new();
    let folder = site.folder.path().join(name);
    fs::create_dir(&folder).expect("a folder can be made");
    site.certificate.write(&folder);
    for launch in [Launch::new(), Launch::new().tls(&folder), unix_launch(&folder.join("socket"))] {
        let launch = launch.without_environment("PLANTD_TOKEN");
        for data in ["data", name] {
            let server = TestServer::start_prepared(launch.clone(), data, |_| {});
            let command = shown_command(&server);
            let output = paste(&command);
            let expected = br#"{"name":"Rosa canina","tag":"Rosaceae"}"#;
            assert_eq!(output.stdout, expected, "{command}: {output:?}");
        }
    }
}

#[test]
fn a_server_that_others_can_reach_without_tls_warns_of_that_once() {
    let site = Site::new();
    for (launch, listen, expected) in [
        (Launch::new(), "0.0.0.0:0", 1),
        (Launch::new(), "127.0.0.1:0", 0),
        (Launch::new(), "127.8.9.10:0", 0),
        (Launch::new().tls(site.folder.path()), "0.0.0.0:0", 0),
        (Launch::new(), &format!("unix:{}", site.socket().display()), 0),
    ] {
        let mut server = TestServer::start_with(launch.arguments(["--listen", listen]));
        assert_eq!(server.terminate().code(), Some(0));
        let log = server.stderr();
        let is_warning = |line: &&str| line.contains("WARN") && line.contains("tokens");
        let warnings: Vec<&str> = log.lines().filter(is_warning).collect();
        assert_eq!(warnings.len(), expected, "{listen}: {log}");
        for line in warnings {
            assert!(line.contains("--tls-cert") && line.contains("proxy"), "{line}");
        }
    }
}
