//! Everything in `plant-http` that reads bytes from clients.
//!
//! Where there is a second implementation (serde's JSON parser, the csv crate, actix-http's decoder, or writing and
//! reading again), both must agree.

use actix_codec::Decoder as _;
use actix_http::ServiceConfig;
use actix_http::h1::{Codec, Message};
use actix_http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::rt::System;
use actix_web::web::BytesMut;
use plant_domain::error_number::{RULE_BROKEN, WRONG_SHAPE};
use plant_domain::{Error, NewPlant, Plant, PlantId};
use plant_http::Token;
use plant_http::internal::{
    bearer_token, chunks_end, entity_tag, export_format, head_end, idempotency_key, import_format,
    list, media_type, on_conflict, preconditions, read_new_plant, read_patch, read_plant, tags,
};
use plant_http::limits::{
    ENTITY_TAGS_MAX, HEAD_LINE_MAX_BYTES, HEAD_MAX_BYTES, IDEMPOTENCY_KEY_MAX_CHARACTERS,
    PAGE_MAX_PLANTS, PAGE_MAX_TAGS, ROW_MAX_BYTES,
};
use plant_http::transfer::{ExportFormat, ImportFormat, ReadRow, TransferFormat, row_reader};
use plant_store::{PagePlace, Preconditions, Revisions};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::FuzzTarget;

pub(crate) const TARGETS: [FuzzTarget; 13] = [
    FuzzTarget { name: "new_plant", check: check_new_plant },
    FuzzTarget { name: "plant", check: check_plant },
    FuzzTarget { name: "merge_patch", check: check_merge_patch },
    FuzzTarget { name: "ndjson", check: check_ndjson },
    FuzzTarget { name: "csv", check: check_csv },
    FuzzTarget { name: "json_array", check: check_json_array },
    FuzzTarget { name: "entity_tags", check: check_entity_tags },
    FuzzTarget { name: "idempotency_key", check: check_idempotency_key },
    FuzzTarget { name: "authorization", check: check_authorization },
    FuzzTarget { name: "media_types", check: check_media_types },
    FuzzTarget { name: "query", check: check_query },
    FuzzTarget { name: "head_end", check: check_head_end },
    FuzzTarget { name: "chunks_end", check: check_chunks_end },
];

/// The number of the error for a body that is not JSON.
const NOT_JSON: i32 = 1001;

fn check_new_plant(body: &[u8]) {
    let new_plant = read_new_plant(body);
    check_error(body, new_plant.as_ref().err());
    let Ok(new_plant) = new_plant else { return };
    let plant = new_plant.plant();
    if let Some(members) = object(body) {
        // serde_json reads `-0` as a float.
        let integer = |value: &Value| value.as_i64().or((value.as_f64() == Some(0.0)).then_some(0));
        assert_eq!(members.get("id").and_then(integer), Some(new_plant.id().get()));
        check_texts(&members, plant);
    }
    assert_eq!(read_plant(body).as_ref(), Ok(plant), "a NewPlant is a Plant too");
    assert_eq!(read_new_plant(&written(&new_plant)), Ok(new_plant));
}

fn check_plant(body: &[u8]) {
    let plant = read_plant(body);
    check_error(body, plant.as_ref().err());
    let Ok(plant) = plant else { return };
    if let Some(members) = object(body) {
        check_texts(&members, &plant);
    }
    assert_eq!(read_plant(&written(&plant)), Ok(plant));
}

fn check_merge_patch(body: &[u8]) {
    let patch = read_patch(body);
    check_error(body, patch.as_ref().err());
    let (Some(members), Ok(patch)) = (object(body), patch) else { return };
    for tag in [None, Some("R".to_owned())] {
        let plant = Plant::new("Rosa", tag).expect("a valid plant");
        // RFC 7396, section 2, for objects of which only members with a text matter.
        let mut merged = object(&written(&plant)).expect("an object");
        for (name, value) in &members {
            if value.is_null() {
                merged.remove(name);
            } else {
                merged.insert(name.clone(), value.clone());
            }
        }
        check_texts(&merged, &patch.apply(&plant));
    }
}

