//! Requests as most clients send them: well formed, on connections that are kept.

use std::net::SocketAddr;

use ureq::http::{HeaderMap, Request, Response};
use ureq::{Agent, Body};

use crate::answer::Answer;
use crate::deadline::DEADLINE;

/// The longest body of an answer that is read, in bytes.
const ANSWER_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Sends requests to one server, with one token or none. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    base: String,
    token: Option<String>,
}

impl Client {
    /// A client with connections of its own.
    #[must_use]
    pub fn new(address: SocketAddr, token: Option<&str>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .max_redirects(0)
            .timeout_global(Some(DEADLINE))
            .build()
            .into();
        Self { agent, base: format!("http://{address}"), token: token.map(str::to_owned) }
    }

    /// The same client with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same client without a token.
    #[must_use]
    pub fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Creates a plant.
    #[track_caller]
    pub fn create(&self, id: i64, name: &str, tag: Option<&str>) -> Answer {
        self.create_from(&plant_body(id, name, tag))
    }

    /// Sends this body to the create operation.
    #[track_caller]
    pub fn create_from(&self, body: &str) -> Answer {
        self.create_with(&[], body)
    }

    /// Sends this body to the create operation, with more headers.
    #[track_caller]
    pub fn create_with(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        self.send("POST", "/plants", &all, body)
    }

    /// Reads a plant.
    #[track_caller]
    pub fn read(&self, id: i64) -> Answer {
        self.get(&format!("/plants/{id}"))
    }

    /// Sends a GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Sends a request, without a body when `body` is empty.
    ///
    /// # Panics
    ///
    /// When there is no answer.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        match self.try_send(method, path, headers, body) {
            Ok(answer) => answer,
            Err(cause) => panic!("no answer to {method} {path}: {cause}"),
        }
    }

    /// As [`Self::send`], for a server that may be gone.
    ///
    /// # Errors
    ///
    /// When there is no answer.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, ureq::Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = if body.is_empty() {
            self.agent.run(request.body(())?)?
        } else {
            self.agent.run(request.body(body)?)?
        };
        answer(response)
    }
}

/// The body that creates a plant.
#[must_use]
pub fn plant_body(id: i64, name: &str, tag: Option<&str>) -> String {
    let mut plant = serde_json::json!({ "id": id, "name": name });
    if let Some(tag) = tag {
        plant["tag"] = tag.into();
    }
    plant.to_string()
}

fn answer(response: Response<Body>) -> Result<Answer, ureq::Error> {
    let (head, mut body) = response.into_parts();
    let body = body.with_config().limit(ANSWER_MAX_BYTES).read_to_vec()?;
    Ok(Answer { status: head.status.as_u16(), headers: headers(&head.headers), body })
}

fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}
