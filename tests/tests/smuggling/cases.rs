//! The cases: requests that two parsers may read differently, and plantd's answers to them.
//!
//! In the text of a case, `⏎` is a line end (CR LF), and these placeholders are replaced:
//!
//! - `{auth}`: the header line with the token.
//! - `{plant}`: the JSON of the plant that a case may create, of 24 bytes (hexadecimal 18).
//! - `{chunks}`: that JSON as a whole body in chunks.
//! - `{hidden}`: a whole request that deletes a plant and must never be carried out. `{hidden.length}` and
//!   `{hidden.size}` are its length in decimal and in hexadecimal.
//! - `{next}`: the hidden request, where a proxy may take it for its client's next request. It is not sent to a
//!   proxy.

use plantd_tests::{TOKEN, plant_body};

use Expected::{BrokenChunks, Continue, Created, Empty, Error, Head, ImportError, Options, Read};
use Then::{Closed, Kept, OldClosed, Unfinished};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The answer to a head that cannot be parsed: this status, and no body.
    Empty(u16),
    /// This status, and this error number in the body.
    Error(u16, i32),
    /// Error 1001, with a message about broken chunks.
    BrokenChunks,
    /// The answer to a create of `{plant}`.
    Created,
    /// The answer to an import that was cut off after it had created `{plant}`.
    ImportError,
    /// 200 and the plant with the id 1.
    Read,
    /// 200 without a body, to a HEAD.
    Head,
    /// 204, to an OPTIONS.
    Options,
    Continue,
}

/// The state of the connection after the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The text after the case is answered as a separate request, and the connection stays open.
    Kept,
    /// The last answer closes the connection, and nothing after the case is carried out.
    Closed,
    /// Like `Closed`, but for an HTTP/1.0 client, to which the close need not be announced.
    OldClosed,
    /// The server waits for more bytes, and answers when the client stops sending. The text after the case belongs to
    /// the request.
    Unfinished,
}

/// A text to send, and the expected answers.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    text: String,
    pub(crate) answers: Vec<Expected>,
    pub(crate) then: Then,
}

impl Case {
    /// The bytes for plantd, followed by `behind`.
    pub(crate) fn sent(&self, behind: &str) -> Vec<u8> {
        self.bytes("{hidden}", behind)
    }

    /// The bytes for a proxy, followed by `behind`.
    pub(crate) fn sent_to_proxy(&self, behind: &str) -> Vec<u8> {
        self.bytes("", behind)
    }

    fn bytes(&self, next: &str, behind: &str) -> Vec<u8> {
        let auth = format!("Authorization: Bearer {TOKEN}");
        let hidden = HIDDEN.replace('⏎', "\r\n").replace("{auth}", &auth);
        let plant = plant_body(100, "Rosa", None);
        assert_eq!(plant.len(), 24, "the cases give it another length");
        let mut text = self.text.clone();
        for (placeholder, value) in [
            ("{next}", next),
            ("{chunks}", "18⏎{plant}⏎0⏎⏎"),
            ("⏎", "\r\n"),
            ("{auth}", &auth),
            ("{plant}", &plant),
            ("{hidden}", &hidden),
            ("{hidden.length}", &hidden.len().to_string()),
            ("{hidden.size}", &format!("{:x}", hidden.len())),
        ] {
            text = text.replace(placeholder, value);
        }
        (text + behind).into_bytes()
    }

    /// Whether the case may leave `{plant}` behind.
    pub(crate) fn may_create(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Created | ImportError))
    }
}

/// The request that must never be carried out.
const HIDDEN: &str = "DELETE /plants/1 HTTP/1.1⏎Host: plants⏎{auth}⏎⏎";

/// The end of a create, with its body.
const PLANT_BODY: &str = "Content-Length: 24⏎⏎{plant}";

/// The end of a request whose body is the hidden request.
const HIDDEN_BODY: &str = "Content-Length: {hidden.length}⏎⏎{hidden}";

