//! The shapes of headers.

use serde_json::json;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ComponentsBuilder, Header, ObjectBuilder, Ref, Required, SchemaFormat};

use crate::errors::INVALID_TOKEN_CHALLENGE;
use crate::limits::{ENTITY_TAGS_MAX, IDEMPOTENCY_KEY_MAX_CHARACTERS, REQUEST_ID_MAX_CHARACTERS};

use super::schemas::{integer, text};

/// What the parameter of the request id is called in the document.
const REQUEST_ID: &str = "RequestId";

/// A header of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerHeader {
    RequestId,
    PlantEntityTag,
    FileEntityTag,
    Location,
    NextPage,
    TotalCount,
    RetryAfter,
    Challenge,
    Upgrade,
}

impl AnswerHeader {
    const ALL: [Self; 9] = [
        Self::RequestId,
        Self::PlantEntityTag,
        Self::FileEntityTag,
        Self::Location,
        Self::NextPage,
        Self::TotalCount,
        Self::RetryAfter,
        Self::Challenge,
        Self::Upgrade,
    ];

    /// As it stands in an answer.
    pub(super) const fn field_name(self) -> &'static str {
        match self {
            Self::RequestId => "X-Request-Id",
            Self::PlantEntityTag | Self::FileEntityTag => "ETag",
            Self::Location => "Location",
            Self::NextPage => "Link",
            Self::TotalCount => "X-Total-Count",
            Self::RetryAfter => "Retry-After",
            Self::Challenge => "WWW-Authenticate",
            Self::Upgrade => "Upgrade",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::RequestId => REQUEST_ID,
            Self::PlantEntityTag => "PlantEntityTag",
            Self::FileEntityTag => "FileEntityTag",
            Self::Location => "Location",
            Self::NextPage => "NextPage",
            Self::TotalCount => "TotalCount",
            Self::RetryAfter => "RetryAfter",
            Self::Challenge => "Challenge",
            Self::Upgrade => "Upgrade",
        }
    }

    fn header(self) -> Header {
        let (schema, description, example) = match self {
            Self::RequestId => (
                text(),
                "The id of the request, as it was sent or as the server made it. The server's log has it too.",
                json!("0199d7a0-51c4-7c63-8f0a-3b1f2b7d9e11"),
            ),
            Self::PlantEntityTag => (
                text().pattern(Some(r#"^"\d+"$"#)),
                "The plant's revision, a strong entity tag that is never used again, also not for a plant that is \
                 deleted and created anew. An answer to a create that was sent again has none when the plant has \
                 changed since.",
                json!("\"42\""),
            ),
            Self::FileEntityTag => (
                text().pattern(Some(r#"^"[\w-]+"$"#)),
                "The file's strong entity tag.",
                json!("\"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU\""),
            ),
            Self::Location => {
                (text(), "The plant: a path from the server's root.", json!("/plants/7"))
            }
            Self::NextPage => (
                text(),
                "Where the next page is (RFC 8288): a path from the server's root. Absent on the last page.",
                json!("</plants?limit=100&after=7>; rel=\"next\""),
            ),
            Self::TotalCount => (
                integer().minimum(Some(0)),
                "How many plants there are. A list with a filter does not have it.",
                json!(48994),
            ),
            Self::RetryAfter => (
                integer().minimum(Some(0)),
                "After how many seconds the request may be sent again.",
                json!(1),
            ),
            Self::Challenge => (
                text(),
                "How to authenticate (RFC 6750, section 3).",
                json!(INVALID_TOKEN_CHALLENGE),
            ),
            Self::Upgrade => (
                text(),
                "The version of HTTP that the request needs (RFC 9110, section 15.5.22).",
                json!("HTTP/1.1"),
            ),
        };
        HeaderBuilder::new()
            .schema(Some(schema.build()))
            .description(Some(description))
            .example(Some(example))
            .build()
    }

    /// Where it is named.
    pub(super) fn reference(self) -> Ref {
        Ref::new(format!("#/components/headers/{}", self.name()))
    }
}

/// All headers of answers.
pub(super) fn all() -> Vec<(&'static str, Header)> {
    AnswerHeader::ALL.map(|header| (header.name(), header.header())).into()
}

/// `If-Match` and `If-None-Match`.
pub(super) fn preconditions() -> [Parameter; 2] {
    let if_match = entity_tags("If-Match", "Do this only if the ETag is one of these", "13.1.1");
    [if_match, if_none_match()]
}

/// `If-None-Match`.
pub(super) fn if_none_match() -> Parameter {
    entity_tags("If-None-Match", "Do this only if the ETag is none of these", "13.1.2")
}

fn entity_tags(name: &str, effect: &str, section: &str) -> Parameter {
    let description = format!(
        "{effect} (RFC 9110, section {section}): `*` for any that exists, or up to {ENTITY_TAGS_MAX} ETags with \
         commas between them, each as it was answered."
    );
    let more = ENTITY_TAGS_MAX - 1;
    let pattern = format!(r#"^(\*|(W/)?"[!#-~]*"([ \t]*,[ \t]*(W/)?"[!#-~]*"){{0,{more}}})$"#);
    // No registry has this format; whoever makes up values for the header can go by it.
    let schema = formatted_text("entity-tags").pattern(Some(pattern));
    in_header(name, description, schema, "\"42\"")
}

/// `Idempotency-Key`.
pub(super) fn idempotency_key() -> Parameter {
    let description = format!(
        "Makes the request safe to send again: the same key with the same plant gets the same answer, and nothing is \
         written twice. A string of 1 to {IDEMPOTENCY_KEY_MAX_CHARACTERS} ASCII characters in double quotes (RFC 9651, \
         section 3.3.3)."
    );
    let pattern = format!(r#"^"([ !#-\[\]-~]|\\["\\]){{1,{IDEMPOTENCY_KEY_MAX_CHARACTERS}}}"$"#);
    let example = "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"";
    // A format of the OpenAPI Format Registry.
    let schema = formatted_text("sf-string").pattern(Some(pattern));
    in_header("Idempotency-Key", description, schema, example)
}

/// Names the parameter that every operation has.
pub(super) fn request_id_parameter(components: ComponentsBuilder) -> ComponentsBuilder {
    let description = format!(
        "An id for the request, which the answer and the server's log repeat. One that does not have 1 to \
         {REQUEST_ID_MAX_CHARACTERS} visible ASCII characters is replaced by one that the server makes."
    );
    let example = "0199d7a0-51c4-7c63-8f0a-3b1f2b7d9e11";
    components.parameter(REQUEST_ID, in_header("X-Request-Id", description, text(), example))
}

/// Where that parameter is named.
pub(super) fn request_id_reference() -> Ref {
    Ref::new(format!("#/components/parameters/{REQUEST_ID}"))
}

fn formatted_text(format: &str) -> ObjectBuilder {
    text().format(Some(SchemaFormat::Custom(format.to_owned())))
}

fn in_header(name: &str, description: String, schema: ObjectBuilder, example: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        // Not as the parameter's own example: pages that send requests would fill it in.
        .schema(Some(schema.examples([json!(example)]).build()))
        .build()
}