/// A body that is not one complete JSON text must be refused as not JSON, and one that serde reads must not. Bodies
/// with lone surrogates may be either.
fn check_error(body: &[u8], error: Option<&Error>) {
    let number = error.map(|error| error.error);
    let is_not_json = number == Some(NOT_JSON);
    let has_syntax = std::str::from_utf8(body)
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    assert!(has_syntax || is_not_json, "a body that is not JSON was taken");
    if has_syntax && is_not_json {
        let has_value = serde_json::from_slice::<Value>(body).is_ok();
        assert!(!has_value && body.windows(2).any(|pair| pair == br"\u"), "JSON was refused");
    }
    assert!(number.is_none_or(|number| [NOT_JSON, WRONG_SHAPE, RULE_BROKEN].contains(&number)));
}

/// The members as serde reads them; `None` for what serde cannot read: deep nesting, huge numbers and lone
/// surrogates.
fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn check_texts(members: &Map<String, Value>, plant: &Plant) {
    assert_eq!(members.get("name").and_then(Value::as_str), Some(plant.name()));
    assert_eq!(members.get("tag").and_then(Value::as_str), plant.tag());
}

fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("JSON can be written")
}

/// This byte expands to almost as much text as a row may have, since a fuzzer would not find such long inputs.
const MUCH_TEXT: u8 = 0x1a;
const MUCH_TEXT_BYTES: usize = ROW_MAX_BYTES - 8;

/// The unit of the lengths of parts, if the input has [`MUCH_TEXT`].
const LONG_BODY_UNIT_BYTES: usize = 509;

/// The result of reading the rows of a body.
#[derive(Debug, PartialEq)]
struct Read {
    rows: Vec<ReadRow>,
    end: Result<(), Error>,
    is_stopped: bool,
}

fn check_ndjson(input: &[u8]) {
    let Some((body, read)) = read_rows(TransferFormat::NdJson.into(), input) else { return };
    let mut rows = read.rows.iter();
    for (number, line) in (1..).zip(without_mark(&body).split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.trim_ascii().is_empty() {
            let (line_number, plant) = rows.next().expect("a line that is not blank is a row");
            assert_eq!(*line_number, number);
            check_row(plant, line);
        }
    }
    assert_eq!((rows.next(), read.end), (None, Ok(())));
}

fn check_csv(input: &[u8]) {
    let Some((body, read)) = read_rows(TransferFormat::Csv.into(), input) else { return };
    if read.end.is_err() || read.is_stopped {
        return;
    }
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        // The csv crate recognizes a byte order mark only within one buffer.
        .buffer_capacity(body.len())
        .from_reader(&body[..]);
    let columns = reader.byte_headers().expect("there is memory").clone();
    let records: Vec<_> = reader.byte_records().map(|it| it.expect("there is memory")).collect();
    assert_eq!(read.rows.len(), records.len(), "the csv crate finds other rows");
    for ((line, plant), record) in read.rows.iter().zip(&records) {
        let Ok(plant) = plant else { continue };
        let id = plant.id().to_string();
        let (name, tag) = (plant.plant().name(), plant.plant().tag().unwrap_or_default());
        for (column, cell) in columns.iter().zip(record) {
            let expected = match column {
                b"id" => id.as_str(),
                b"name" => name,
                b"tag" => tag,
                _ => panic!("an unknown column was taken: {:?}", column.escape_ascii()),
            };
            assert_eq!(cell, expected.as_bytes(), "line {line}");
        }
        assert!(tag.is_empty() || record.len() == 3, "line {line} has a tag from nowhere");
    }
}

fn check_json_array(input: &[u8]) {
    let Some((body, read)) = read_rows(ImportFormat::JsonArray, input) else { return };
    let is_whole = read.end.is_ok() && !read.is_stopped;
    match serde_json::from_slice::<Vec<&RawValue>>(without_mark(&body)) {
        Ok(elements) => {
            assert!(is_whole || elements.iter().any(|it| it.get().len() > ROW_MAX_BYTES));
            for ((_, plant), element) in read.rows.iter().zip(&elements) {
                check_row(plant, element.get().as_bytes());
            }
            assert!(!is_whole || read.rows.len() == elements.len(), "other elements");
        }
        // For serde_json, the array is one more level of nesting, and a `RawValue` must be UTF-8.
        Err(cause) => assert!(
            !is_whole
                || cause.to_string().contains("recursion")
                || std::str::from_utf8(&body).is_err(),
            "{cause} was not noticed"
        ),
    }
}

fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body)
}

/// Asserts that a row of JSON, up to its limit, is read like a body with the same text.
fn check_row(plant: &Result<NewPlant, Error>, text: &[u8]) {
    let alone = read_new_plant(text).ok().filter(|_| text.len() <= ROW_MAX_BYTES);
    assert_eq!(plant.as_ref().ok(), alone.as_ref());
}

/// The body of an import that an input encodes, and the rows read from it. The first byte says where the body is cut.
/// The result must be the same for every cut, and after the plants are written and read again.
fn read_rows(format: ImportFormat, input: &[u8]) -> Option<(Vec<u8>, Read)> {
    let (cuts, text) = input.split_first()?;
    let mut body = Vec::with_capacity(text.len());
    let mut has_much_text = false;
    for byte in text {
        if *byte == MUCH_TEXT && !has_much_text {
            body.resize(body.len() + MUCH_TEXT_BYTES, b'x');
            has_much_text = true;
        } else {
            body.push(*byte);
        }
    }
    let whole = read_in_parts(format, &body, [body.len().max(1)]);
    // Short parts of a long body would be slow.
    let unit = if has_much_text { LONG_BODY_UNIT_BYTES } else { 1 };
    let (short, long) = (usize::from(cuts % 16), usize::from(cuts / 16));
    let cut = read_in_parts(format, &body, [short + 1, 1 + long * long * long].map(|n| n * unit));
    assert_eq!(whole, cut, "other rows in parts");

    let taken: Vec<NewPlant> =
        whole.rows.iter().filter_map(|(_, plant)| plant.as_ref().ok().cloned()).collect();
    let exported = match format {
        ImportFormat::Rows(format) => {
            let mut rows = format.header().into_bytes();
            format
                .write_rows(taken.iter().map(NewPlant::borrowed), &mut rows)
                .expect("plants can be written");
            rows
        }
        ImportFormat::JsonArray => {
            serde_json::to_vec_pretty(&taken).expect("plants can be written")
        }
    };
    let again = read_in_parts(format, &exported, [exported.len().max(1)]);
    let again: Result<Vec<NewPlant>, Error> =
        again.rows.into_iter().map(|(_, plant)| plant).collect();
    assert_eq!(again, Ok(taken), "an export that is not read as it was written");
    Some((body, whole))
}

/// Reads a body in parts of these lengths, in turn.
fn read_in_parts<const N: usize>(
    format: ImportFormat,
    mut body: &[u8],
    part_bytes: [usize; N],
) -> Read {
    let mut reader = row_reader(format);
    let mut rows = Vec::new();
    let mut end = Ok(());
    for part_bytes in part_bytes.into_iter().cycle() {
        if body.is_empty() || end.is_err() || reader.is_stopped() {
            break;
        }
        let (part, rest) = body.split_at(body.len().min(part_bytes));
        body = rest;
        end = reader.read(part, &mut rows);
    }
    if end.is_ok() && !reader.is_stopped() {
        end = reader.finish(&mut rows);
    }
    Read { rows, end, is_stopped: reader.is_stopped() }
}

fn check_entity_tags(input: &[u8]) {
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        let Some((values, headers)) = headers(&name, input) else { return };
        let Some(read) = preconditions(&headers) else { continue };
        // Several lines of a header are one list (RFC 9110, section 5.3).
        let list = values.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b","[..]);
        assert_eq!(preconditions(&one_header(&name, &list)).as_ref(), Some(&read), "one value");

        let Preconditions { if_match, if_none_match } = read;
        let (read, other) = if name == header::IF_MATCH {
            (if_match, if_none_match)
        } else {
            (if_none_match, if_match)
        };
        assert_eq!(other, None, "a header that was not sent");
        let Some(Revisions::OneOf(revisions)) = &read else {
            assert_eq!(read, Some(Revisions::Any));
            continue;
        };
        assert!(revisions.len() <= ENTITY_TAGS_MAX);
        if !revisions.is_empty() {
            let tags: Vec<String> =
                revisions.iter().map(|revision| entity_tag(*revision)).collect();
            let again = preconditions(&one_header(&name, tags.join(", ").as_bytes()));
            let again = again.expect("written entity tags can be read");
            assert!([again.if_match, again.if_none_match].contains(&read));
        }
    }
}

