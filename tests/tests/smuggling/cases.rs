//! The cases: a text to send, and the expected answers.
//!
//! In a text that is sent, `⏎` is a line end (CR LF), and these placeholders are replaced:
//!
//! - `{auth}`: the line with the token.
//! - `{plant}`: the JSON of the plant that a case may create. It has 24 bytes, in hexadecimal 18.
//! - `{hidden}`: a whole request that deletes a plant. It must never be carried out; `{hidden.length}` and
//!   `{hidden.size}` are its length in decimal and in hexadecimal.
//! - `{next}`: the same where plantd must not carry it out, but a proxy may take it for the next request of the
//!   client. It is not sent to a proxy.

use plantd_tests::{TOKEN, plant_body};

use Answer::{BrokenChunks, Continue, Created, Empty, Error, Head, ImportError, Read};
use Then::{Closed, Kept, OldClosed, Unfinished};

/// An expected answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The answer to a head that cannot be parsed: this status, and no body.
    Empty(u16),
    /// This status, and this number in the body.
    Error(u16, i32),
    /// 1001, and a message that says that the chunks are broken.
    BrokenChunks,
    /// The answer to a create of `{plant}`.
    Created,
    /// The answer to an import that broke off after it had created `{plant}`.
    ImportError,
    /// 200 and the plant with the id 1.
    Read,
    /// 200 without a body, as to a HEAD.
    Head,
    /// 100.
    Continue,
}

/// The state of the connection after the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The text behind the case is answered as a separate request, and the connection stays open.
    Kept,
    /// The last answer closes the connection, and nothing behind the case is carried out.
    Closed,
    /// Like `Closed`, but for a client of HTTP/1.0, whose answer need not say that the connection closes.
    OldClosed,
    /// The server waits for more bytes, and answers when the client stops sending. The text behind the case is
    /// part of the request.
    Unfinished,
}

/// One thing that is sent.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    text: String,
    pub(crate) answers: Vec<Answer>,
    pub(crate) then: Then,
}

impl Case {
    /// The bytes that are sent to plantd, with `behind` behind them.
    pub(crate) fn sent(&self, behind: &str) -> Vec<u8> {
        self.bytes(HIDDEN, behind)
    }

    /// The bytes that are sent to a proxy, with `behind` behind them.
    pub(crate) fn sent_to_proxy(&self, behind: &str) -> Vec<u8> {
        self.bytes("", behind)
    }

    fn bytes(&self, next: &str, behind: &str) -> Vec<u8> {
        let plant = plant_body(100, "Rosa", None);
        assert_eq!(plant.len(), 24, "what the cases say of its length is wrong");
        let auth = format!("Authorization: Bearer {TOKEN}");
        let hidden = HIDDEN.replace('⏎', "\r\n").replace("{auth}", &auth);
        let text = self.text.replace("{next}", next).replace('⏎', "\r\n");
        let text = text.replace("{auth}", &auth).replace("{plant}", &plant);
        let text = text.replace("{hidden}", &hidden);
        let text = text.replace("{hidden.length}", &hidden.len().to_string());
        let text = text.replace("{hidden.size}", &format!("{:x}", hidden.len()));
        (text + behind).into_bytes()
    }

    /// Whether it may leave `{plant}` behind.
    pub(crate) fn may_create(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Created | ImportError))
    }
}

/// The request that must never be carried out.
const HIDDEN: &str = "DELETE /plants/1 HTTP/1.1⏎Host: plants⏎{auth}⏎⏎";

fn case<const N: usize>(
    name: &'static str,
    text: impl Into<String>,
    answers: [Answer; N],
    then: Then,
) -> Case {
    Case { name, text: text.into(), answers: answers.to_vec(), then }
}

/// A read of the plant with the id 1, with more lines and the text behind the head.
fn read(rest: &str) -> String {
    format!("GET /plants/1 HTTP/1.1⏎Host: plants⏎{{auth}}⏎{rest}")
}

/// A create, with more lines and its body.
fn create(rest: &str) -> String {
    format!("POST /plants HTTP/1.1⏎Host: plants⏎{{auth}}⏎Content-Type: application/json⏎{rest}")
}

/// A create in chunks.
fn chunks(body: &str) -> String {
    create(&format!("Transfer-Encoding: chunked⏎⏎{body}"))
}

