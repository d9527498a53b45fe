//! What the document says of one operation, and what all operations have in common.

use actix_http::{Method, StatusCode};
use serde_json::Value;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{HttpMethod, RefOr, Required, Response, Schema};

use crate::access::token_record::Scope;
use crate::errors::{ErrorNumber, Failure, wrong_content_type};
use crate::extract::media_type::JSON;
use crate::extract::query::read_id;

use super::headers::AnswerHeader;
use super::tag::OperationTag;
use super::{failures, headers, schemas};

/// One method of a path that is served.
pub(crate) struct Endpoint {
    /// Its path, with the names of parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) method: Method,
    /// What a token must let its holder do; `None` where no token is needed.
    pub(crate) scope: Option<Scope>,
}

/// What an operation takes and answers, without what every operation does.
pub(crate) struct Operation {
    id: &'static str,
    tag: OperationTag,
    summary: &'static str,
    description: String,
    parameters: Vec<Parameter>,
    body: Vec<Media>,
    answers: Vec<Answer>,
    failures: Vec<ErrorNumber>,
    /// Those that the operation tells in its own words.
    examples: Vec<Failure>,
}

/// A success.
pub(super) struct Answer {
    status: StatusCode,
    description: &'static str,
    media: Vec<Media>,
    headers: Vec<AnswerHeader>,
    /// The operations that a client may go on with.
    links: Vec<PlantLink>,
}

/// One form of a body.
pub(super) struct Media {
    media_type: &'static str,
    schema: RefOr<Schema>,
    examples: Vec<(&'static str, &'static str, Value)>,
}

/// An operation on the plant that an answer is about, and where its id is.
struct PlantLink {
    operation: &'static str,
    id: &'static str,
}

impl Operation {
    pub(super) fn new(id: &'static str, tag: OperationTag, summary: &'static str) -> Self {
        Self {
            id,
            tag,
            summary,
            description: String::new(),
            parameters: Vec::new(),
            body: Vec::new(),
            answers: Vec::new(),
            failures: Vec::new(),
            examples: Vec::new(),
        }
    }

    pub(super) fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    pub(super) fn parameters(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// One form that the body may have. Where there is none, there is no body.
    pub(super) fn body(mut self, media: Media) -> Self {
        self.body.push(media);
        self
    }

    pub(super) fn answer(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// The numbers of the failures that not every operation of its kind may have.
    pub(super) fn failures(mut self, numbers: &[ErrorNumber]) -> Self {
        self.failures.extend_from_slice(numbers);
        self
    }

    /// How one of the failures looks here.
    pub(super) fn failure_example(mut self, failure: Failure) -> Self {
        self.examples.push(failure);
        self
    }

    pub(super) fn into_openapi(mut self, endpoint: &Endpoint) -> utoipa::openapi::path::Operation {
        self.add_common_failures(endpoint);
        if !self.body.is_empty() {
            let media_types: Vec<&str> = self.body.iter().map(|media| media.media_type).collect();
            let message = wrong_content_type(&media_types);
            self.examples.push(Failure::new(ErrorNumber::WrongContentType, message));
        }
        let mut operation = OperationBuilder::new()
            .operation_id(Some(self.id))
            .tag(self.tag.name())
            .summary(Some(self.summary))
            .description(Some(match endpoint.scope {
                Some(scope) => {
                    format!("{} Needs a token with the scope `{scope}`.", self.description)
                }
                None => self.description,
            }));
        if endpoint.path.contains("{id}") {
            operation = operation.parameter(plant_in_path());
            self.examples.extend(read_id("id", "007").err());
        }
        for parameter in self.parameters {
            operation = operation.parameter(parameter);
        }
        operation = operation.parameter_ref(headers::request_id_reference());
        if !self.body.is_empty() {
            let body = self.body.into_iter().fold(RequestBodyBuilder::new(), |body, media| {
                body.content(media.media_type, media.into_content())
            });
            operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
        }
        for answer in self.answers {
            let status = answer.status;
            operation = operation.response(status.as_str(), answer.into_response());
        }
        for (status, response) in failures::answers(self.failures, &self.examples) {
            operation = operation.response(status.as_str(), response);
        }
        match endpoint.scope {
            Some(_) => operation.build(),
            None => operation.securities(Some([])).build(),
        }
    }

    fn add_common_failures(&mut self, endpoint: &Endpoint) {
        self.failures.extend([ErrorNumber::WrongHeader, ErrorNumber::Internal]);
        if endpoint.scope.is_some() {
            self.failures.extend([
                ErrorNumber::NoToken,
                ErrorNumber::InvalidToken,
                ErrorNumber::TooManyRequests,
            ]);
        }
        if endpoint.scope == Some(Scope::Write) {
            self.failures.push(ErrorNumber::InsufficientScope);
        }
        if !self.body.is_empty() {
            self.failures.push(ErrorNumber::RequestTimeout);
        }
    }
}

impl Answer {
    pub(super) fn new(status: StatusCode, description: &'static str) -> Self {
        Self { status, description, media: Vec::new(), headers: Vec::new(), links: Vec::new() }
    }

    pub(super) fn media(mut self, media: Media) -> Self {
        self.media.push(media);
        self
    }

    pub(super) fn headers(mut self, headers: &[AnswerHeader]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }

    /// The operations on the plant whose id is where this runtime expression says.
    pub(super) fn links(mut self, id: &'static str, operations: &[&'static str]) -> Self {
        self.links.extend(operations.iter().map(|operation| PlantLink { operation, id }));
        self
    }

    fn into_response(self) -> Response {
        let mut response = ResponseBuilder::new().description(self.description);
        for header in std::iter::once(AnswerHeader::RequestId).chain(self.headers) {
            response = response.header_ref(header.field_name(), header.reference());
        }
        for media in self.media {
            response = response.content(media.media_type, media.into_content());
        }
        for PlantLink { operation, id } in self.links {
            let link = LinkBuilder::new().operation_id(operation).parameter("id", id);
            response = response.link(operation, link.build());
        }
        response.build()
    }
}

impl Media {
    pub(super) fn new(media_type: &'static str, schema: impl Into<RefOr<Schema>>) -> Self {
        Self { media_type, schema: schema.into(), examples: Vec::new() }
    }

    pub(super) fn json(schema: impl Into<RefOr<Schema>>) -> Self {
        Self::new(JSON, schema)
    }

    /// An example with a name that programs use and a summary for people.
    pub(super) fn example(
        mut self,
        name: &'static str,
        summary: &'static str,
        value: Value,
    ) -> Self {
        self.examples.push((name, summary, value));
        self
    }

    fn into_content(self) -> utoipa::openapi::Content {
        let examples = self.examples.into_iter().map(|(name, summary, value)| {
            (name, ExampleBuilder::new().summary(summary).value(Some(value)))
        });
        ContentBuilder::new().schema(Some(self.schema)).examples_from_iter(examples).build()
    }
}

/// A method in the terms of the document.
pub(super) fn method(endpoint: &Endpoint) -> HttpMethod {
    match endpoint.method.as_str() {
        "GET" => HttpMethod::Get,
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        other => unreachable!("no route has the method {other}"),
    }
}

/// The id in the path. It has no example, because pages that send requests fill that in, and a plant with that id
/// may exist.
fn plant_in_path() -> Parameter {
    ParameterBuilder::new()
        .name("id")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(
            "The id of the plant, in its canonical decimal form: `7`, not `+7` or `007`.",
        ))
        .schema(Some(schemas::plant_id().build()))
        .build()
}