fn check_idempotency_key(input: &[u8]) {
    let name = HeaderName::from_static("idempotency-key");
    let Some((values, headers)) = headers(&name, input) else { return };
    let Some(key) = idempotency_key(&headers) else { return };
    assert_eq!(values.len(), 1, "two keys were taken for one");
    assert!((1..=IDEMPOTENCY_KEY_MAX_CHARACTERS).contains(&key.len()));
    assert!(
        key.bytes().all(|byte| matches!(byte, b' '..=b'~')),
        "a character outside printable ASCII"
    );
    let written = format!("\"{}\"", key.replace('\\', r"\\").replace('"', "\\\""));
    assert_eq!(idempotency_key(&one_header(&name, written.as_bytes())), Some(key));
}

fn check_authorization(input: &[u8]) {
    let Some((values, headers)) = headers(&header::AUTHORIZATION, input) else { return };
    let Some(token) = bearer_token(&headers) else { return };
    assert_eq!(values.len(), 1, "two tokens were taken for one");
    assert!(!token.is_empty() && token == token.trim_ascii());
    if Token::is_mistyped(token) {
        assert!(token.starts_with(Token::PREFIX.as_bytes()), "only our own have a checksum");
    }
    assert!(values[0].as_bytes().trim_ascii_end().ends_with(token));
}

fn check_media_types(input: &[u8]) {
    const KNOWN: [&str; 2] = ["application/json", "text/csv"];
    let Some((values, sent)) = headers(&header::CONTENT_TYPE, input) else { return };
    if let Some(media_type) = media_type(&sent, &KNOWN) {
        let sent = values[0].to_str().expect("a known media type is ASCII").to_ascii_lowercase();
        assert!(values.len() == 1 && sent.trim().starts_with(media_type));
    }
    let Some((_, accept)) = headers(&header::ACCEPT, input) else { return };
    let (format, content_type) = export_format(accept);
    let again = import_format(&one_header(&header::CONTENT_TYPE, content_type.as_bytes()));
    let rows = match format {
        ExportFormat::Rows(format) => Some(format.into()),
        ExportFormat::Spreadsheet => None,
    };
    assert_eq!(again, rows, "what is exported as rows can be imported");
}

fn check_query(input: &[u8]) {
    let Ok(query) = std::str::from_utf8(input) else { return };
    if let Some(asked) = on_conflict(query) {
        assert_eq!(on_conflict(&format!("on_conflict={asked}")), Some(asked));
    }
    check_list_query(query);
    check_tag_query(query);
}

fn check_list_query(query: &str) {
    let Some((page, _)) = list(query, PlantId::MIN) else { return };
    assert!((1..=PAGE_MAX_PLANTS).contains(&page.limit));
    let after = match page.place {
        PagePlace::First => PlantId::MIN,
        PagePlace::After(id) | PagePlace::Before(id) => id,
    };
    let (_, next) = list(query, after).expect("a parsed query can be read again");
    let (next, _) = list(&next, after).expect("the link to the next page can be followed");
    assert_eq!(next.place, PagePlace::After(after));
    assert_eq!(next.limit, page.limit);
    assert_eq!(next.filter, page.filter);
}

fn check_tag_query(query: &str) {
    let Some((page, _)) = tags(query, "") else { return };
    assert!((1..=PAGE_MAX_TAGS).contains(&page.limit));
    assert!(Plant::new("Rosa", page.after.clone()).is_ok(), "no tag can be before the page");
    let after = page.after.as_deref().unwrap_or("Rosaceae");
    let (_, next) = tags(query, after).expect("a parsed query can be read again");
    let (next, _) = tags(&next, after).expect("the link to the next page can be followed");
    assert_eq!(next.after.as_deref(), Some(after));
    assert_eq!((next.limit, next.prefix), (page.limit, page.prefix));
}