/// The same with a client that waits for 100 before it sends the body.
const EXPECT_HIDDEN_BODY: &str = "Expect: 100-continue⏎Content-Length: {hidden.length}⏎⏎{hidden}";

/// The end of a request with a body, followed by the hidden request.
const NEXT_BEHIND_BODY: &str = "Content-Length: 2⏎⏎{}{next}";
const NEXT_BEHIND_CHUNKS: &str = "Transfer-Encoding: chunked⏎⏎2⏎{}⏎0⏎⏎{next}";

fn case<const N: usize>(
    name: &'static str,
    text: impl Into<String>,
    answers: [Expected; N],
    then: Then,
) -> Case {
    Case { name, text: text.into(), answers: answers.to_vec(), then }
}

/// A request with one answer, after which the connection stays open.
fn kept(name: &'static str, text: impl Into<String>, answer: Expected) -> Case {
    case(name, text, [answer], Kept)
}

/// A request with one answer, which closes the connection.
fn closed(name: &'static str, text: impl Into<String>, answer: Expected) -> Case {
    case(name, text, [answer], Closed)
}

/// A head that cannot be parsed.
fn bad(name: &'static str, text: impl Into<String>) -> Case {
    case(name, text, [Empty(400)], Closed)
}

/// Chunks that cannot be parsed.
fn broken(name: &'static str, text: impl Into<String>) -> Case {
    case(name, text, [BrokenChunks], Closed)
}

/// A request with this request line, the rest of its head, and its body.
fn request(line: &str, rest: &str) -> String {
    format!("{line}⏎Host: plants⏎{{auth}}⏎{rest}")
}

/// A read of the plant with the id 1.
fn read(rest: &str) -> String {
    request("GET /plants/1 HTTP/1.1", rest)
}

/// A read with this request line and no further header lines.
fn read_line(line: &str) -> String {
    request(line, "⏎")
}

/// A read with this header line as its host.
fn read_host(host: &str) -> String {
    format!("GET /plants/1 HTTP/1.1⏎{host}⏎{{auth}}⏎⏎")
}

fn create(rest: &str) -> String {
    create_line("POST /plants HTTP/1.1", rest)
}

fn create_line(line: &str, rest: &str) -> String {
    request(line, &format!("Content-Type: application/json⏎{rest}"))
}

/// A create of another media type.
fn create_xml(rest: &str) -> String {
    request("POST /plants HTTP/1.1", &format!("Content-Type: application/xml⏎{rest}"))
}

fn chunks(body: &str) -> String {
    create(&format!("Transfer-Encoding: chunked⏎⏎{body}"))
}

fn import(body: &str) -> String {
    let lines = "Content-Type: application/x-ndjson⏎Transfer-Encoding: chunked⏎⏎";
    request("POST /plants/import HTTP/1.1", &format!("{lines}{body}"))
}

fn wrong_host(request: String) -> String {
    request.replacen("Host: plants", "Host: a b", 1)
}

fn without_token(request: String) -> String {
    request.replacen("{auth}⏎", "", 1)
}

