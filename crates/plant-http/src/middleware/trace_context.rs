//! The trace that a request is part of (W3C Trace Context, section 3.2: the header `traceparent`).

use actix_http::header::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The length of a header of version 00.
const LENGTH: usize = 55;

/// The ids of a trace and of the request within the trace, as the client sent them: 32 and 16 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext(String);

impl TraceContext {
    /// The context that a request is sent with. A malformed one is ignored, as the standard asks.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut sent = headers.get_all(TRACEPARENT);
        let (text, None) = (sent.next()?.to_str().ok()?, sent.next()) else { return None };
        // A later version may add fields behind a hyphen.
        let (known, more) = text.split_at_checked(LENGTH)?;
        let mut fields = known.split('-');
        let widths = [2, 32, 16, 2];
        let is_field = |width: usize| {
            let field = fields.next().unwrap_or_default();
            let is_hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            field.len() == width && field.bytes().all(is_hexadecimal)
        };
        let is_well_formed = widths.into_iter().all(is_field);
        let is_known = match &known[..2] {
            "00" => more.is_empty(),
            "ff" => false,
            _ => more.is_empty() || more.starts_with('-'),
        };
        let context = Self(known.to_owned());
        let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
        let is_valid = is_well_formed
            && is_known
            && !is_zero(context.trace_id())
            && !is_zero(context.parent_id());
        is_valid.then_some(context)
    }

    pub(crate) fn trace_id(&self) -> &str {
        &self.0[3..35]
    }

    pub(crate) fn parent_id(&self) -> &str {
        &self.0[36..52]
    }
}

#[cfg(test)]
mod tests {
    use actix_http::header::HeaderValue;

    use super::*;

    fn context(text: &str) -> Option<TraceContext> {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_str(text).expect("a header"));
        TraceContext::of(&headers)
    }

    #[test]
    fn a_context_is_taken_only_if_it_follows_the_standard() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for whole in ["00-T-P-01", "00-T-P-00", "cc-T-P-01", "cc-T-P-01-more"] {
            let context = context(&whole.replace('T', trace).replace('P', parent));
            let context = context.unwrap_or_else(|| panic!("{whole} is ignored"));
            assert_eq!((context.trace_id(), context.parent_id()), (trace, parent));
        }
        let (no_trace, no_parent) = ("0".repeat(32), "0".repeat(16));
        for broken in [
            "",
            "00",
            "ff-T-P-01",
            "00-T-P-01-more",
            "cc-T-P-01more",
            "00-T-P-0",
            "00-T-P-0g",
            "00_T_P_01",
            "00-T-P",
            &format!("00-{no_trace}-P-01"),
            &format!("00-T-{no_parent}-01"),
            &format!("00-{}-P-01", trace.to_uppercase()),
            &format!("00-T{}-01", &parent[1..]),
            "  00-T-P-01",
        ] {
            let text = broken.replace('T', trace).replace('P', parent);
            assert_eq!(context(&text), None, "{text}");
        }
    }
}
