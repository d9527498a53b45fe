//! The files of the pages: they are served whole and without a token, their policy allows little, and a browser that
//! has cached them does not download them again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use plant_http::internal::routes;
use plantd_tests::{Answer, TestServer, Toolbox, repository};
use socket2::{Domain, Socket, Type};

/// The limit for the page for people with its scripts, uncompressed.
const APP_MAX_BYTES: usize = 153_000;

/// The policy of the page at `/`. To allow more, change it here too.
const APP_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types lit-html";

/// The policy of the page at `/docs`.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The npm packages whose files `crates/plant-http/web` contains, and these files.
const VENDORED: [(&str, &str, &[&str]); 2] = [
    (
        "docs/swagger-ui",
        "swagger-ui-dist",
        &[
            "LICENSE",
            "NOTICE",
            "swagger-ui-bundle.js",
            "swagger-ui-bundle.js.LICENSE.txt",
            "swagger-ui.css",
        ],
    ),
    (
        "app/lit-html",
        "lit-html",
        &["LICENSE", "directive-helpers.js", "directive.js", "directives/repeat.js", "lit-html.js"],
    ),
];

const LARGE_FILE: &str = "/docs/swagger-ui-bundle.js";

/// The paths of both pages and of their files.
fn files() -> Vec<&'static str> {
    let is_file = |path: &&str| *path == "/docs" || path.starts_with("/docs/") || is_of_app(path);
    let files = routes().into_iter().map(|route| route.path).filter(is_file);
    // This path only redirects to the page.
    files.filter(|path| *path != "/docs/").collect()
}

/// Whether a path is the page for people or one of its files.
fn is_of_app(path: &str) -> bool {
    path == "/" || path.starts_with("/app/")
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        None => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some(other) => panic!("say which type {other} has"),
    }
}

/// The answer to a GET without a token.
#[track_caller]
fn get(server: &TestServer, path: &str, lines: &str) -> Answer {
    let mut connection = server.connect();
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: plants\r\n{lines}\r\n"));
    connection.receive()
}

#[track_caller]
fn text(server: &TestServer, path: &str) -> String {
    String::from_utf8(get(server, path, "").body).expect("the file is UTF-8")
}

#[track_caller]
fn assert_policy(path: &str, answer: &Answer) {
    let policy = if is_of_app(path) { APP_POLICY } else { DOCS_POLICY };
    assert_eq!(answer.header("content-security-policy"), Some(policy), "{path}");
}

/// The values of an attribute, which are in double quotes.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    page.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

#[test]
fn the_files_need_no_token_and_state_their_type_and_policy() {
    let server = TestServer::start();
    for path in files() {
        let answer = get(&server, path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(content_type(path)), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_policy(path, &answer);
        server.connect().assert_head_is_like_get(path, "");
    }
    assert!(text(&server, "/").contains("<title>Plant Store</title>"));
    assert!(text(&server, "/docs").contains("<title>Plant Store API</title>"));
}

#[test]
fn the_files_of_libraries_are_those_of_their_npm_packages() {
    for (folder, package, files) in VENDORED {
        let ours = repository("crates/plant-http/web").join(folder);
        let theirs = Toolbox::node().folder().join("node_modules").join(package);
        for file in files {
            let read = |folder: &Path| fs::read(folder.join(file)).expect("the file can be read");
            // `assert_eq!` would print both files, of up to 1.5 MB.
            assert!(read(&ours) == read(&theirs), "copy {file} from {}", theirs.display());
        }
    }
}

#[test]
fn the_page_for_people_is_small() {
    let server = TestServer::start();
    let paths = files().into_iter().filter(|path| is_of_app(path));
    let size: usize = paths.map(|path| get(&server, path, "").body.len()).sum();
    assert!(size <= APP_MAX_BYTES, "{size} bytes");
}

/// The browser scripts fail on requests to other hosts and on violations of the policy.
#[test]
fn the_pages_refer_only_to_their_files_and_to_each_other() {
    let server = TestServer::start();
    for page in ["/", "/docs"] {
        let text = text(&server, page);
        let references = [values(&text, "src"), values(&text, "href")].concat();
        assert!(references.len() > 2, "{page}: {references:?}");
        for reference in references.into_iter().filter(|it| !it.starts_with("data:")) {
            // Relative, because a proxy may add a path prefix.
            let path = format!("/{}", reference.trim_start_matches("./"));
            let is_ours = files().contains(&path.as_str()) || path == "/openapi.json";
            assert!(is_ours, "{page} refers to {reference}");
        }
    }
}

#[test]
fn a_cached_file_is_not_sent_again_and_keeps_its_policy() {
    let server = TestServer::start();
    let mut tags = Vec::new();
    for path in files() {
        let tag = get(&server, path, "").header("etag").unwrap_or_default().to_owned();
        assert!(tag.len() > 10 && tag.starts_with('"') && tag.ends_with('"'), "{path}: {tag}");
        for sent in [&tag, &format!("W/{tag}"), &format!("\"other\", {tag}"), "*"] {
            let unchanged = get(&server, path, &format!("If-None-Match: {sent}\r\n"));
            assert_eq!(unchanged.status, 304, "{path}: {sent}");
            assert_eq!(unchanged.header("etag"), Some(tag.as_str()), "{path}");
            // A browser replaces the cached policy by this one.
            assert_policy(path, &unchanged);
        }
        for sent in ["\"other\"", "\"1\""] {
            let answer = get(&server, path, &format!("If-None-Match: {sent}\r\n"));
            assert_eq!(answer.status, 200, "{path}: {sent}");
        }
        get(&server, path, "If-None-Match: other\r\n").assert_error(400, 1007);
        assert!(!tags.contains(&tag), "{path} has the tag of another file: {tag}");
        tags.push(tag);
    }
}

#[test]
fn a_client_without_a_token_that_reads_nothing_costs_little_memory() {
    const CLIENTS: u32 = 64;
    let mut server = TestServer::start();
    let size_kib = get(&server, LARGE_FILE, "").body.len() / 1024;
    assert!(size_kib > 1024, "{size_kib} KiB are too few to see a difference");
    let before = server.process().resident_kib();
    let address = server.address().into();
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            // Like a network: by default, the loopback interface would buffer the whole file.
            socket.set_recv_buffer_size(4096).expect("a small buffer");
            socket.set_tcp_mss(1460).expect("small segments");
            socket.connect(&address).expect("a connection");
            let mut client = TcpStream::from(socket);
            let request = format!("GET {LARGE_FILE} HTTP/1.1\r\nHost: plants\r\n\r\n");
            client.write_all(request.as_bytes()).expect("a request");
            let mut begin = [0; 12];
            client.read_exact(&mut begin).expect("an answer");
            assert_eq!(&begin, b"HTTP/1.1 200");
            client
        })
        .collect();
    let more_kib = server.process().resident_kib().saturating_sub(before);
    let each_kib = more_kib / u64::from(CLIENTS);
    assert!(each_kib < 256, "{each_kib} KiB for each client, of a file with {size_kib} KiB");
    drop(clients);
}
