//! One request from its head to the end of its answer: the connection's state, the common headers, and the log line.

use std::convert::Infallible;
use std::error::Error;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use actix_http::body::{BodySize, BodyStream, BoxBody, MessageBody};
use actix_http::header::{self, HeaderName, HeaderValue};
use actix_http::{Method, RequestHead, StatusCode};
use actix_web::HttpResponse;
use actix_web::web::Bytes;
use futures_util::stream;

use crate::access::cors;
use crate::errors::{ErrorNumber, Failure};
use crate::limits::ANSWER_PART_BYTES;
use crate::metrics::EndpointMetrics;
use crate::middleware::context::{REQUEST_ID, RequestContext};
use crate::middleware::policy::Policy;
use crate::middleware::request_log::{LoggedHead, RequestLog};
use crate::route_table::RouteEntry;
use crate::server::http1::ClientConnection;

/// The headers of every answer, unless the handler has set them. Browsers take the content type as it is (the Fetch
/// standard, section "X-Content-Type-Options"), and an answer that is opened as a page may load or run nothing. Shared
/// caches may not keep the answer, and the client's own cache must revalidate it (RFC 9111, section 5.2.2).
const COMMON_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
];

/// An exchange ends when this is dropped: with the answer, with its streamed body, or when the client disconnects.
pub(crate) struct Exchange {
    begun: Instant,
    policy: Rc<Policy>,
    metrics: Rc<EndpointMetrics>,
    context: Rc<RequestContext>,
    /// Whether the method is not safe (RFC 9110, section 9.2.1).
    may_change: bool,
    is_part_of_page: bool,
    /// Whether the answer has no content (RFC 9110, section 9.3.2).
    is_head: bool,
    cors_headers: Vec<(HeaderName, HeaderValue)>,
    /// What the log line begins with, unless the log discards it.
    logged: Option<LoggedHead>,
    connection: ClientConnection,
    /// The status of the answer, once it has begun.
    status: Option<StatusCode>,
    error: Option<ErrorNumber>,
}

impl Exchange {
    /// The head of a request has arrived.
    pub(crate) fn begin(
        policy: &Rc<Policy>,
        route: &RouteEntry,
        context: Rc<RequestContext>,
        head: &RequestHead,
        connection: ClientConnection,
    ) -> Self {
        connection.begin_request(head);
        Self {
            begun: Instant::now(),
            policy: Rc::clone(policy),
            metrics: Rc::clone(route.metrics_of(&head.method)),
            context,
            may_change: !head.method.is_safe(),
            is_part_of_page: route.is_part_of_page,
            is_head: head.method == Method::HEAD,
            cors_headers: cors::answer_headers(&policy.cors_origins, head),
            logged: LoggedHead::of(head),
            connection,
            status: None,
            error: None,
        }
    }

    /// Completes the head of the answer, and notes on the connection that the answer begins.
    pub(crate) fn begin_answer(mut self, mut response: HttpResponse) -> HttpResponse {
        if let Some(failure) = response.error().and_then(|error| error.as_error::<Failure>()) {
            self.error = Some(failure.number());
            self.policy.metrics.of_error(failure.number()).inc();
            if let Some(cause) = failure.cause() {
                self.context.log_error(&cause.to_string());
            }
        }
        self.status = Some(response.status());
        let is_in_drain = self.policy.draining.has_begun();
        self.connection.begin_answer(response.head_mut(), is_in_drain);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.context.id.clone());
        for (name, value) in COMMON_HEADERS {
            if !headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
        for (name, value) in mem::take(&mut self.cors_headers) {
            if name == header::VARY {
                // The answer may vary by other headers as well.
                headers.append(name, value);
            } else {
                headers.insert(name, value);
            }
        }
        match response.body().size() {
            BodySize::None => response,
            BodySize::Sized(bytes) if self.is_head || bytes <= ANSWER_PART_BYTES as u64 => response,
            BodySize::Sized(_) | BodySize::Stream => response.map_body(|_, body| {
                // actix-http reads a stream to its end for HEAD too, and throws it away.
                let body = if self.is_head { empty_stream() } else { body };
                BoxBody::new(InParts { body, part: Bytes::new(), exchange: self })
            }),
        }
    }
}

/// A stream without content, which leaves the headers as they are.
fn empty_stream() -> BoxBody {
    BoxBody::new(BodyStream::new(stream::empty::<Result<Bytes, Infallible>>()))
}

/// A small answer ends here before it is written. actix-http writes it before it reads again, so that nothing of the next
/// request is read too early.
impl Drop for Exchange {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        self.metrics.note(self.status, took);
        if let Some(head) = &self.logged {
            let is_change = self.may_change && self.context.is_let_in.get();
            RequestLog {
                head,
                context: &self.context,
                status: self.status,
                took,
                error: self.error,
                is_part_of_page: self.is_part_of_page,
            }
            .log(is_change);
        }
        self.connection.end_answer();
    }
}

/// A body that is streamed or large, in parts of at most [`ANSWER_PART_BYTES`]. The exchange ends when the body ends; until
/// then the connection is busy.
struct InParts {
    body: BoxBody,
    /// What came from the body and is not passed on yet.
    part: Bytes,
    exchange: Exchange,
}

impl MessageBody for InParts {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        while self.part.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Ok(part)) => self.part = part,
                Some(Err(cause)) => {
                    let failure = cause.downcast_ref::<actix_web::Error>();
                    let failure = failure.and_then(|error| error.as_error::<Failure>());
                    let number = failure.map_or(ErrorNumber::Internal, Failure::number);
                    self.exchange.policy.metrics.of_error(number).inc();
                    self.exchange.context.log_error(&format!("the answer broke off: {cause}"));
                    return Poll::Ready(Some(Err(cause)));
                }
            }
        }
        let bytes = self.part.len().min(ANSWER_PART_BYTES);
        Poll::Ready(Some(Ok(self.part.split_to(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use actix_http::Request;
    use plant_store::{SledConfig, SledRepository};

    use super::*;
    use crate::access::tokens::Tokens;
    use crate::routes::Routes;
    use crate::service::PlantService;

    /// The answer to a request of this method whose handler answers with a stream that never goes on.
    fn endless_answer(method: Method, connection: ClientConnection) -> HttpResponse {
        let mut request = Request::new();
        request.head_mut().method = method;
        let context = RequestContext::of(&request);
        let folder = tempfile::tempdir().unwrap();
        let repository = SledRepository::open(&SledConfig::new(folder.path())).unwrap();
        let service = PlantService::new(Arc::new(repository), Tokens::new(Vec::new()));
        let policy = service.policy(Routes::All);
        let route = policy.routes.find("/plants");
        let exchange = Exchange::begin(&policy, route, context, request.head(), connection);
        let body = BodyStream::new(stream::pending::<Result<Bytes, Infallible>>());
        exchange.begin_answer(HttpResponse::Ok().body(body))
    }

    #[test]
    fn a_stream_is_not_read_for_head() {
        let mut body = endless_answer(Method::HEAD, ClientConnection::default()).into_body();
        assert_eq!(body.size(), BodySize::Stream, "the headers would not be those of GET");
        let context = &mut Context::from_waker(Waker::noop());
        assert!(matches!(Pin::new(&mut body).poll_next(context), Poll::Ready(None)));
    }

    #[test]
    fn a_connection_has_no_deadline_while_its_answer_is_streamed() {
        let connection = ClientConnection::idle();
        let answer = endless_answer(Method::GET, connection.clone());
        assert!(!connection.has_deadline(), "the client would be cut off");
        drop(answer);
        assert!(connection.has_deadline(), "the next request has to come in time");
    }
}