/// All cases, one on a line.
#[rustfmt::skip]
pub(crate) fn all() -> Vec<Case> {
    let plant = plant_body(100, "Rosa", None);
    let byte_by_byte = plant.chars().map(|byte| format!("1⏎{byte}⏎")).collect::<String>() + "0⏎⏎";
    let wrong_token = read("⏎").replace("{auth}", "Authorization: Bearer x");
    let long_line = format!("X: {}⏎", "y".repeat(4_000));
    vec![
        // The length of a body (RFC 9112, section 6.3; RFC 9110, section 8.6).
        bad("a length and chunks", create("Content-Length: 24⏎Transfer-Encoding: chunked⏎⏎{chunks}")),
        bad("chunks and a length", create("Transfer-Encoding: chunked⏎Content-Length: 24⏎⏎{chunks}")),
        bad("a request within the length and behind the chunks", create("Content-Length: {hidden.length}⏎Transfer-Encoding: chunked⏎⏎0⏎⏎{hidden}")),
        bad("two lengths that agree", create("Content-Length: 24⏎Content-Length: 24⏎⏎{plant}")),
        bad("two lengths that differ", create("Content-Length: 0⏎Content-Length: {hidden.length}⏎⏎{hidden}")),
        bad("a list of lengths that agree", create("Content-Length: 24, 24⏎⏎{plant}")),
        bad("a list of lengths that differ", create("Content-Length: 0, {hidden.length}⏎⏎{hidden}")),
        bad("a length with a plus", create("Content-Length: +{hidden.length}⏎⏎{hidden}")),
        bad("a length with a minus", create("Content-Length: -24⏎⏎{plant}")),
        bad("a length with a space in it", create("Content-Length: 2 4⏎⏎{plant}")),
        bad("a length in hexadecimal", create("Content-Length: 0x18⏎⏎{plant}")),
        bad("a length with a vertical tab before it", create("Content-Length: \x0b24⏎⏎{plant}")),
        bad("a length with a point", create("Content-Length: 24.0⏎⏎{plant}")),
        bad("a length of no digits", create("Content-Length: x⏎⏎{plant}")),
        bad("a length in quotes", create("Content-Length: \"24\"⏎⏎{plant}")),
        bad("an empty length", create("Content-Length:⏎⏎{hidden}")),
        bad("a length of 64 bits and one more", create("Content-Length: 18446744073709551640⏎⏎{plant}")),
        closed("the longest length of 64 bits", create("Content-Length: 18446744073709551615⏎⏎{hidden}"), Error(400, 1003)),
        kept("a length with zeros before it", create("Content-Length: 0024⏎⏎{plant}"), Created),
        kept("a length with white space around it", create("Content-Length:  \t24 \t⏎⏎{plant}"), Created),
        bad("a space before the colon of a length", create("Content-Length : {hidden.length}⏎⏎{hidden}")),
        case("a body that is longer than its length", create("Content-Length: 24⏎⏎{plant},{plant}"), [Created, Empty(400)], Closed),
        case("a body that is shorter than its length", create("Content-Length: 1000⏎⏎{plant}{hidden}"), [Error(400, 1001)], Unfinished),
        kept("a create without a length", create("⏎"), Error(400, 1001)),
        case("a create without a length, and a body", create("⏎{plant}"), [Error(400, 1001), Empty(400)], Closed),
        bad("a create of HTTP/1.0 without a length", create_line("POST /plants HTTP/1.0", "⏎{plant}")),

        // Bodies that no handler reads.
        closed("a request in the body of a GET", read(HIDDEN_BODY), Read),
        closed("a request in the chunks of a GET", read("Transfer-Encoding: chunked⏎⏎{hidden.size}⏎{hidden}⏎0⏎⏎"), Read),
        closed("a request in the body of a HEAD", request("HEAD /plants/1 HTTP/1.1", HIDDEN_BODY), Head),
        closed("a request in the body of a DELETE", request("DELETE /plants/2 HTTP/1.1", HIDDEN_BODY), Error(404, 3002)),
        closed("a request in the body of OPTIONS", request("OPTIONS /nowhere HTTP/1.1", HIDDEN_BODY), Error(404, 4004)),
        closed("a request in the body of a create without a token", without_token(create(HIDDEN_BODY)), Error(401, 2001)),
        closed("a request in the body of a create of another type", create_xml(HIDDEN_BODY), Error(400, 1002)),
        closed("a request in the body of a create at another path", create_line("POST /nowhere HTTP/1.1", HIDDEN_BODY), Error(404, 4004)),
        closed("a request in the body of a method that is not allowed", create_line("DELETE /plants HTTP/1.1", HIDDEN_BODY), Error(405, 4005)),
        closed("a request in the body of a create with a query", create_line("POST /plants?x=1 HTTP/1.1", HIDDEN_BODY), Error(400, 1006)),
        closed("a request behind the body of a create without a token", without_token(create(NEXT_BEHIND_BODY)), Error(401, 2001)),
        closed("a request behind the chunks of a create without a token", without_token(create(NEXT_BEHIND_CHUNKS)), Error(401, 2001)),
        closed("a request behind the body of a create at another path", create_line("POST /nowhere HTTP/1.1", NEXT_BEHIND_BODY), Error(404, 4004)),
        closed("a request behind the chunks of a create at another path", create_line("POST /nowhere HTTP/1.1", NEXT_BEHIND_CHUNKS), Error(404, 4004)),
        closed("a request behind the body of a create of another type", create_xml(NEXT_BEHIND_BODY), Error(400, 1002)),
        closed("a request behind the chunks of a create of another type", create_xml(NEXT_BEHIND_CHUNKS), Error(400, 1002)),
        closed("a request behind the body of a GET", read(NEXT_BEHIND_BODY), Read),
        closed("a request behind the chunks of a GET", read(NEXT_BEHIND_CHUNKS), Read),
        kept("a request in the body of a create", create(HIDDEN_BODY), Error(400, 1001)),
        kept("a request in a chunk of a create", chunks("{hidden.size}⏎{hidden}⏎0⏎⏎"), Error(400, 1001)),

        // The coding of a body (RFC 9112, section 6.1).
        bad("chunks in chunks", create("Transfer-Encoding: chunked, chunked⏎⏎{chunks}")),
        bad("compressed chunks", create("Transfer-Encoding: gzip, chunked⏎⏎{chunks}")),
        bad("chunks that are compressed", create("Transfer-Encoding: chunked, gzip⏎⏎{chunks}")),
        bad("the identity coding", create("Transfer-Encoding: identity⏎Content-Length: 24⏎⏎{plant}")),
        bad("an unknown coding", create("Transfer-Encoding: xchunked⏎⏎{chunks}")),
        bad("an empty coding", create("Transfer-Encoding:⏎⏎{hidden}")),
        bad("a coding with a parameter", create("Transfer-Encoding: chunked;q=1⏎⏎{chunks}")),
        bad("a coding in quotes", create("Transfer-Encoding: \"chunked\"⏎⏎{chunks}")),
        bad("a coding with a vertical tab before it", create("Transfer-Encoding: \x0bchunked⏎⏎{chunks}")),
        kept("a coding with a tab before it", create("Transfer-Encoding:\tchunked⏎⏎{chunks}"), Created),
        kept("a coding in upper case", create("TRANSFER-ENCODING: CHUNKED⏎⏎{chunks}"), Created),
        bad("the coding twice", create("Transfer-Encoding: chunked⏎Transfer-Encoding: chunked⏎⏎{chunks}")),
        bad("the coding and another one", create("Transfer-Encoding: chunked⏎Transfer-Encoding: x⏎⏎0⏎⏎{hidden}")),
        bad("a space before the colon of a coding", create("Transfer-Encoding : chunked⏎⏎{chunks}")),
        bad("a coding on the next line", create("Transfer-Encoding:⏎ chunked⏎⏎{chunks}")),
        bad("a coding behind a bare LF, and a length", create("X: y\nTransfer-Encoding: chunked⏎Content-Length: {hidden.length}⏎⏎0⏎⏎{hidden}")),
        bad("a coding behind a bare CR, and a length", create("X: y\rTransfer-Encoding: chunked⏎Content-Length: {hidden.length}⏎⏎0⏎⏎{hidden}")),
        bad("a coding in HTTP/1.0", create_line("POST /plants HTTP/1.0", "Transfer-Encoding: chunked⏎⏎{chunks}")),

        // Chunks (RFC 9112, section 7.1).
        kept("a chunk of upper case and zeros", chunks("0A⏎{\"id\":100,⏎00e⏎\"name\":\"Rosa\"}⏎000⏎⏎"), Created),
        kept("chunks of a byte each", chunks(&byte_by_byte), Created),
        broken("a chunk of a size of no digits", chunks("zz⏎{plant}⏎0⏎⏎")),
        broken("a chunk of a negative size", chunks("-{chunks}")),
        broken("a chunk of a size with a prefix", chunks("0x{chunks}")),
        broken("a chunk of a size with a line between its digits", chunks("1_8⏎{plant}⏎0⏎⏎")),
        broken("a chunk of no size", chunks("⏎{plant}⏎0⏎⏎")),
        broken("a chunk of more than 64 bits", chunks("100000000000000{chunks}")),
        case("a chunk that does not end", chunks("ffffffffffffffff⏎{plant}⏎0⏎⏎{hidden}"), [Error(400, 1001)], Unfinished),
        broken("a chunk with a space before its size", chunks(" {chunks}")),
        kept("a chunk with white space behind its size", chunks("18 \t⏎{plant}⏎0⏎⏎"), Created),
        kept("a chunk with an extension", chunks("18;name=value;other⏎{plant}⏎0;last⏎⏎"), Created),
        kept("a chunk with a quoted extension", chunks("18 ; name=\"0; {hidden.size}\"⏎{plant}⏎0⏎⏎"), Created),
        broken("a chunk with a bare LF in its extension", chunks("2;\nxx⏎{hidden.size}⏎0⏎⏎{hidden}")),
        broken("a chunk with a bare CR in its extension", chunks("18;a\rb⏎{plant}⏎0⏎⏎")),
        broken("a chunk with NUL in its extension", chunks("18;a\0b⏎{plant}⏎0⏎⏎")),
        broken("a chunk with an extension that is too long", chunks(&format!("18;{}⏎{{plant}}⏎0⏎⏎", "x".repeat(8192)))),
        broken("a bare LF behind the size of a chunk", chunks("18\n{plant}⏎0⏎⏎")),
        broken("a bare LF behind a chunk", chunks("18⏎{plant}\n0⏎⏎")),
        broken("nothing behind a chunk", chunks("18⏎{plant}0⏎⏎")),
        broken("a bare LF behind the last chunk", chunks("18⏎{plant}⏎0\n⏎{next}")),
        broken("a bare LF at the end of the chunks", chunks("18⏎{plant}⏎0⏎\n{next}")),
        broken("a last chunk of a size of no digits", chunks("18⏎{plant}⏎zz⏎")),
        broken("other characters behind a chunk", chunks("18⏎{plant}XX0⏎⏎")),
        broken("a chunk that is longer than its size", chunks("17⏎{plant}⏎0⏎⏎")),
        broken("a chunk that is shorter than its size", chunks("19⏎{plant}⏎0⏎⏎")),
        broken("no last chunk", chunks("18⏎{plant}⏎")),
        broken("no end of the last chunk", chunks("18⏎{plant}⏎0⏎")),
        kept("trailers that would be a length and a token", chunks("18⏎{plant}⏎0⏎Content-Length: {hidden.length}⏎{auth}⏎Transfer-Encoding: x⏎⏎"), Created),
        broken("a request in the trailers", chunks("18⏎{plant}⏎0⏎{hidden}")),
        broken("a bare LF in the trailers", chunks("18⏎{plant}⏎0⏎X: y\n\n{next}")),
        broken("a folded trailer", chunks("18⏎{plant}⏎0⏎X: y⏎ z⏎⏎")),
        broken("trailers that are too long", chunks(&format!("18⏎{{plant}}⏎0⏎X: {}⏎⏎", "y".repeat(8192)))),
        broken("an import whose first chunk is broken", import("x⏎{plant}\n⏎0⏎⏎")),
        closed("an import whose second chunk is broken", import("19⏎{plant}\n⏎x⏎{hidden}"), ImportError),

        // Lines (RFC 9112, sections 2.2, 5.1 and 5.2).
        bad("a space before the first name", "GET /plants/1 HTTP/1.1⏎ Host: plants⏎{auth}⏎⏎"),
        bad("a folded line", read("X: y⏎ z: {hidden}⏎⏎")),
        bad("a folded line that begins with a tab", read("X: y⏎\tContent-Length: 5⏎⏎")),
        kept("bare LFs", read("⏎").replace('⏎', "\n"), Read),
        bad("a bare CR for a line end", "GET /plants/1 HTTP/1.1\rHost: plants⏎{auth}⏎⏎"),
        bad("a bare CR in a value", read("X: y\rz⏎⏎")),
        bad("NUL in a value", read("X: y\0z⏎⏎")),
        bad("NUL in a name", read("X\0Y: z⏎⏎")),
        bad("a name with a space", read("X Y: z⏎⏎")),
        bad("a name in brackets", read("(X): y⏎⏎")),
        bad("a name that is not ASCII", read("\u{e9}: y⏎⏎")),
        bad("an empty name", read(": y⏎⏎")),
        bad("a space before the colon of the host", read_host("Host : plants")),
        bad("a line without a colon", read("X⏎⏎")),
        kept("empty lines before the request", "⏎⏎\n".to_owned() + &read("⏎"), Read),
        kept("as many lines as there may be", read(&("X: y⏎".repeat(94) + "⏎")), Read),
        closed("too many lines", read(&("X: y⏎".repeat(95) + "⏎")), Empty(431)),
        closed("a head that is too long", read(&(long_line.repeat(9) + "⏎")), Empty(431)),
        closed("a line that is too long", read(&format!("X: {}⏎⏎", "y".repeat(140_000))), Empty(431)),

        // The host (RFC 9112, section 3.2).
        bad("no host", "GET /plants/1 HTTP/1.1⏎{auth}⏎⏎"),
        bad("two hosts", read("Host: other⏎⏎")),
        bad("the host twice", read("Host: plants⏎⏎")),
        kept("an empty host", read_host("Host:"), Read),
        kept("a host with a space in it", read_host("Host: plants other"), Error(400, 1007)),
        kept("a host with a path", read_host("Host: plants/other"), Error(400, 1007)),
        kept("a host with a user", read_host("Host: user@plants"), Error(400, 1007)),
        kept("a host with a wrong port", read_host("Host: plants:http"), Error(400, 1007)),
        closed("a wrong host, and a request in the body", wrong_host(create(HIDDEN_BODY)), Error(400, 1007)),
        closed("a wrong host, and an expectation of 100", wrong_host(create(EXPECT_HIDDEN_BODY)), Error(400, 1007)),
        kept("a wrong host where no token is needed", "GET /livez HTTP/1.1⏎Host: a b⏎⏎", Error(400, 1007)),

        // The target (RFC 9112, section 3.2).
        kept("a whole address", read_line("GET http://plants/plants/1 HTTP/1.1"), Read),
        kept("a whole address and another host", read_line("GET http://other:1/plants/1 HTTP/1.1"), Read),
        bad("a whole address and no host", "GET http://plants/plants/1 HTTP/1.1⏎{auth}⏎⏎"),
        kept("a star with OPTIONS", read_line("OPTIONS * HTTP/1.1"), Options),
        kept("a star with OPTIONS and no token", "OPTIONS * HTTP/1.1⏎Host: plants⏎⏎", Options),
        closed("a request in the body of OPTIONS with a star", request("OPTIONS * HTTP/1.1", HIDDEN_BODY), Options),
        kept("a star with GET", read_line("GET * HTTP/1.1"), Error(404, 4004)),
        kept("a host for a target", read_line("GET plants:80 HTTP/1.1"), Error(404, 4004)),
        bad("a relative path", read_line("GET plants/1 HTTP/1.1")),
        closed("a tunnel", request("CONNECT plants:80 HTTP/1.1", "⏎{next}"), Error(404, 4004)),
        closed("a tunnel to a path", request("CONNECT /plants/1 HTTP/1.1", "Content-Length: 0⏎⏎{next}"), Error(405, 4005)),
        kept("a fragment", read_line("GET /plants/1#x HTTP/1.1"), Read),
        kept("a long target", read_line(&format!("GET /{} HTTP/1.1", "x".repeat(8_000))), Error(404, 4004)),
        closed("a target that is too long", read_line(&format!("GET /{} HTTP/1.1", "x".repeat(66_000))), Empty(414)),
        bad("NUL in the target", read_line("GET /plants/1\0 HTTP/1.1")),

        // The request line (RFC 9112, section 3; RFC 9110, sections 2.5 and 9.1).
        bad("two spaces before the target", read_line("GET  /plants/1 HTTP/1.1")),
        bad("two spaces behind the target", read_line("GET /plants/1  HTTP/1.1")),
        bad("a tab before the target", read_line("GET\t/plants/1 HTTP/1.1")),
        bad("a space behind the version", read_line("GET /plants/1 HTTP/1.1 ")),
        bad("a space before the method", read_line(" GET /plants/1 HTTP/1.1")),
        bad("no version", "GET /plants/1⏎⏎"),
        bad("one word", "GARBAGE⏎⏎"),
        bad("a method alone", "GET⏎⏎"),
        bad("no version, and lines", read_line("GET /plants/1")),
        bad("HTTP/0.9", read_line("GET /plants/1 HTTP/0.9")),
        case("HTTP/1.0", read_line("GET /plants/1 HTTP/1.0"), [Read], OldClosed),
        case("HTTP/1.0 without a host", "GET /plants/1 HTTP/1.0⏎{auth}⏎⏎", [Read], OldClosed),
        kept("HTTP/1.0 that keeps the connection", request("GET /plants/1 HTTP/1.0", "Connection: keep-alive⏎⏎"), Read),
        kept("a backup of HTTP/1.0", request("GET /backup HTTP/1.0", "Connection: keep-alive⏎⏎"), Error(426, 1008)),
        kept("an export of HTTP/1.0", request("GET /plants/export HTTP/1.0", "Connection: keep-alive⏎⏎"), Error(426, 1008)),
        case("HTTP/1.0 that keeps and closes the connection", request("GET /plants/1 HTTP/1.0", "Connection: keep-alive, close⏎⏎"), [Read], OldClosed),
        bad("HTTP/1.2", read_line("GET /plants/1 HTTP/1.2")),
        bad("HTTP/1.10", read_line("GET /plants/1 HTTP/1.10")),
        bad("HTTP/2.0", read_line("GET /plants/1 HTTP/2.0")),
        bad("a version in lower case", read_line("GET /plants/1 http/1.1")),
        kept("a method of strange characters", read_line("!*+-.^_`|~0aZ /plants/1 HTTP/1.1"), Error(405, 4005)),
        bad("a method of other characters, valid but refused", read_line("#$%&' /plants/1 HTTP/1.1")),
        kept("a method in lower case", read_line("get /plants/1 HTTP/1.1"), Error(405, 4005)),
        bad("a method with a bracket", read_line("GE(T /plants/1 HTTP/1.1")),
        bad("no method", read_line("/plants/1 HTTP/1.1")),

        // Expectations of a client (RFC 9110, section 10.1.1).
        case("an expectation of 100", create("Expect: 100-continue⏎Content-Length: 24⏎⏎{plant}"), [Continue, Created], Kept),
        case("an expectation of 100 before chunks", create("Expect: 100-Continue⏎Transfer-Encoding: chunked⏎⏎{chunks}"), [Continue, Created], Kept),
        case("an expectation of 100 without a body", read("Expect: 100-continue⏎⏎"), [Continue, Read], Kept),
        case("an expectation of 100 in HTTP/1.0", create_line("POST /plants HTTP/1.0", "Expect: 100-continue⏎Content-Length: 24⏎⏎{plant}"), [Created], OldClosed),
        closed("an expectation of 100 without a token", without_token(create(EXPECT_HIDDEN_BODY)), Error(401, 2001)),
        kept("another expectation", create("Expect: tea⏎Content-Length: 24⏎⏎{plant}"), Created),

        // Other protocols (RFC 9110, section 7.8).
        kept("HTTP/2 offered", read("Connection: Upgrade, HTTP2-Settings⏎Upgrade: h2c⏎HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA⏎⏎"), Read),
        kept("HTTP/2 offered with a body", create("Connection: Upgrade⏎Upgrade: h2c⏎Content-Length: 24⏎⏎{plant}"), Created),
        kept("HTTP/2 offered with chunks", create("Connection: upgrade⏎Upgrade: h2c⏎Transfer-Encoding: chunked⏎⏎{chunks}"), Created),
        kept("HTTP/2 offered and another option", read("connection:\tkeep-alive ,UPGRADE⏎Upgrade: h2c⏎⏎"), Read),
        kept("HTTP/2 offered to a path that is not there", read_line("GET /nowhere HTTP/1.1").replacen("{auth}", "{auth}⏎Connection: Upgrade⏎Upgrade: h2c", 1), Error(404, 4004)),
        closed("HTTP/2 offered on the last request", read("Connection: Upgrade, close⏎Upgrade: h2c⏎⏎{next}"), Read),
        closed("HTTP/2 offered with a request in the body of a GET", read(&format!("Connection: Upgrade⏎Upgrade: h2c⏎{HIDDEN_BODY}")), Read),
        case("HTTP/2 offered in HTTP/1.0", request("GET /plants/1 HTTP/1.0", "Connection: Upgrade⏎Upgrade: h2c⏎⏎"), [Read], OldClosed),
        bad("HTTP/2 offered, and two lengths", create("Connection: Upgrade⏎Content-Length: 0⏎Content-Length: {hidden.length}⏎⏎{hidden}")),
        kept("HTTP/2 offered without Connection", read("Upgrade: h2c⏎⏎"), Read),
        closed("a WebSocket", read("Connection: Upgrade⏎Upgrade: websocket⏎Sec-WebSocket-Version: 13⏎⏎{next}"), Error(400, 1007)),
        closed("a WebSocket among others", read("Upgrade: h2c⏎Upgrade: WebSocket⏎⏎{next}"), Error(400, 1007)),
        closed("a WebSocket with a body", create(&format!("Upgrade: websocket⏎{HIDDEN_BODY}")), Error(400, 1007)),
        closed("a WebSocket with chunks", create("Upgrade: websocket⏎Transfer-Encoding: chunked⏎⏎{chunks}"), Error(400, 1007)),
        bad("HTTP/2 with prior knowledge", "PRI * HTTP/2.0⏎⏎SM⏎⏎"),
        bad("TLS", "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03⏎⏎"),

        // Pipelined requests (RFC 9112, sections 9.3.2 and 9.6).
        case("a HEAD behind a create", create(PLANT_BODY) + &read_line("HEAD /plants/1 HTTP/1.1"), [Created, Head], Kept),
        case("a create behind a HEAD", read_line("HEAD /plants/1 HTTP/1.1") + &create(PLANT_BODY), [Head, Created], Kept),
        case("chunks behind chunks", chunks("2⏎{}⏎0⏎⏎") + &chunks("{chunks}"), [Error(400, 1004), Created], Kept),
        case("HTTP/1.0 behind a create", create(PLANT_BODY) + &read_line("GET /plants/1 HTTP/1.0"), [Created, Read], OldClosed),
        case("a closing request behind a create", create(PLANT_BODY) + &read("Connection: close⏎⏎"), [Created, Read], Closed),
        closed("a request behind a closing one", create("Connection: close⏎Content-Length: 24⏎⏎{plant}{next}"), Created),
        closed("a request behind a closing one with other options", read("Connection: keep-alive, x⏎Connection: Close⏎⏎{next}"), Read),
        case("a broken head behind a create", create(PLANT_BODY) + "(⏎⏎", [Created, Empty(400)], Closed),
        case("a broken chunk behind a create", create(PLANT_BODY) + &import("x⏎"), [Created, Error(400, 1001)], Closed),
        case("a wrong token behind a create", create(PLANT_BODY) + &wrong_token, [Created, Error(401, 2002)], Kept),
        kept("two tokens", read("{auth}⏎⏎"), Error(400, 1007)),
    ]
}
