//! The `Idempotency-Key` header (IETF draft "The Idempotency-Key HTTP Header Field", section 2.1).

use actix_http::header::{HeaderMap, HeaderName};
use actix_web::HttpRequest;
use sfv::{BareItem, Item, Parser};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::head::FromHead;
use crate::limits::IDEMPOTENCY_KEY_MAX_CHARACTERS;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of the request, if there is one: a Structured Field string (RFC 9651, section 3.3.3).
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromHead for IdempotencyKey {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        read(request.headers()).map(Self)
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
                "Idempotency-Key must appear once, as 1 to {IDEMPOTENCY_KEY_MAX_CHARACTERS} ASCII \
                 characters in double quotes, such as \"8e03978e-40d5-43dd-bc93-6894a57f9324\""
            ),
        )),
    }
}
