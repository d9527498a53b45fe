//! The head of a request: header fields, with one value in each line of the input, and the query.

use actix_http::Request;
use actix_http::header::{self, HeaderMap, HeaderName, HeaderValue};
use plant_store::{Preconditions, Revision, Revisions};

use crate::access::gate::bearer_token;
use crate::access::token::Token;
use crate::extract::entity_tag::{entity_tag, preconditions};
use crate::extract::idempotency_key::read as read_key;
use crate::extract::media_type::check_media_type;
use crate::extract::query::{ListQuery, on_conflict};
use crate::extract::transfer_format::{ImportFormat, TransferFormat};
use crate::limits::{ENTITY_TAGS_MAX, IDEMPOTENCY_KEY_MAX_CHARACTERS, PAGE_MAX_PLANTS};

pub(super) fn entity_tags(input: &[u8]) {
    let Some(values) = values(input) else { return };
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        let Ok(read) = preconditions(&headers(&name, &values)) else { continue };
        // Several values of a header are one list (RFC 9110, section 5.3).
        let list = values.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b","[..]);
        let list = HeaderValue::from_bytes(&list).expect("values and commas are a value");
        let joined = preconditions(&headers(&name, &[list]));
        assert_eq!(joined.expect("a list may come in one value"), read);

        let Preconditions { if_match, if_none_match } = read;
        let (read, other) = if name == header::IF_MATCH {
            (if_match, if_none_match)
        } else {
            (if_none_match, if_match)
        };
        assert_eq!(other, None, "a header that was not sent");
        let Some(Revisions::OneOf(revisions)) = read else {
            assert_eq!(read, Some(Revisions::Any));
            continue;
        };
        assert!(revisions.len() <= ENTITY_TAGS_MAX);
        check_written(&name, &revisions);
    }
}

/// Our own entity tags are read as they were written.
fn check_written(name: &HeaderName, revisions: &[Revision]) {
    if revisions.is_empty() {
        return;
    }
    let tags: Vec<String> = revisions.iter().map(|revision| entity_tag(*revision).1).collect();
    let value = HeaderValue::from_str(&tags.join(", ")).expect("entity tags are a value");
    let read = preconditions(&headers(name, &[value])).expect("they were written");
    let expected = Some(Revisions::OneOf(revisions.to_vec()));
    assert!([read.if_match, read.if_none_match].contains(&expected));
}

pub(super) fn idempotency_key(input: &[u8]) {
    let Some(values) = values(input) else { return };
    let name = HeaderName::from_static("idempotency-key");
    let Ok(key) = read_key(&headers(&name, &values)) else { return };
    let key = key.expect("it was sent");
    assert_eq!(values.len(), 1, "two keys were taken for one");
    assert!((1..=IDEMPOTENCY_KEY_MAX_CHARACTERS).contains(&key.len()));
    assert!(
        key.bytes().all(|byte| matches!(byte, b' '..=b'~')),
        "a character outside printable ASCII"
    );
    let written = format!("\"{}\"", key.replace('\\', r"\\").replace('"', "\\\""));
    let value = HeaderValue::from_str(&written).expect("a key is a value");
    assert_eq!(read_key(&headers(&name, &[value])).expect("it was written"), Some(key));
}

pub(super) fn authorization(input: &[u8]) {
    let Some(values) = values(input) else { return };
    let headers = headers(&header::AUTHORIZATION, &values);
    let Ok(token) = bearer_token(&headers) else { return };
    assert_eq!(values.len(), 1, "two tokens were taken for one");
    assert!(!token.is_empty() && token == token.trim_ascii());
    if Token::is_mistyped(token) {
        assert!(token.starts_with(Token::PREFIX.as_bytes()), "only our own have a checksum");
    }
    assert!(values[0].as_bytes().trim_ascii_end().ends_with(token));
}

pub(super) fn media_types(input: &[u8]) {
    const KNOWN: [&str; 2] = ["application/json", "text/csv"];
    let Some(values) = values(input) else { return };
    if let Ok(media_type) = check_media_type(&headers(&header::CONTENT_TYPE, &values), &KNOWN) {
        let sent = values[0].to_str().expect("a known media type is ASCII").to_ascii_lowercase();
        assert!(values.len() == 1 && sent.trim().starts_with(media_type));
    }
    let mut request = Request::new();
    *request.headers_mut() = headers(&header::ACCEPT, &values);
    let format = TransferFormat::of_answer(&request);
    let written = [HeaderValue::from_static(format.content_type())];
    let again = ImportFormat::of_body(&headers(&header::CONTENT_TYPE, &written));
    assert_eq!(again.expect("it was written"), format.into());
}

pub(super) fn query(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(asked) = on_conflict(text) {
        let written = format!("on_conflict={asked}");
        assert_eq!(on_conflict(&written).expect("it was written"), asked);
    }
    let Ok(read) = ListQuery::read(text) else { return };
    let page = &read.page_request;
    assert!((1..=PAGE_MAX_PLANTS).contains(&page.limit));
    let after = page.after.unwrap_or(plant_domain::PlantId::MIN);
    let next = read.next(after);
    let next = ListQuery::read(&next).expect("the link to the next page can be followed");
    assert_eq!(next.page_request.after, Some(after));
    assert_eq!(next.page_request.limit, page.limit);
    assert_eq!(next.page_request.filter, page.filter);
}

/// The lines of an input as values of a header; `None` if one cannot be a value.
fn values(input: &[u8]) -> Option<Vec<HeaderValue>> {
    let lines = input.split(|byte| *byte == b'\n');
    // HTTP parsers remove the white space around a value.
    lines.map(|line| HeaderValue::from_bytes(line.trim_ascii()).ok()).collect()
}

fn headers(name: &HeaderName, values: &[HeaderValue]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name.clone(), value.clone());
    }
    headers
}
