//! Media types: of bodies, and of the answers that a client accepts.

use actix_http::HttpMessage;
use actix_http::header::{self, HeaderMap, Quality};
use actix_web::http::header::{Accept, Header as _};

use crate::errors::{ErrorNumber, Failure, wrong_content_type};

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// Returns the media type of the body, if it is one of these. It may be in upper or lower case, with `charset=utf-8` or
/// no charset. The body must not be compressed.
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
    if headers
        .get_all(header::CONTENT_ENCODING)
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
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
            !value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => false,
    };
    essence.eq_ignore_ascii_case(media_type) && !parts.any(wrong_charset)
}
