//! A running server, as the client commands see it.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde::Deserialize;
use ureq::http::request::Builder;
use ureq::http::{Method, Request, Response, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body};

use crate::client::connection_problem::{CONNECT_TIMEOUT, IDLE_TIMEOUT, advice, cause};
use crate::client::server_url::ServerUrl;
use crate::client::token::ClientToken;
use crate::exit::Stop;

/// The longest answer that is read into memory, in bytes.
const ANSWER_MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Clone, Debug, Args)]
pub(crate) struct RemoteOptions {
    /// The URL of the server; https trusts the certificates of this system, or those in the file that
    /// SSL_CERT_FILE names
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: ServerUrl,

    /// The file that holds the token [default: the token is in PLANTD_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A server, and the token to send it.
pub(crate) struct Remote {
    agent: Agent,
    url: ServerUrl,
    token: ClientToken,
}

impl Remote {
    pub(crate) fn new(options: &RemoteOptions) -> Result<Self, Stop> {
        let token = match &options.token_file {
            Some(path) => ClientToken::read(path)?,
            None => ClientToken::from_environment()?,
        };
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // The token goes to no other server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .tls_config(tls)
            .user_agent(concat!("plantd/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_per_read(Some(IDLE_TIMEOUT))
            .timeout_per_write(Some(IDLE_TIMEOUT))
            .build();
        Ok(Self { agent: Agent::new_with_config(config), url: options.url.clone(), token })
    }

    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Begins a request; `path` begins with a slash.
    pub(crate) fn request(&self, method: Method, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.as_str()))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token.text()))
    }

    /// Sends a request, and returns the answer with any status. The error says what is wrong with the connection.
    pub(crate) fn send(&self, request: Request<impl AsSendBody>) -> anyhow::Result<Response<Body>> {
        self.agent.run(request).map_err(|error| {
            let advice = advice(&self.url, &error);
            cause(error).context(advice)
        })
    }

    /// Turns every status but 200 into an error. `stop` is the kind of error when the server refuses the request itself.
    pub(crate) fn check(
        &self,
        mut response: Response<Body>,
        stop: fn(anyhow::Error) -> Stop,
    ) -> Result<Response<Body>, Stop> {
        let status = response.status();
        if status.as_u16() == 200 {
            return Ok(response);
        }
        let url = self.url.as_str();
        if status.is_redirection() {
            let location = response.headers().get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let location = printable(location.unwrap_or("another place"));
            return Err(Stop::Usage(anyhow!(
                "{url} sends on to {location}; name by --url where plantd itself is"
            )));
        }
        let refusal = refusal(&mut response)
            .unwrap_or_else(|_| format!("it answered {status} and does not say why"));
        Err(match status.as_u16() {
            401 | 403 => Stop::Configuration(anyhow!(
                "{url} does not take the token of {}: {refusal}; name the file of another by --token-file",
                self.token.origin()
            )),
            404 | 405 => Stop::Usage(anyhow!(
                "{url} does not know this operation: {refusal}; name by --url where plantd is"
            )),
            // The server or the network is not ready.
            408 | 426 | 429 => Stop::Io(anyhow!("{url} gave up: {refusal}")),
            400..=499 => stop(anyhow!("{url} refused it: {refusal}")),
            _ => Stop::Io(anyhow!("{url} failed: {refusal}")),
        })
    }
}

/// Parses an answer as JSON.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(
    response: &mut Response<Body>,
) -> anyhow::Result<T> {
    let body = read_body(response)?;
    serde_json::from_slice(&body).context("the answer is none of plantd's")
}

/// Reads an answer of at most [`ANSWER_MAX_BYTES`].
pub(crate) fn read_body(response: &mut Response<Body>) -> anyhow::Result<Vec<u8>> {
    let body = response.body_mut().with_config().limit(ANSWER_MAX_BYTES).read_to_vec();
    body.map_err(cause)
}

/// The body of every failure.
#[derive(Deserialize)]
struct Refusal {
    error: i32,
    message: String,
}

fn refusal(response: &mut Response<Body>) -> anyhow::Result<String> {
    let Refusal { error, message } = read_json(response)?;
    Ok(format!("{} (error {error})", printable(&message)))
}

/// Replaces control characters, so that text from a server cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
