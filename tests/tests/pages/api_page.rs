//! `/docs`, the page of the API: it is served whole and without a token, and its policy allows little.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use plantd_tests::{Answer, TOKEN, TestServer, Toolbox, repository, run_tool};
use socket2::{Domain, Socket, Type};

const PAGE: &str = "/docs";

/// The page and its files, with their content types.
const FILES: [(&str, &str); 6] = [
    (PAGE, "text/html; charset=utf-8"),
    ("/docs/page.js", "text/javascript; charset=utf-8"),
    ("/docs/page.css", "text/css; charset=utf-8"),
    ("/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    ("/docs/swagger-ui-bundle.js.LICENSE.txt", "text/plain; charset=utf-8"),
    ("/docs/swagger-ui.css", "text/css; charset=utf-8"),
];

/// The files that `crates/plant-http` has from the npm package `swagger-ui-dist`.
const VENDORED: [&str; 5] = [
    "LICENSE",
    "NOTICE",
    "swagger-ui-bundle.js",
    "swagger-ui-bundle.js.LICENSE.txt",
    "swagger-ui.css",
];

const LARGE_FILE: &str = "/docs/swagger-ui-bundle.js";

/// What the page may do. To allow more, change it here too.
const POLICY: [&str; 8] = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
];

/// The answer to a GET without a token.
#[track_caller]
fn get(server: &TestServer, path: &str, lines: &str) -> Answer {
    let mut connection = server.connect();
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: plants\r\n{lines}\r\n"));
    connection.receive()
}

#[track_caller]
fn assert_policy(answer: &Answer) {
    let policy = answer.header("content-security-policy").unwrap_or_default();
    assert_eq!(policy.split("; ").collect::<Vec<&str>>(), POLICY, "{:?}", answer.headers);
}

fn page(server: &TestServer) -> String {
    String::from_utf8(get(server, PAGE, "").body).expect("the page is UTF-8")
}

/// The values of an attribute, which are in double quotes.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    page.split(&begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

#[test]
fn the_page_and_its_files_need_no_token_and_say_what_they_are_and_may_do() {
    let server = TestServer::start();
    for (path, content_type) in FILES {
        let answer = get(&server, path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(content_type), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_policy(&answer);
        server.connect().assert_head_is_like_get(path, "");
    }
    assert!(page(&server).contains("<title>Plant Store API</title>"));
}

/// In the browser below, a request to elsewhere and all that the policy forbids is a complaint.
#[test]
fn the_files_of_swagger_ui_are_those_of_its_npm_package() {
    let ours = repository("crates/plant-http/swagger-ui");
    let theirs = Toolbox::node().folder().join("node_modules/swagger-ui-dist");
    for file in VENDORED {
        let read = |folder: &Path| fs::read(folder.join(file)).expect("the file can be read");
        // Without the text: the bundle has a megabyte and a half.
        assert!(read(&ours) == read(&theirs), "copy {file} from {}", theirs.display());
    }
}

#[test]
fn the_page_refers_only_to_its_files() {
    let server = TestServer::start();
    let page = page(&server);
    let references = [values(&page, "src"), values(&page, "href")].concat();
    // Relative, because a proxy may put a path before ours.
    let mut files: Vec<&str> =
        references.into_iter().filter(|reference| !reference.starts_with("data:")).collect();
    files.sort_unstable();
    let names = ["page.css", "page.js", "swagger-ui-bundle.js", "swagger-ui.css"];
    assert_eq!(files, names.map(|name| format!("docs/{name}")));
    for file in files {
        assert_eq!(get(&server, &format!("/{file}"), "").status, 200, "{file}");
    }
}

#[test]
fn the_addresses_that_people_type_redirect_to_the_page_without_a_token() {
    let server = TestServer::start();
    for (path, location) in [("/", "docs"), ("/docs/", "../docs")] {
        for method in ["GET", "HEAD"] {
            let mut connection = server.connect();
            connection.send(format!("{method} {path} HTTP/1.1\r\nHost: plants\r\n\r\n"));
            let answer = connection.receive_head();
            assert_eq!(answer.status, 307, "{method} {path}");
            // Relative, because a proxy may put a path before ours.
            assert_eq!(answer.header("location"), Some(location), "{method} {path}");
        }
    }
}

#[test]
fn in_a_browser_the_page_hides_the_token_deletes_nothing_by_one_click_and_fits_a_phone() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let tools = Toolbox::node();
    let mut node = tools.command("node");
    node.arg(repository("tests/browser/docs.js"))
        .env("NODE_PATH", tools.folder().join("node_modules"))
        .env("PLANTS_URL", format!("http://{}", server.address()))
        .env("PLANTS_TOKEN", TOKEN);
    run_tool(&mut node);
    server.client().read(1).assert_error(404, 3002);
}

#[test]
fn a_file_that_a_browser_has_does_not_come_again_and_keeps_its_policy() {
    let server = TestServer::start();
    let mut tags = Vec::new();
    for (path, _) in FILES {
        let tag = get(&server, path, "").header("etag").unwrap_or_default().to_owned();
        assert!(tag.len() > 10 && tag.starts_with('"') && tag.ends_with('"'), "{path}: {tag}");
        for sent in [&tag, &format!("W/{tag}"), &format!("\"other\", {tag}"), "*"] {
            let unchanged = get(&server, path, &format!("If-None-Match: {sent}\r\n"));
            assert_eq!(unchanged.status, 304, "{path}: {sent}");
            assert_eq!(unchanged.header("etag"), Some(tag.as_str()), "{path}");
            // A browser replaces its policy by this one.
            assert_policy(&unchanged);
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
            // As over a network: by default the loopback interface would take all of the file.
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
