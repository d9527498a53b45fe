//! Media types: of bodies, and of the answers that a client accepts.

use actix_http::HttpMessage;
use actix_http::header::{self, HeaderMap, Quality};
use actix_web::http::header::{Accept, Header as _};

use crate::errors::{ErrorNumber, Failure, wrong_content_type};

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// The labels of UTF-8 (WHATWG Encoding Standard, section 4.2), and those of ASCII, which is a part of UTF-8. Only bytes that
/// are UTF-8 are taken, whatever the label.
const UTF_8_LABELS: [&str; 9] = [
    "utf-8",
    "utf8",
    "unicode-1-1-utf-8",
    "unicode11utf8",
    "unicode20utf8",
    "x-unicode20utf8",
    "us-ascii",
    "ascii",
    "ansi_x3.4-1968",
];

/// Returns the media type of the body, if it is one of these. It may be in upper or lower case, with a charset that is
/// UTF-8 or without one. The body must not be compressed.
pub(crate) fn check_media_type<'a>(
    headers: &HeaderMap,
    media_types: &[&'a str],
) -> Result<&'a str, Failure> {
    let mut content_types = headers.get_all(header::CONTENT_TYPE);
    let content_type = match (content_types.next(), content_types.next()) {
        (Some(content_type), None) => content_type.to_str().unwrap_or_default(),
        _ => "",
    };
    let media_type = media_types.iter().find(|media_type| is_media_type(content_type, media_type));
    let media_type = media_type.ok_or_else(|| {
        Failure::new(ErrorNumber::WrongContentType, wrong_content_type(media_types))
    })?;
    // A list, which may be empty, and may have empty elements (RFC 9110, sections 5.6.1 and 8.4).
    let codings = headers.get_all(header::CONTENT_ENCODING);
    let mut codings = codings.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    let is_none = |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
    if !codings.all(|coding| is_none(coding.trim_ascii())) {
        return Err(Failure::new(
            ErrorNumber::WrongContentType,
            "the body must not be compressed; send it without the Content-Encoding header",
        ));
    }
    Ok(media_type)
}

/// The quality that a client gives to a media type (RFC 9110, section 12.5.1), from the ranges that include the media
/// type, the most specific one first. Zero if the client names none of them.
pub(crate) fn quality(request: &impl HttpMessage, ranges: &[&str]) -> Quality {
    let Ok(accept) = Accept::parse(request) else { return Quality::ZERO };
    let quality_of = |range: &&str| {
        let accepted = accept.iter().find(|item| item.item.essence_str() == *range);
        accepted.map(|item| item.quality)
    };
    ranges.iter().find_map(quality_of).unwrap_or(Quality::ZERO)
}

fn is_media_type(content_type: &str, media_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    // RFC 8259 defines no parameters for JSON, but many clients send a charset.
    let wrong_charset = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            let label = value.trim_matches('"').trim_ascii();
            !UTF_8_LABELS.iter().any(|known| label.eq_ignore_ascii_case(known))
        }
        _ => false,
    };
    essence.eq_ignore_ascii_case(media_type) && !parts.any(wrong_charset)
}
