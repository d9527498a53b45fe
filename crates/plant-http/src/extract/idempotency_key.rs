//! The `Idempotency-Key` header (IETF draft "The Idempotency-Key HTTP Header Field", section 2.1).

use std::future::{Ready, ready};

use actix_http::Payload;
use actix_http::header::{HeaderMap, HeaderName};
use actix_web::{FromRequest, HttpRequest};
use sfv::{BareItem, Item, Parser};

use crate::errors::{ErrorNumber, Failure};
use crate::limits::IDEMPOTENCY_KEY_MAX_CHARACTERS;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key that the client chose for its request, if it sent one: a Structured Field string (RFC 9651, section 3.3.3).
#[derive(Debug, PartialEq)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromRequest for IdempotencyKey {
    type Error = Failure;
    type Future = Ready<Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(read(request.headers()).map(Self))
    }
}

pub(crate) fn read(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else { return Ok(None) };
    let parsed = match (Parser::new(value.as_bytes()).parse::<Item>(), values.next()) {
        (Ok(item), None) => Some(item.bare_item),
        _ => None,
    };
    match parsed {
        Some(BareItem::String(key))
            if (1..=IDEMPOTENCY_KEY_MAX_CHARACTERS).contains(&key.as_str().len()) =>
        {
            Ok(Some(key.into()))
        }
        _ => Err(Failure::new(
            ErrorNumber::WrongHeader,
            format!(
                "Idempotency-Key must stand once, as 1 to {IDEMPOTENCY_KEY_MAX_CHARACTERS} ASCII \
                 characters in double quotes, such as \"8e03978e-40d5-43dd-bc93-6894a57f9324\""
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use actix_http::header::HeaderValue;

    use super::*;

    fn check(values: &[&str]) -> Result<Option<String>, i32> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
            headers.append(IDEMPOTENCY_KEY, value);
        }
        read(&headers).map_err(|failure| failure.number() as i32)
    }

    #[test]
    fn a_key_is_a_quoted_string_of_1_to_255_characters() {
        assert_eq!(check(&[]), Ok(None));
        assert_eq!(check(&[r#""k""#]), Ok(Some("k".to_owned())));
        assert_eq!(check(&[r#"  "a \"b\" \\"  "#]), Ok(Some(r#"a "b" \"#.to_owned())));
        assert_eq!(check(&[&format!("\"{}\"", "k".repeat(255))]), Ok(Some("k".repeat(255))));
    }

    #[test]
    fn anything_else_is_a_wrong_header() {
        let too_long = format!("\"{}\"", "k".repeat(256));
        let wrong = ["", "k", "7", "\"", "\"\"", "\"k", "k\"", "\"é\"", "\"k\" \"k\"", &too_long];
        for value in wrong {
            assert_eq!(check(&[value]), Err(1007), "{value:?}");
        }
        assert_eq!(check(&["\"k\"", "\"k\""]), Err(1007), "a key that stands twice");
    }
}
