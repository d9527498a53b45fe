//! One operation in the document, and what all operations have in common.

use actix_http::Method;
use serde_json::{Value, json};

use crate::access::token_record::Scope;
use crate::errors::{ErrorNumber, Failure, wrong_content_type};
use crate::extract::query::read_id;

use super::components::{plant_id, request_id_reference};
use super::failures;

/// One method of a path that is served.
pub(crate) struct Endpoint {
    /// Its path, with the names of parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) method: Method,
    /// The scope that a token needs; `None` where no token is needed.
    pub(crate) scope: Option<Scope>,
}

/// The requests and answers of an operation, apart from the parts that all operations share.
#[derive(Default)]
pub(crate) struct Operation {
    pub(super) id: &'static str,
    /// The name of its group.
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: String,
    pub(super) parameters: Vec<Value>,
    /// A "Media Type Object" for each media type of the body; null without a body.
    pub(super) body: Value,
    /// A "Response Object" for each status of a success.
    pub(super) answers: Value,
    /// The failures that are specific to this operation.
    pub(super) failures: Vec<ErrorNumber>,
    /// Failures whose message differs here from the table's example.
    pub(super) examples: Vec<Failure>,
}

impl Operation {
    /// The "Operation Object".
    pub(super) fn into_json(mut self, endpoint: &Endpoint) -> Value {
        self.failures.extend([ErrorNumber::WrongHeader, ErrorNumber::Internal]);
        if let Some(scope) = endpoint.scope {
            self.description += &format!(" Needs a token with the scope `{scope}`.");
            self.failures.extend([
                ErrorNumber::NoToken,
                ErrorNumber::InvalidToken,
                ErrorNumber::TooManyRequests,
            ]);
            if scope == Scope::Write {
                self.failures.push(ErrorNumber::InsufficientScope);
            }
        }
        if endpoint.path.contains("{id}") {
            self.parameters.insert(0, plant_in_path());
            self.examples.extend(read_id("id", "007").err());
        }
        self.parameters.push(request_id_reference());
        if let Value::Object(content) = &self.body {
            let media_types: Vec<&str> = content.keys().map(String::as_str).collect();
            let message = wrong_content_type(&media_types);
            self.examples.push(Failure::new(ErrorNumber::WrongContentType, message));
            self.failures.push(ErrorNumber::RequestTimeout);
        }
        for (status, answer) in failures::answers(self.failures, &self.examples) {
            self.answers[status.as_str()] = answer;
        }

        let mut operation = json!({
            "tags": [self.tag],
            "summary": self.summary,
            "description": self.description,
            "operationId": self.id,
            "parameters": self.parameters,
        });
        if self.body.is_object() {
            operation["requestBody"] = json!({"content": self.body, "required": true});
        }
        operation["responses"] = self.answers;
        if endpoint.scope.is_none() {
            operation["security"] = json!([]);
        }
        operation
    }
}

/// The id in the path. The parameter has no example, because pages that send requests would fill it in, and a plant
/// with that id may exist.
fn plant_in_path() -> Value {
    json!({
        "name": "id",
        "in": "path",
        "description": "The id of the plant, in its canonical decimal form: `7`, not `+7` or `007`.",
        "required": true,
        "schema": plant_id(),
    })
}
