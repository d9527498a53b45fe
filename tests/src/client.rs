//! Well-formed requests on keep-alive connections, as most clients send them.

use std::collections::HashSet;
use std::net::SocketAddr;

use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::answer::{Answer, Counts};
use crate::certificate::Authority;
use crate::openapi::assert_described;
use crate::plant::{Format, NewPlant, plant_body};
use crate::{DEADLINE, TOKEN};

/// The longest body of an answer that is read, in bytes.
const ANSWER_MAX_BYTES: u64 = 64 * 1024 * 1024;

const JSON: &str = "application/json";

/// Sends requests to one server, with one token or none. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    base: String,
    token: Option<String>,
}

impl Client {
    /// A client with its own connections.
    pub fn new(address: SocketAddr, token: Option<&str>) -> Self {
        Self::at(format!("http://{address}"), TlsConfig::default(), token)
    }

    /// A client that speaks TLS, trusts this authority alone and sends [`TOKEN`].
    pub fn over_tls(address: SocketAddr, authority: &Authority) -> Self {
        let root = Certificate::from_der(&authority.der()).to_owned();
        let tls = TlsConfig::builder().root_certs(RootCerts::from([root])).build();
        Self::at(format!("https://{address}"), tls, Some(TOKEN))
    }

    fn at(base: String, tls: TlsConfig, token: Option<&str>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .max_redirects(0)
            .timeout_global(Some(DEADLINE))
            .tls_config(tls)
            .build()
            .into();
        Self { agent, base, token: token.map(str::to_owned) }
    }

    /// The same client with another token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same client without a token.
    pub fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Creates a plant.
    #[track_caller]
    pub fn create(&self, id: i64, name: &str, tag: Option<&str>) -> Answer {
        self.create_from(&plant_body(id, name, tag))
    }

    /// Sends a create with this body.
    #[track_caller]
    pub fn create_from(&self, body: &str) -> Answer {
        self.send("POST", "/plants", &[("content-type", JSON)], body)
    }

    /// Replaces or creates a plant from this body.
    #[track_caller]
    pub fn put(&self, id: i64, body: &str) -> Answer {
        self.send("PUT", &path_of(id), &[("content-type", JSON)], body)
    }

    /// Changes a plant by a merge patch.
    #[track_caller]
    pub fn patch(&self, id: i64, body: &str) -> Answer {
        let headers = [("content-type", "application/merge-patch+json")];
        self.send("PATCH", &path_of(id), &headers, body)
    }

    /// Sends a batch of these requests, each as JSON text.
    #[track_caller]
    pub fn batch(&self, requests: &[impl AsRef<str>]) -> Answer {
        self.send("POST", "/batch", &[("content-type", JSON)], batch_body(requests))
    }

    /// Deletes a plant.
    #[track_caller]
    pub fn delete(&self, id: i64) -> Answer {
        self.send("DELETE", &path_of(id), &[], "")
    }

    /// One page of the list. The query may be empty.
    #[track_caller]
    pub fn list(&self, query: &str) -> Answer {
        self.get(&with_query("/plants", query))
    }

    /// All pages of the list, following the links. Fails if the links form a cycle.
    #[track_caller]
    pub fn list_pages(&self, query: &str) -> Vec<Answer> {
        self.pages("/plants", query, Answer::next_page)
    }

    /// All pages of tags, following the links. Fails if the links form a cycle.
    #[track_caller]
    pub fn tag_pages(&self, query: &str) -> Vec<Answer> {
        self.pages("/tags", query, Answer::next_tags)
    }

    #[track_caller]
    fn pages(&self, path: &str, query: &str, next: fn(&Answer) -> Option<String>) -> Vec<Answer> {
        let mut pages = vec![self.get(&with_query(path, query))];
        let mut seen = HashSet::new();
        while let Some(target) = pages.last().and_then(next) {
            pages.push(self.get(&target));
            assert!(seen.insert(target.clone()), "{target} leads back to itself");
        }
        pages
    }

    /// The plants of all pages, in order.
    #[track_caller]
    pub fn list_all(&self, query: &str) -> Vec<NewPlant> {
        self.list_pages(query).iter().flat_map(Answer::plants).collect()
    }

    /// Imports plants. The query may be empty.
    #[track_caller]
    pub fn import(&self, format: Format, query: &str, body: impl AsRef<[u8]>) -> Answer {
        let headers = [("content-type", format.media_type())];
        self.send("POST", &with_query("/plants/import", query), &headers, body)
    }

    /// Imports plants into a server that has none of them.
    #[track_caller]
    pub fn import_all(&self, plants: &[NewPlant]) {
        let answer = self.import(Format::Ndjson, "", Format::Ndjson.body(plants));
        answer.assert_report(Counts { created: plants.len() as u64, ..Counts::default() });
    }

    /// Exports all plants.
    #[track_caller]
    pub fn export(&self, format: Format) -> Vec<u8> {
        let answer = self.send("GET", "/plants/export", &[("accept", format.media_type())], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        let media_type = answer.header("content-type").unwrap_or_default();
        assert!(media_type.starts_with(format.media_type()), "{answer:?}");
        answer.body
    }

    /// Reads a plant.
    #[track_caller]
    pub fn read(&self, id: i64) -> Answer {
        self.get(&path_of(id))
    }

    /// Sends a GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Sends a request. An empty `body` is no body.
    #[track_caller]
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        match self.try_send(method, path, headers, body) {
            Ok(answer) => answer,
            Err(cause) => panic!("no answer to {method} {path}: {cause}"),
        }
    }

    /// Like [`Self::send`], but the server may have stopped. Every answer must match the OpenAPI document.
    #[track_caller]
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Result<Answer, ureq::Error> {
        let body = body.as_ref();
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
        let (head, mut body) = response.into_parts();
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let headers = head.headers.iter();
        let answer = Answer {
            status: head.status.as_u16(),
            headers: headers
                .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
                .collect(),
            body: body.with_config().limit(ANSWER_MAX_BYTES).read_to_vec()?,
        };
        assert_described(method, path, &answer);
        Ok(answer)
    }
}

/// The body of a batch of these requests, each as JSON text.
pub fn batch_body(requests: &[impl AsRef<str>]) -> String {
    let requests: Vec<&str> = requests.iter().map(AsRef::as_ref).collect();
    format!(r#"{{"requests":[{}]}}"#, requests.join(","))
}

fn path_of(id: i64) -> String {
    format!("/plants/{id}")
}

fn with_query(path: &str, query: &str) -> String {
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{path}{mark}{query}")
}