/// The lines of an input as values of a header, and a head with them; `None` if a line cannot be a value.
fn headers(name: &HeaderName, input: &[u8]) -> Option<(Vec<HeaderValue>, HeaderMap)> {
    let lines = input.split(|byte| *byte == b'\n');
    // HTTP parsers remove whitespace around a value.
    let values = lines.map(|line| HeaderValue::from_bytes(line.trim_ascii()).ok());
    let values: Vec<HeaderValue> = values.collect::<Option<_>>()?;
    let mut headers = HeaderMap::new();
    for value in &values {
        headers.append(name.clone(), value.clone());
    }
    Some((values, headers))
}

fn one_header(name: &HeaderName, value: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.append(name.clone(), HeaderValue::from_bytes(value).expect("a value"));
    headers
}

/// Compares the end of a head with the one that actix-http finds, unless that refuses the head first. The first byte
/// is the length, less one, of the parts in which the other bytes arrive.
fn check_head_end(input: &[u8]) {
    let Some((part_bytes, bytes)) = input.split_first() else { return };
    let end = head_end([bytes].into_iter());
    let in_parts = head_end(bytes.chunks(usize::from(*part_bytes) + 1));
    assert_eq!(in_parts, end, "another end in parts");
    let head = &bytes[..end.unwrap_or_else(Some).unwrap_or(bytes.len())];
    let longest = head.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).max();
    let is_at_limit = head.len() == HEAD_MAX_BYTES
        || head.rsplit(|byte| *byte == b'\n').next().map(<[u8]>::len) == Some(HEAD_LINE_MAX_BYTES);
    assert!(head.len() <= HEAD_MAX_BYTES && longest.unwrap_or(0) <= HEAD_LINE_MAX_BYTES);
    assert!(is_at_limit || end.is_ok(), "refused within the limits");
    let decoded = decoded_head_end(head);
    match end {
        Ok(Some(end)) => {
            assert!(head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n"));
            if decoded.is_ok() {
                assert_eq!(decoded, Ok(Some(end)));
                assert_eq!(decoded_head_end(&head[..end - 1]), Ok(None));
            }
        }
        _ => assert!(!matches!(decoded, Ok(Some(_))), "actix-http finds an end"),
    }
}

/// The same for a body in chunks. actix-http must read all that the scanner accepts.
fn check_chunks_end(input: &[u8]) {
    let Some((part_bytes, bytes)) = input.split_first() else { return };
    let end = chunks_end([bytes].into_iter());
    let in_parts = chunks_end(bytes.chunks(usize::from(*part_bytes) + 1));
    assert_eq!(in_parts, end, "another end in parts");
    let before_end = match end {
        Ok(Some(end)) => {
            assert!(bytes[..end].ends_with(b"\r\n\r\n"));
            assert_eq!(decoded_chunks_end(&bytes[..end]), Ok(Some(end)));
            end - 1
        }
        Ok(None) => bytes.len(),
        Err(malformed) => malformed,
    };
    assert_eq!(decoded_chunks_end(&bytes[..before_end]), Ok(None));
}

/// The end of a head according to actix-http, in the form of [`head_end`]; an error if it refuses the head.
fn decoded_head_end(head: &[u8]) -> Result<Option<usize>, ()> {
    let mut rest = BytesMut::from(head);
    let decoded = new_codec().decode(&mut rest).map_err(drop)?;
    Ok(decoded.map(|_| head.len() - rest.len()))
}

/// Like [`decoded_head_end`], for a body in chunks.
fn decoded_chunks_end(chunks: &[u8]) -> Result<Option<usize>, ()> {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut codec = new_codec();
    let mut rest = BytesMut::from(&[HEAD, chunks].concat()[..]);
    while let Some(message) = codec.decode(&mut rest).map_err(drop)? {
        if matches!(message, Message::Chunk(None)) {
            return Ok(Some(chunks.len() - rest.len()));
        }
    }
    Ok(None)
}

fn new_codec() -> Codec {
    thread_local! {
        // The config starts a clock, which only responses need, and which needs a runtime.
        static CONFIG: ServiceConfig = System::new().block_on(async { ServiceConfig::default() });
    }
    Codec::new(CONFIG.with(ServiceConfig::clone))
}