/// An import in chunks.
fn import(body: &str) -> String {
    format!(
        "POST /plants/import HTTP/1.1⏎Host: plants⏎{{auth}}⏎Content-Type: application/x-ndjson⏎\
         Transfer-Encoding: chunked⏎⏎{body}"
    )
}

#[rustfmt::skip]
pub(crate) fn all() -> Vec<Case> {
    let bad = [Empty(400)];
    let broken_body = [Error(400, 1001)];
    let broken_chunks = [BrokenChunks];
    vec![
    // The length of a body (RFC 9112, section 6.3; RFC 9110, section 8.6).
    case("a length and chunks", create("Content-Length: 24⏎Transfer-Encoding: chunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("chunks and a length", create("Transfer-Encoding: chunked⏎Content-Length: 24⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("a request in what is the body by its length, and behind it by its chunks", create("Content-Length: {hidden.length}⏎Transfer-Encoding: chunked⏎⏎0⏎⏎{hidden}"), bad, Closed),
    case("two lengths that agree", create("Content-Length: 24⏎Content-Length: 24⏎⏎{plant}"), bad, Closed),
    case("two lengths that differ", create("Content-Length: 0⏎Content-Length: {hidden.length}⏎⏎{hidden}"), bad, Closed),
    case("a list of lengths that agree", create("Content-Length: 24, 24⏎⏎{plant}"), bad, Closed),
    case("a list of lengths that differ", create("Content-Length: 0, {hidden.length}⏎⏎{hidden}"), bad, Closed),
    case("a length with a plus", create("Content-Length: +{hidden.length}⏎⏎{hidden}"), bad, Closed),
    case("a length with a minus", create("Content-Length: -24⏎⏎{plant}"), bad, Closed),
    case("a length with a space in it", create("Content-Length: 2 4⏎⏎{plant}"), bad, Closed),
    case("a length in hexadecimal", create("Content-Length: 0x18⏎⏎{plant}"), bad, Closed),
    case("a length with a vertical tab before it", create("Content-Length: \x0b24⏎⏎{plant}"), bad, Closed),
    case("a length with a point", create("Content-Length: 24.0⏎⏎{plant}"), bad, Closed),
    case("a length of no digits", create("Content-Length: x⏎⏎{plant}"), bad, Closed),
    case("a length in quotes", create("Content-Length: \"24\"⏎⏎{plant}"), bad, Closed),
    case("an empty length", create("Content-Length:⏎⏎{hidden}"), bad, Closed),
    case("a length of 64 bits and one more", create("Content-Length: 18446744073709551640⏎⏎{plant}"), bad, Closed),
    case("the longest length of 64 bits", create("Content-Length: 18446744073709551615⏎⏎{hidden}"), [Error(400, 1003)], Closed),
    case("a length with zeros before it", create("Content-Length: 0024⏎⏎{plant}"), [Created], Kept),
    case("a length with white space around it", create("Content-Length:  \t24 \t⏎⏎{plant}"), [Created], Kept),
    case("a space before the colon of a length", create("Content-Length : {hidden.length}⏎⏎{hidden}"), bad, Closed),
    case("a body that is longer than its length", create("Content-Length: 24⏎⏎{plant},{plant}"), [Created, Empty(400)], Closed),
    case("a body that is shorter than its length", create("Content-Length: 1000⏎⏎{plant}{hidden}"), broken_body, Unfinished),
    case("a create without a length", create("⏎"), broken_body, Kept),
    case("a create without a length, and a body", create("⏎{plant}"), [Error(400, 1001), Empty(400)], Closed),
    case("a create of HTTP/1.0 without a length", create("⏎{plant}").replace("HTTP/1.1", "HTTP/1.0"), bad, Closed),

    // Bodies that no handler reads.
    case("a request in the body of a GET", read("Content-Length: {hidden.length}⏎⏎{hidden}"), [Read], Closed),
    case("a request in the chunks of a GET", read("Transfer-Encoding: chunked⏎⏎{hidden.size}⏎{hidden}⏎0⏎⏎"), [Read], Closed),
    case("a request in the body of a HEAD", read("Content-Length: {hidden.length}⏎⏎{hidden}").replace("GET", "HEAD"), [Head], Closed),
    case("a request in the body of a DELETE", read("Content-Length: {hidden.length}⏎⏎{hidden}").replace("GET /plants/1", "DELETE /plants/2"), [Error(404, 3002)], Closed),
    case("a request in the body of OPTIONS", read("Content-Length: {hidden.length}⏎⏎{hidden}").replace("GET /plants/1", "OPTIONS /nowhere"), [Error(404, 4004)], Closed),
    case("a request in the body of a create without a token", create("Content-Length: {hidden.length}⏎⏎{hidden}").replacen("{auth}⏎", "", 1), [Error(401, 2001)], Closed),
    case("a request in the body of a create of another type", create("Content-Length: {hidden.length}⏎⏎{hidden}").replace("/json", "/xml"), [Error(400, 1002)], Closed),
    case("a request in the body of a create at another path", create("Content-Length: {hidden.length}⏎⏎{hidden}").replace("/plants HTTP", "/nowhere HTTP"), [Error(404, 4004)], Closed),
    case("a request in the body of a method that the path has not", create("Content-Length: {hidden.length}⏎⏎{hidden}").replacen("POST", "DELETE", 1), [Error(405, 4005)], Closed),
    case("a request in the body of a create with a query", create("Content-Length: {hidden.length}⏎⏎{hidden}").replace("/plants HTTP", "/plants?x=1 HTTP"), [Error(400, 1006)], Closed),
    case("a request behind the body of a create without a token", create("Content-Length: 2⏎⏎{}{next}").replacen("{auth}⏎", "", 1), [Error(401, 2001)], Closed),
    case("a request behind the chunks of a create without a token", chunks("2⏎{}⏎0⏎⏎{next}").replacen("{auth}⏎", "", 1), [Error(401, 2001)], Closed),
    case("a request behind the body of a create at another path", create("Content-Length: 2⏎⏎{}{next}").replace("/plants HTTP", "/nowhere HTTP"), [Error(404, 4004)], Closed),
    case("a request behind the chunks of a create at another path", chunks("2⏎{}⏎0⏎⏎{next}").replace("/plants HTTP", "/nowhere HTTP"), [Error(404, 4004)], Closed),
    case("a request behind the body of a create of another type", create("Content-Length: 2⏎⏎{}{next}").replace("/json", "/xml"), [Error(400, 1002)], Closed),
    case("a request behind the chunks of a create of another type", chunks("2⏎{}⏎0⏎⏎{next}").replace("/json", "/xml"), [Error(400, 1002)], Closed),
    case("a request behind the body of a GET", read("Content-Length: 2⏎⏎{}{next}"), [Read], Closed),
    case("a request behind the chunks of a GET", read("Transfer-Encoding: chunked⏎⏎2⏎{}⏎0⏎⏎{next}"), [Read], Closed),
    case("a request in the body of a create", create("Content-Length: {hidden.length}⏎⏎{hidden}"), broken_body, Kept),
    case("a request in a chunk of a create", chunks("{hidden.size}⏎{hidden}⏎0⏎⏎"), broken_body, Kept),

    // The coding of a body (RFC 9112, section 6.1).
    case("chunks in chunks", create("Transfer-Encoding: chunked, chunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("compressed chunks", create("Transfer-Encoding: gzip, chunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("chunks that are compressed", create("Transfer-Encoding: chunked, gzip⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("the coding that is none", create("Transfer-Encoding: identity⏎Content-Length: 24⏎⏎{plant}"), bad, Closed),
    case("a coding that nobody knows", create("Transfer-Encoding: xchunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("an empty coding", create("Transfer-Encoding:⏎⏎{hidden}"), bad, Closed),
    case("a coding with a parameter", create("Transfer-Encoding: chunked;q=1⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("a coding in quotes", create("Transfer-Encoding: \"chunked\"⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("a coding with a vertical tab before it", create("Transfer-Encoding: \x0bchunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("a coding with a tab before it", create("Transfer-Encoding:\tchunked⏎⏎18⏎{plant}⏎0⏎⏎"), [Created], Kept),
    case("a coding in upper case", create("TRANSFER-ENCODING: CHUNKED⏎⏎18⏎{plant}⏎0⏎⏎"), [Created], Kept),
    case("the coding twice", create("Transfer-Encoding: chunked⏎Transfer-Encoding: chunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("the coding and another one", create("Transfer-Encoding: chunked⏎Transfer-Encoding: x⏎⏎0⏎⏎{hidden}"), bad, Closed),
    case("a space before the colon of a coding", create("Transfer-Encoding : chunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("a coding on the next line", create("Transfer-Encoding:⏎ chunked⏎⏎18⏎{plant}⏎0⏎⏎"), bad, Closed),
    case("a coding behind a bare LF, and a length", create("X: y\nTransfer-Encoding: chunked⏎Content-Length: {hidden.length}⏎⏎0⏎⏎{hidden}"), bad, Closed),
    case("a coding behind a bare CR, and a length", create("X: y\rTransfer-Encoding: chunked⏎Content-Length: {hidden.length}⏎⏎0⏎⏎{hidden}"), bad, Closed),
    case("a coding in HTTP/1.0", chunks("18⏎{plant}⏎0⏎⏎").replace("HTTP/1.1", "HTTP/1.0"), bad, Closed),

    // Chunks (RFC 9112, section 7.1).
    case("a chunk of upper case and zeros", chunks("0A⏎{\"id\":100,⏎00e⏎\"name\":\"Rosa\"}⏎000⏎⏎"), [Created], Kept),
    case("chunks of a byte each", chunks(&(plant_body(100, "Rosa", None).chars().map(|byte| format!("1⏎{byte}⏎")).collect::<String>() + "0⏎⏎")), [Created], Kept),
    case("a chunk of a size of no digits", chunks("zz⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk of a negative size", chunks("-18⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk of a size with a prefix", chunks("0x18⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk of a size with a line between its digits", chunks("1_8⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk of no size", chunks("⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk of more than 64 bits", chunks("10000000000000018⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk that does not end", chunks("ffffffffffffffff⏎{plant}⏎0⏎⏎{hidden}"), broken_body, Unfinished),
    case("a chunk with a space before its size", chunks(" 18⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk with white space behind its size", chunks("18 \t⏎{plant}⏎0⏎⏎"), [Created], Kept),
    case("a chunk with an extension", chunks("18;name=value;other⏎{plant}⏎0;last⏎⏎"), [Created], Kept),
    case("a chunk with a quoted extension", chunks("18 ; name=\"0; {hidden.size}\"⏎{plant}⏎0⏎⏎"), [Created], Kept),
    case("a chunk with a bare LF in its extension", chunks("2;\nxx⏎{hidden.size}⏎0⏎⏎{hidden}"), broken_chunks, Closed),
    case("a chunk with a bare CR in its extension", chunks("18;a\rb⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk with NUL in its extension", chunks("18;a\0b⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk with an extension that is too long", chunks(&format!("18;{}⏎{{plant}}⏎0⏎⏎", "x".repeat(8192))), broken_chunks, Closed),
    case("a bare LF behind the size of a chunk", chunks("18\n{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a bare LF behind a chunk", chunks("18⏎{plant}\n0⏎⏎"), broken_chunks, Closed),
    case("nothing behind a chunk", chunks("18⏎{plant}0⏎⏎"), broken_chunks, Closed),
    case("a bare LF behind the last chunk", chunks("18⏎{plant}⏎0\n⏎{next}"), broken_chunks, Closed),
    case("a bare LF at the end of the chunks", chunks("18⏎{plant}⏎0⏎\n{next}"), broken_chunks, Closed),
    case("a last chunk of a size of no digits", chunks("18⏎{plant}⏎zz⏎"), broken_chunks, Closed),
    case("other characters behind a chunk", chunks("18⏎{plant}XX0⏎⏎"), broken_chunks, Closed),
    case("a chunk that is longer than its size", chunks("17⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("a chunk that is shorter than its size", chunks("19⏎{plant}⏎0⏎⏎"), broken_chunks, Closed),
    case("no last chunk", chunks("18⏎{plant}⏎"), broken_chunks, Closed),
    case("no end of the last chunk", chunks("18⏎{plant}⏎0⏎"), broken_chunks, Closed),
    case("trailers that would be a length and a token", chunks("18⏎{plant}⏎0⏎Content-Length: {hidden.length}⏎{auth}⏎Transfer-Encoding: x⏎⏎"), [Created], Kept),
    case("a request in the trailers", chunks("18⏎{plant}⏎0⏎{hidden}"), broken_chunks, Closed),
    case("a bare LF in the trailers", chunks("18⏎{plant}⏎0⏎X: y\n\n{next}"), broken_chunks, Closed),
    case("a folded trailer", chunks("18⏎{plant}⏎0⏎X: y⏎ z⏎⏎"), broken_chunks, Closed),
    case("trailers that are too long", chunks(&format!("18⏎{{plant}}⏎0⏎X: {}⏎⏎", "y".repeat(8192))), broken_chunks, Closed),
    case("an import whose first chunk is broken", import("x⏎{plant}\n⏎0⏎⏎"), broken_chunks, Closed),
    case("an import whose second chunk is broken", import("19⏎{plant}\n⏎x⏎{hidden}"), [ImportError], Closed),

    // Lines (RFC 9112, sections 2.2, 5.1 and 5.2).
    case("a space before the first name", "GET /plants/1 HTTP/1.1⏎ Host: plants⏎{auth}⏎⏎", bad, Closed),
    case("a folded line", read("X: y⏎ z: {hidden}⏎⏎"), bad, Closed),
    case("a folded line that begins with a tab", read("X: y⏎\tContent-Length: 5⏎⏎"), bad, Closed),
    case("bare LFs", read("⏎").replace('⏎', "\n"), [Read], Kept),
    case("a bare CR for a line end", "GET /plants/1 HTTP/1.1\rHost: plants⏎{auth}⏎⏎", bad, Closed),
    case("a bare CR in a value", read("X: y\rz⏎⏎"), bad, Closed),
    case("NUL in a value", read("X: y\0z⏎⏎"), bad, Closed),
    case("NUL in a name", read("X\0Y: z⏎⏎"), bad, Closed),
    case("a name with a space", read("X Y: z⏎⏎"), bad, Closed),
    case("a name in brackets", read("(X): y⏎⏎"), bad, Closed),
    case("a name that is not ASCII", read("\u{e9}: y⏎⏎"), bad, Closed),
    case("an empty name", read(": y⏎⏎"), bad, Closed),
    case("a space before the colon of the host", read("⏎").replace("Host:", "Host :"), bad, Closed),
    case("a line without a colon", read("X⏎⏎"), bad, Closed),
    case("empty lines before the request", "⏎⏎\n".to_owned() + &read("⏎"), [Read], Kept),
    case("as many lines as there may be", read(&("X: y⏎".repeat(94) + "⏎")), [Read], Kept),
    case("too many lines", read(&("X: y⏎".repeat(95) + "⏎")), [Empty(431)], Closed),
    case("a head that is too long", read(&("X: ".to_owned() + &"y".repeat(4_000) + "⏎").repeat(9)) + "⏎", [Empty(431)], Closed),
    case("a line that is too long", read(&format!("X: {}⏎⏎", "y".repeat(140_000))), [Empty(431)], Closed),

    // The host (RFC 9112, section 3.2).
    case("no host", "GET /plants/1 HTTP/1.1⏎{auth}⏎⏎", bad, Closed),
    case("two hosts", read("Host: other⏎⏎"), bad, Closed),
    case("the host twice", read("Host: plants⏎⏎"), bad, Closed),
    case("an empty host", read("⏎").replace(" plants⏎", "⏎"), [Read], Kept),
    case("a host with a space in it", read("⏎").replace(" plants⏎", " plants other⏎"), [Error(400, 1007)], Kept),
    case("a host with a path", read("⏎").replace(" plants⏎", " plants/other⏎"), [Error(400, 1007)], Kept),
    case("a host with a user", read("⏎").replace(" plants⏎", " user@plants⏎"), [Error(400, 1007)], Kept),
    case("a host with a wrong port", read("⏎").replace(" plants⏎", " plants:http⏎"), [Error(400, 1007)], Kept),
    case("a wrong host, and a request in the body", create("Content-Length: {hidden.length}⏎⏎{hidden}").replacen(" plants⏎", " a b⏎", 1), [Error(400, 1007)], Closed),
    case("a wrong host, and leave to send the body asked for", create("Expect: 100-continue⏎Content-Length: {hidden.length}⏎⏎{hidden}").replacen(" plants⏎", " a b⏎", 1), [Error(400, 1007)], Closed),
    case("a wrong host where no token is needed", "GET /livez HTTP/1.1⏎Host: a b⏎⏎", [Error(400, 1007)], Kept),

    // The target (RFC 9112, section 3.2).
    case("a whole address", read("⏎").replace(" /", " http://plants/"), [Read], Kept),
    case("a whole address and another host", read("⏎").replace(" /", " http://other:1/"), [Read], Kept),
    case("a whole address and no host", "GET http://plants/plants/1 HTTP/1.1⏎{auth}⏎⏎", bad, Closed),
    case("a star with OPTIONS", read("⏎").replace("GET /plants/1", "OPTIONS *"), [Error(404, 4004)], Kept),
    case("a star with GET", read("⏎").replace("/plants/1", "*"), [Error(404, 4004)], Kept),
    case("a host for a target", read("⏎").replace("/plants/1", "plants:80"), [Error(404, 4004)], Kept),
    case("a relative path", read("⏎").replace("/plants/1", "plants/1"), bad, Closed),
    case("a tunnel", read("⏎{next}").replace("GET /plants/1", "CONNECT plants:80"), [Error(404, 4004)], Closed),
    case("a tunnel to a path", read("Content-Length: 0⏎⏎{next}").replace("GET", "CONNECT"), [Error(405, 4005)], Closed),
    case("a fragment", read("⏎").replace("/plants/1", "/plants/1#x"), [Read], Kept),
    case("a long target", read("⏎").replace("/plants/1", &format!("/{}", "x".repeat(8_000))), [Error(404, 4004)], Kept),
    case("a target that is too long", read("⏎").replace("/plants/1", &format!("/{}", "x".repeat(66_000))), [Empty(414)], Closed),
    case("NUL in the target", read("⏎").replace("/plants/1", "/plants/1\0"), bad, Closed),

    // The request line (RFC 9112, section 3; RFC 9110, sections 2.5 and 9.1).
    case("two spaces before the target", read("⏎").replace(" /", "  /"), bad, Closed),
    case("two spaces behind the target", read("⏎").replace(" HTTP", "  HTTP"), bad, Closed),
    case("a tab before the target", read("⏎").replace(" /", "\t/"), bad, Closed),
    case("a space behind the version", read("⏎").replacen("1.1", "1.1 ", 1), bad, Closed),
    case("a space before the method", read("⏎").replace("GET", " GET"), bad, Closed),
    case("no version", "GET /plants/1⏎⏎", bad, Closed),
    case("one word", "GARBAGE⏎⏎", bad, Closed),
    case("a method alone", "GET⏎⏎", bad, Closed),
    case("no version, and lines", read("⏎").replace(" HTTP/1.1", ""), bad, Closed),
    case("HTTP/0.9", read("⏎").replace("1.1", "0.9"), bad, Closed),
    case("HTTP/1.0", read("⏎").replace("1.1", "1.0"), [Read], OldClosed),
    case("HTTP/1.0 without a host", "GET /plants/1 HTTP/1.0⏎{auth}⏎⏎", [Read], OldClosed),
    case("HTTP/1.0 that keeps the connection", read("Connection: keep-alive⏎⏎").replace("1.1", "1.0"), [Read], Kept),
    case("an export of HTTP/1.0", read("Connection: keep-alive⏎⏎").replace("1.1", "1.0").replace("/plants/1 ", "/plants/export "), [Error(426, 1008)], Kept),
    case("HTTP/1.0 that keeps and closes the connection", read("Connection: keep-alive, close⏎⏎").replace("1.1", "1.0"), [Read], OldClosed),
    case("HTTP/1.2", read("⏎").replace("1.1", "1.2"), bad, Closed),
    case("HTTP/1.10", read("⏎").replace("1.1", "1.10"), bad, Closed),
    case("HTTP/2.0", read("⏎").replace("1.1", "2.0"), bad, Closed),
    case("a version in lower case", read("⏎").replace("HTTP", "http"), bad, Closed),
    case("a method of strange characters", read("⏎").replace("GET", "!*+-.^_`|~0aZ"), [Error(405, 4005)], Kept),
    case("a method of stranger characters, which there may be and are not taken", read("⏎").replace("GET", "#$%&'"), bad, Closed),
    case("a method in lower case", read("⏎").replace("GET", "get"), [Error(405, 4005)], Kept),
    case("a method with a bracket", read("⏎").replace("GET", "GE(T"), bad, Closed),
    case("no method", read("⏎").replace("GET ", ""), bad, Closed),

    // Expectations of a client (RFC 9110, section 10.1.1).
    case("leave to send the body asked for", create("Expect: 100-continue⏎Content-Length: 24⏎⏎{plant}"), [Continue, Created], Kept),
    case("leave to send chunks asked for", chunks("18⏎{plant}⏎0⏎⏎").replace("Transfer", "Expect: 100-Continue⏎Transfer"), [Continue, Created], Kept),
    case("leave to send no body asked for", read("Expect: 100-continue⏎⏎"), [Continue, Read], Kept),
    case("leave asked for in HTTP/1.0", create("Expect: 100-continue⏎Content-Length: 24⏎⏎{plant}").replace("1.1", "1.0"), [Created], OldClosed),
    case("leave asked for without a token", create("Expect: 100-continue⏎Content-Length: {hidden.length}⏎⏎{hidden}").replacen("{auth}⏎", "", 1), [Error(401, 2001)], Closed),
    case("something else expected", create("Expect: tea⏎Content-Length: 24⏎⏎{plant}"), [Created], Kept),

    // Other protocols (RFC 9110, section 7.8).
    case("HTTP/2 offered", read("Connection: Upgrade, HTTP2-Settings⏎Upgrade: h2c⏎HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA⏎⏎"), [Read], Closed),
    case("HTTP/2 offered with a body", create("Connection: Upgrade⏎Upgrade: h2c⏎Content-Length: 24⏎⏎{plant}"), [Created], Closed),
    case("HTTP/2 offered as something for another hop", read("Upgrade: h2c⏎⏎"), [Read], Kept),
    case("a WebSocket", read("Connection: Upgrade⏎Upgrade: websocket⏎Sec-WebSocket-Version: 13⏎⏎{next}"), [Error(400, 1007)], Closed),
    case("a WebSocket among others", read("Upgrade: h2c⏎Upgrade: WebSocket⏎⏎{next}"), [Error(400, 1007)], Closed),
    case("a WebSocket with a body", create("Upgrade: websocket⏎Content-Length: {hidden.length}⏎⏎{hidden}"), [Error(400, 1007)], Closed),
    case("a WebSocket with chunks", chunks("18⏎{plant}⏎0⏎⏎").replace("Transfer", "Upgrade: websocket⏎Transfer"), [Error(400, 1007)], Closed),
    case("HTTP/2 without a question", "PRI * HTTP/2.0⏎⏎SM⏎⏎", bad, Closed),
    case("TLS", "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03⏎⏎", bad, Closed),

    // Requests behind each other (RFC 9112, sections 9.3.2 and 9.6).
    case("a HEAD behind a create", create("Content-Length: 24⏎⏎{plant}") + &read("⏎").replace("GET", "HEAD"), [Created, Head], Kept),
    case("a create behind a HEAD", read("⏎").replace("GET", "HEAD") + &create("Content-Length: 24⏎⏎{plant}"), [Head, Created], Kept),
    case("chunks behind chunks", chunks("2⏎{}⏎0⏎⏎") + &chunks("18⏎{plant}⏎0⏎⏎"), [Error(400, 1004), Created], Kept),
    case("HTTP/1.0 behind a create", create("Content-Length: 24⏎⏎{plant}") + &read("⏎").replace("1.1", "1.0"), [Created, Read], OldClosed),
    case("a last request behind a create", create("Content-Length: 24⏎⏎{plant}") + &read("Connection: close⏎⏎"), [Created, Read], Closed),
    case("a request behind a last one", create("Connection: close⏎Content-Length: 24⏎⏎{plant}{next}"), [Created], Closed),
    case("a request behind a last one among other options", read("Connection: keep-alive, x⏎Connection: Close⏎⏎{next}"), [Read], Closed),
    case("a broken head behind a create", create("Content-Length: 24⏎⏎{plant}") + "(⏎⏎", [Created, Empty(400)], Closed),
    case("a broken chunk behind a create", create("Content-Length: 24⏎⏎{plant}") + &import("x⏎"), [Created, Error(400, 1001)], Closed),
    case("a wrong token behind a create", create("Content-Length: 24⏎⏎{plant}") + &read("⏎").replace("{auth}", "Authorization: Bearer x"), [Created, Error(401, 2002)], Kept),
    case("two tokens", read("{auth}⏎⏎"), [Error(400, 1007)], Kept),
    ]
}
