//! Message framing by the head of a request, and heads that are refused because HTTP parsers disagree about them.
//!
//! A server that frames a request differently from the proxy in front of it is open to request smuggling.
//! actix-http itself refuses two lengths, a length with chunks, other codings than chunks, and no `Host` or two
//! of them. This module handles the remaining cases.

use std::net::Ipv6Addr;

use actix_http::header::{self, HeaderMap};
use actix_http::{Method, RequestHead};

/// How long the body of a request is (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// This many bytes; 0 without a body.
    Bytes(u64),
    /// Until the last chunk.
    Chunks,
    /// actix-http takes everything that follows for the body.
    Endless,
}

impl BodyLength {
    /// The body that actix-http reads behind this head.
    pub(super) fn of(head: &RequestHead) -> Self {
        let headers = head.headers();
        if headers.contains_key(header::TRANSFER_ENCODING) {
            return Self::Chunks;
        }
        if is_for_websockets(headers) || head.method == Method::CONNECT {
            return Self::Endless;
        }
        let Some(length) = headers.get(header::CONTENT_LENGTH) else { return Self::Bytes(0) };
        // actix-http refuses other lengths. If one passes anyway, nothing behind it is read.
        length
            .to_str()
            .ok()
            .and_then(|length| length.parse().ok())
            .map_or(Self::Endless, Self::Bytes)
    }
}

/// Why a head that actix-http accepts must be refused: HTTP parsers disagree about it, or actix-http misreads it.
pub(crate) fn refusal(head: &RequestHead) -> Option<&'static str> {
    let headers = head.headers();
    // RFC 9112, section 3.2.
    if !headers.get_all(header::HOST).all(|host| is_host(host.as_bytes())) {
        return Some("the Host header must be a host and maybe a port, or empty");
    }
    // RFC 9110, section 7.8, allows to ignore the header. actix-http instead takes everything that follows for the
    // body, regardless of its length, and writes chunked bodies without their framing.
    is_for_websockets(headers)
        .then_some("there are no WebSockets here; leave the Upgrade header out")
}

/// Whether actix-http expects the protocol to change.
fn is_for_websockets(headers: &HeaderMap) -> bool {
    headers.get_all(header::UPGRADE).any(|protocol| {
        protocol.to_str().is_ok_and(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
    })
}

/// Whether this is `uri-host [ ":" port ]` (RFC 9110, section 7.2; RFC 3986, sections 3.2.2 and 3.2.3).
fn is_host(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let (is_name, rest) = match host.strip_prefix('[').map(|host| host.split_once(']')) {
        Some(Some((address, rest))) => (address.parse::<Ipv6Addr>().is_ok(), rest),
        Some(None) => return false,
        None => {
            let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
            (is_registered_name(name), rest)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    is_name && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// Whether this is a `reg-name`, as every IPv4 address and the empty name are.
fn is_registered_name(name: &str) -> bool {
    let mut parts = name.split('%');
    let is_plain = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte))
    };
    let is_escape = |part: &str| {
        part.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    parts.next().is_none_or(is_plain) && parts.all(|part| is_escape(part) && is_plain(&part[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_a_port_or_without() {
        let hosts = ": :80 plants plants: plants:8080 plants.example. Plants_1.example a,b %41%5f x%2D:1 \
             127.0.0.1:8080 999.1 [::1] [::1]:8080 [2001:db8::127.0.0.1]:";
        for host in hosts.split(' ').chain([""]) {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        let others = "a/b http://a user@a a?b a#b a\\b a\"b a<b a:b a:-1 a:+1 a:1:2 ::1 % %4 %4g a%é é \
             [ [] [::1 [::1]8080 [::1]:x [127.0.0.1] [::g] a[::1]";
        for other in others.split(' ').chain(["a b"]) {
            assert!(!is_host(other.as_bytes()), "{other}");
        }
        assert!(!is_host(b"\xff"));
    }
}
