//! The line of a request in the log.
//!
//! Each request has one line, under `plantd::audit` when it may change something and the gate let it in, else under
//! `plantd::access`. The level is info, but debug for a part of a page that was served: a browser that opens a page requests
//! dozens of them. The line of an import has its counts. No line holds a query, a body, or a header other than the request's
//! id and its trace: each may hold a secret.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use actix_http::{Method, RequestHead, StatusCode, Uri};
use log::Level;

use crate::decimal::push_integer;
use crate::errors::ErrorNumber;
use crate::middleware::context::{ImportCounts, RequestContext};
use crate::middleware::log_fields::{self, FieldValue};

const ACCESS_LOG: &str = "plantd::access";
const AUDIT_LOG: &str = "plantd::audit";

/// How much of a method and of a path is logged. The other parts of a line have their own limits.
const LOGGED_METHOD_MAX_BYTES: usize = 32;
const LOGGED_PATH_MAX_BYTES: usize = 256;

/// Most lines are shorter.
const LINE_BYTES: usize = 256;

/// A request that has ended.
pub(super) struct RequestLog<'a> {
    pub(super) head: &'a LoggedHead,
    pub(super) context: &'a RequestContext,
    /// `None` if the client disconnected before its answer began. A change may have been made.
    pub(super) status: Option<StatusCode>,
    pub(super) took: Duration,
    pub(super) error: Option<ErrorNumber>,
    pub(super) is_part_of_page: bool,
}

impl RequestLog<'_> {
    pub(super) fn log(&self, is_change: bool) {
        let peer = peer(self.head.peer);
        let method = cut(self.head.method.as_str(), LOGGED_METHOD_MAX_BYTES);
        let path = cut(self.head.uri.path(), LOGGED_PATH_MAX_BYTES);
        let micros = u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX);
        let status = self.status.as_ref();
        let status_text = status.map_or("-", StatusCode::as_str);

        let mut text = String::with_capacity(LINE_BYTES);
        for part in [&*peer, " ", &method, " ", &path, " ", status_text, " "] {
            text.push_str(part);
        }
        push_integer(&mut text, micros);
        text.push_str("us");

        let status = status.map(|status| FieldValue::Count(status.as_u16().into()));
        let first = [
            Some(("peer", FieldValue::Text(&peer))),
            Some(("method", FieldValue::Text(&method))),
            Some(("path", FieldValue::Text(&path))),
            Some(("status", status.unwrap_or(FieldValue::Unknown))),
            Some(("duration_us", FieldValue::Count(micros))),
        ];
        let counts = self.context.import.get().map(ImportCounts::fields).unwrap_or_default();
        let error = [self.error.map(|error| ("error", FieldValue::Integer((error as i32).into())))];
        let last: [&[_]; 3] = [&self.context.fields(), &counts, &error];
        let target = if is_change { AUDIT_LOG } else { ACCESS_LOG };
        log_fields::log(self.level(), target, text, &first, &last);
    }

    fn level(&self) -> Level {
        let is_served = self.status.is_some_and(|status| status.as_u16() < 400);
        if self.is_part_of_page && is_served { Level::Debug } else { Level::Info }
    }
}

/// The parts of a request's head that are logged. Cloning them copies no text.
pub(super) struct LoggedHead {
    peer: Option<SocketAddr>,
    method: Method,
    uri: Uri,
}

impl LoggedHead {
    /// `None` if the log discards the line.
    pub(super) fn of(head: &RequestHead) -> Option<Self> {
        let is_logged = [ACCESS_LOG, AUDIT_LOG]
            .into_iter()
            .any(|target| log::log_enabled!(target: target, Level::Info));
        is_logged.then(|| Self {
            peer: head.peer_addr,
            method: head.method.clone(),
            uri: head.uri.clone(),
        })
    }
}

/// The address of a client. One on a Unix socket has none.
fn peer(address: Option<SocketAddr>) -> Cow<'static, str> {
    match address {
        None => "unix".into(),
        Some(SocketAddr::V4(address)) => {
            let mut text = String::with_capacity("255.255.255.255:65535".len());
            for (octet, end) in address.ip().octets().into_iter().zip([".", ".", ".", ":"]) {
                push_integer(&mut text, octet);
                text.push_str(end);
            }
            push_integer(&mut text, address.port());
            text.into()
        }
        Some(address) => address.to_string().into(),
    }
}

/// A client's text for the log.
fn cut(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return text.into();
    }
    format!("{}…(cut)", &text[..text.floor_char_boundary(max_bytes)]).into()
}
