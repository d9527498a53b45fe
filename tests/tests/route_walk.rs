//! Requests every route of the router with every bad credential, and so any new route too.

use std::collections::BTreeSet;

use plant_http::Scope;
use plant_http::internal::routes;
use plantd_tests::{
    Answer, TOKEN, TestServer, batch_body, create_token, plant_body, revoke_token, wait_until,
};

/// The paths that need no token, because they are not operations of the store. A new one must be added here.
const OPEN_PATHS: [&str; 6] = ["/", "/livez", "/readyz", "/openapi.json", "/docs", "/docs/"];

/// The folders of the files that the pages at `/` and `/docs` load, which need no token either.
const OPEN_FOLDERS: [&str; 2] = ["/app/", "/docs/"];

/// Whether a route may be open.
fn may_be_open(path: &str) -> bool {
    OPEN_PATHS.contains(&path) || OPEN_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// All methods but OPTIONS, which needs no token, and two methods that no route has.
const ALL_METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"];
/// Paths that are not served but need a token all the same.
const UNKNOWN_PATHS: [&str; 9] = [
    "/app/nothing",
    "//",
    "/nowhere",
    "/plants/",
    "/plants/1/2",
    "//plants",
    "/livez/",
    "/plants%2f1",
    "/docs/nothing",
];

const REALM: &str = r#"Bearer realm="plant-store""#;

/// The status, the error number, and the error code of the challenge (RFC 6750, section 3.1).
type Refusal = (u16, i32, Option<&'static str>);

const NONE: Refusal = (401, 2001, None);
const INVALID: Refusal = (401, 2002, Some("invalid_token"));
const TWO: Refusal = (400, 1007, Some("invalid_request"));
const TOO_LITTLE: Refusal = (403, 2003, Some("insufficient_scope"));

/// A credential that the gate refuses.
struct BadCredential {
    name: &'static str,
    query: String,
    /// Header lines, each with its line end.
    lines: Vec<u8>,
    refusal: Refusal,
}

/// A server, and good and bad credentials for it.
struct Walk {
    server: TestServer,
    scraper: String,
    keeper: String,
    reader: String,
    writer: String,
    bad: Vec<BadCredential>,
    /// More bad credentials, for one route only.
    odd: Vec<BadCredential>,
}

fn authorization(value: impl AsRef<[u8]>) -> Vec<u8> {
    [b"Authorization: ", value.as_ref(), b"\r\n"].concat()
}

fn bearer(token: &str) -> Vec<u8> {
    authorization(format!("Bearer {token}"))
}

impl Walk {
    fn new() -> Self {
        let server = TestServer::start();
        let token = |arguments: &[&str]| create_token(server.data(), arguments);
        let scraper = token(&["--name", "scraper", "--scope", "metrics"]);
        let keeper = token(&["--name", "keeper", "--scope", "backup"]);
        let reader = token(&["--name", "reader", "--scope", "read"]);
        let writer = token(&["--name", "writer", "--scope", "write"]);
        let revoked = token(&["--name", "revoked"]);
        let expired = token(&["--name", "expired", "--expires", "1s"]);
        let status = |token: &str| server.client().with_token(token).read(-1).status;
        wait_until("the tokens to be in force", || status(&revoked) == 404);
        server.client().with_token(&writer).create(1, "Rosa", None).assert_plant("Rosa", None);
        revoke_token(server.data(), &["revoked"]);
        wait_until("the tokens to be refused", || {
            [&revoked, &expired].iter().all(|token| status(token) == 401)
        });

        let bad =
            |name, lines, refusal| BadCredential { name, query: String::new(), lines, refusal };
        let last = writer.len() - 1;
        let other_end = if writer.ends_with('A') { "B" } else { "A" };
        let altered = format!("{}{other_end}", &writer[..last]);
        let not_utf8 = [b"Bearer ", writer.as_bytes(), b"\xff"].concat();
        let good = String::from_utf8(bearer(&writer)).expect("ASCII");
        let other_headers = format!("Cookie: token={writer}\r\nX-Token: {writer}\r\n");
        let of_a_proxy = format!("Proxy-Authorization: Bearer {writer}\r\n");
        let query = format!("?access_token={writer}");
        let nobody = "0123456789abcdef0123456789abcdef";
        let bad_credentials = vec![
            bad("none", Vec::new(), NONE),
            bad("another scheme", authorization(format!("Basic {writer}")), NONE),
            bad("no scheme", authorization(&writer), NONE),
            bad("an empty header", authorization(""), NONE),
            bad("a scheme alone", authorization("Bearer"), NONE),
            bad("a scheme and spaces", authorization("Bearer     "), NONE),
            BadCredential { query, ..bad("in the query", Vec::new(), NONE) },
            bad("in another header", other_headers.into(), NONE),
            bad("two headers", good.repeat(2).into(), TWO),
            bad("a space within", bearer(&writer.replacen('_', " ", 1)), INVALID),
            bad("two tokens in one header", bearer(&format!("{writer},{writer}")), INVALID),
            bad("not UTF-8", authorization(not_utf8), INVALID),
            bad("cut", bearer(&writer[..last]), INVALID),
            bad("altered by a character", bearer(&altered), INVALID),
            bad("in upper case", bearer(&writer.to_uppercase()), INVALID),
            bad("expired", bearer(&expired), INVALID),
            bad("revoked", bearer(&revoked), INVALID),
            bad("of nobody", bearer(nobody), INVALID),
        ];
        let odd = vec![
            bad("a longer scheme", authorization(format!("Bearers {writer}")), NONE),
            bad("no space", authorization(format!("Bearer{writer}")), NONE),
            bad("for a proxy", of_a_proxy.into(), NONE),
            bad("another token behind", format!("{good}authorization: Bearer x\r\n").into(), TWO),
            bad("another scheme before", format!("Authorization: Basic x\r\n{good}").into(), TWO),
            bad("text behind a space", bearer(&format!("{writer} x")), INVALID),
            bad("two tokens and a space", bearer(&format!("{writer}, {writer}")), INVALID),
            bad("in quotes", bearer(&format!("\"{writer}\"")), INVALID),
            bad("not ASCII", bearer("t\u{f6}ken"), INVALID),
            bad("a character", bearer("x"), INVALID),
            bad("long", bearer(&"x".repeat(4000)), INVALID),
            bad("cut in front", bearer(&writer[1..]), INVALID),
            bad("longer by a character", bearer(&format!("{writer}x")), INVALID),
            bad("of the environment and cut", bearer(&TOKEN[1..]), INVALID),
            bad("of the environment and longer", bearer(&format!("{TOKEN}x")), INVALID),
        ];
        Self { server, scraper, keeper, reader, writer, bad: bad_credentials, odd }
    }

    #[track_caller]
    fn send(&self, method: &str, target: &str, lines: &[u8]) -> Answer {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: plants\r\n");
        self.server.answer_to([head.as_bytes(), lines, b"\r\n"].concat())
    }

    #[track_caller]
    fn assert_refused(&self, method: &str, path: &str, bad: &BadCredential) {
        let answer = self.send(method, &format!("{path}{}", bad.query), &bad.lines);
        let case = format!("{method} {path} with a token that is {}", bad.name);
        let (status, number, code) = bad.refusal;
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        if method != "HEAD" {
            answer.assert_error(status, number);
        }
        let challenge = match code {
            None => REALM.to_owned(),
            Some(code) => format!("{REALM}, error=\"{code}\""),
        };
        assert_eq!(answer.header("www-authenticate"), Some(challenge.as_str()), "{case}");
    }

    /// Asserts that the request needs a token with this scope, or any token.
    #[track_caller]
    fn assert_guarded(&self, method: &str, path: &str, scope: Option<Scope>) {
        for bad in &self.bad {
            self.assert_refused(method, path, bad);
        }
        for (token, allowed) in [
            (&self.scraper, &[Scope::Metrics][..]),
            (&self.keeper, &[Scope::Metrics, Scope::Backup]),
            (&self.reader, &[Scope::Metrics, Scope::Read]),
        ] {
            if scope.is_none_or(|scope| allowed.contains(&scope)) {
                self.assert_let_in(method, path, token);
            } else {
                self.assert_refused(method, path, &too_little(token));
            }
        }
    }

    #[track_caller]
    fn assert_let_in(&self, method: &str, path: &str, token: &str) -> Answer {
        let answer = self.send(method, path, &bearer(token));
        assert!(![401, 403, 429].contains(&answer.status), "{method} {path}: {answer:?}");
        answer
    }
}

/// A credential with a token whose scope does not allow the request.
fn too_little(token: &str) -> BadCredential {
    let (name, query, lines) = ("one of a lesser scope", String::new(), bearer(token));
    BadCredential { name, query, lines, refusal: TOO_LITTLE }
}

/// The scope that a method needs at a path; `None` if a token of any scope will do.
fn scope_of(method: &str, path: &str) -> Option<Scope> {
    match (is_read(method), path) {
        (true, "/token") => None,
        (true, "/metrics") => Some(Scope::Metrics),
        (true, "/backup") => Some(Scope::Backup),
        (true, "/webhooks") => Some(Scope::Write),
        (true, _) => Some(Scope::Read),
        (false, _) => Some(Scope::Write),
    }
}

fn is_read(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

/// The path of a route with its parameters filled in.
fn target(path: &str) -> String {
    let target = path.replace("{id}", "1");
    assert!(!target.contains('{'), "say what stands for the parameters of {path}");
    target
}

#[test]
fn no_route_answers_without_a_token_of_its_scope() {
    let walk = Walk::new();
    let routes = routes();
    let open: BTreeSet<&str> =
        routes.iter().filter(|route| !route.needs_token).map(|route| route.path).collect();
    for route in &routes {
        assert!(ALL_METHODS.contains(&route.method.as_str()), "{route:?}");
        let is_open = may_be_open(route.path) && route.method == "GET";
        assert_eq!(route.needs_token, !is_open, "{route:?}");
        assert!(is_open || route.scope == scope_of(&route.method, route.path), "{route:?}");
    }
    let before = walk.send("GET", "/plants", &bearer(&walk.reader)).plants();
    let paths: BTreeSet<String> = routes.iter().map(|route| target(route.path)).collect();
    for method in ALL_METHODS {
        for path in paths.iter().map(String::as_str).chain(UNKNOWN_PATHS) {
            if !(open.contains(path) && is_read(method)) {
                walk.assert_guarded(method, path, scope_of(method, path));
            }
        }
    }
    assert_eq!(walk.send("GET", "/plants", &bearer(&walk.reader)).plants(), before);

    for odd in &walk.odd {
        walk.assert_refused("GET", "/plants/1", odd);
        walk.assert_refused("GET", "/plants/007", odd);
        walk.assert_refused("POST", "/plants", odd);
    }
    for scheme in ["bearer", "BEARER", "bEaReR"] {
        let lines = authorization(format!("{scheme} {}", walk.reader));
        assert_eq!(walk.send("GET", "/plants", &lines).plants(), before, "{scheme}");
    }
    // The scope `write` includes all others.
    for route in &routes {
        walk.assert_let_in(&route.method, &target(route.path), &walk.writer);
    }
}

#[test]
fn exactly_the_open_paths_need_no_token() {
    let walk = Walk::new();
    // The walk above asserts that no other route is open.
    let routes = routes().into_iter().filter(|route| !route.needs_token);
    let open: BTreeSet<&str> = routes.map(|route| route.path).collect();
    assert!(OPEN_PATHS.iter().all(|path| open.contains(path)), "{open:?}");
    for path in open {
        for method in ["GET", "HEAD"] {
            for bad in walk.bad.iter().chain([&too_little(&walk.reader)]) {
                let answer = walk.send(method, &format!("{path}{}", bad.query), &bad.lines);
                let is_open = [200, 307].contains(&answer.status);
                assert!(is_open, "{method} {path}, {}: {answer:?}", bad.name);
            }
        }
    }
}

#[test]
fn a_body_changes_nothing_without_a_token_that_may_write() {
    let walk = Walk::new();
    let plant = plant_body(2, "Salix", None);
    let put = r#"{"method":"PUT","path":"/plants/2","body":{"name":"Salix"}}"#;
    for (path, media_type, body) in [
        ("/plants", "application/json", &plant),
        ("/plants/import", "application/x-ndjson", &plant),
        ("/batch", "application/json", &batch_body(&[put])),
    ] {
        for bad in walk.bad.iter().chain([&too_little(&walk.reader)]) {
            for (expect, sent) in [("", body.as_str()), ("Expect: 100-continue\r\n", "")] {
                let line = format!("POST {path}{} HTTP/1.1\r\nHost: plants\r\n", bad.query);
                let length = format!("Content-Length: {}\r\n", body.len());
                let lines = format!("{line}Content-Type: {media_type}\r\n{length}{expect}");
                let request = [lines.as_bytes(), &bad.lines, b"\r\n", sent.as_bytes()].concat();
                let (status, number, _) = bad.refusal;
                walk.server.answer_to(request).assert_error(status, number);
            }
        }
    }
    walk.assert_let_in("GET", "/plants/2", &walk.reader).assert_error(404, 3002);
}

#[test]
fn an_encoded_path_needs_the_same_scope_whether_a_body_is_announced_or_not() {
    let walk = Walk::new();
    for expect in ["", "Expect: 100-continue\r\nContent-Length: 1\r\n"] {
        let lines = [bearer(&walk.scraper), expect.into()].concat();
        for path in ["/metrics", "/%6detrics"] {
            let answer = walk.send("GET", path, &lines);
            assert!([100, 200].contains(&answer.status), "{path} {expect}: {answer:?}");
        }
        for path in ["/plants", "/%70lants"] {
            walk.send("GET", path, &lines).assert_error(403, 2003);
        }
    }
}
