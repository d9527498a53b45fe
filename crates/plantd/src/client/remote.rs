//! A running server, as used by the client commands.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use plant_domain::error_number::NO_SUCH_PLANT;
use plant_http::Token;
use plant_http::transfer::NO_BACKUPS;
use serde::Deserialize;
use ureq::config::ConfigBuilder;
use ureq::http::request::Builder;
use ureq::http::{HeaderMap, Method, Request, Response, Version, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::typestate::AgentScope;
use ureq::{Agent, AsSendBody, Body};

use crate::client::connection_problem::{CONNECT_TIMEOUT, IDLE_TIMEOUT, advice, cause};
use crate::client::server_url::ServerUrl;
use crate::client::unix_transport::{NoResolver, UnixConnector};
use crate::environment::variable;
use crate::exit::Stop;
use crate::files::tokens_file::TOKEN_VARIABLE;

/// The longest answer that is read into memory, in bytes.
const ANSWER_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The error for an answer with another body than that of plantd.
pub(crate) const NOT_FROM_PLANTD: &str = "the answer does not come from plantd";

/// The longest token that is sent, in bytes.
const TOKEN_MAX_BYTES: usize = 4096;

// No documentation comment: it would be the first line of the help.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct UrlOptions {
    /// The URL of the server, or unix:PATH for a Unix socket; https trusts the certificates of this system, or
    /// those in the file that SSL_CERT_FILE names
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    pub(crate) url: ServerUrl,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct RemoteOptions {
    #[command(flatten)]
    server: UrlOptions,

    /// The file that holds the token [default: the token is in PLANTD_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A server, and the token to send it.
pub(crate) struct Remote {
    agent: Agent,
    url: ServerUrl,
    token: String,
    /// Where the token comes from, for messages.
    token_origin: String,
}

impl Remote {
    pub(crate) fn new(options: &RemoteOptions) -> Result<Self, Stop> {
        let (token, token_origin) = match &options.token_file {
            Some(path) => (read_token(path)?, path.display().to_string()),
            None => (environment_token()?, TOKEN_VARIABLE.to_owned()),
        };
        let token = checked_token(&token, &token_origin).map_err(Stop::Configuration)?;
        let url = options.server.url.clone();
        Ok(Self { agent: agent(&url), url, token, token_origin })
    }

    pub(crate) fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Begins a request; `path` begins with a slash.
    pub(crate) fn request(&self, method: Method, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(self.url.at(path))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
    }

    /// Sends a request, and returns the answer with any status. The error says what is wrong with the connection.
    pub(crate) fn send(
        &self,
        request: Builder,
        body: impl AsSendBody,
    ) -> anyhow::Result<Response<Body>> {
        self.agent.run(request.body(body)?).map_err(|error| explained(&self.url, error))
    }

    /// The message that the URL is that of another service, from what that service does.
    pub(crate) fn not_plantd(&self, what: &str) -> String {
        format!("{} {what}; give the URL of plantd itself with --url", self.url)
    }

    /// Refuses an answer of another media type.
    pub(crate) fn expect_media_type(
        &self,
        answer: &Response<Body>,
        expected: &str,
    ) -> Result<(), Stop> {
        let content_type = answer.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        let what = format!("answers with {content_type:?} instead of {expected}");
        Err(Stop::Io(anyhow!(self.not_plantd(&what))))
    }

    /// Refuses an answer that does not declare where its body ends, or is compressed: the end of the connection would mark
    /// the end of the body, and a truncated one could not be noticed.
    pub(crate) fn expect_framed(&self, answer: &Response<Body>) -> Result<(), Stop> {
        let headers = answer.headers();
        let has_end = match headers.get(header::TRANSFER_ENCODING) {
            Some(coding) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
            None => headers.contains_key(header::CONTENT_LENGTH),
        };
        if has_end
            && answer.version() == Version::HTTP_11
            && !headers.contains_key(header::CONTENT_ENCODING)
        {
            return Ok(());
        }
        Err(Stop::Io(anyhow!(
            "{} does not say where its answer ends, so that a part could pass for the whole; give \
             the URL of plantd itself with --url, or configure HTTP/1.1 in the proxy in front of it",
            self.url()
        )))
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
        let url = &self.url;
        if status.is_redirection() {
            let location = response.headers().get(header::LOCATION);
            let location = location.and_then(|location| location.to_str().ok());
            let location = printable(location.unwrap_or("another place"));
            let what = format!("redirects to {location}");
            return Err(Stop::Usage(anyhow!(self.not_plantd(&what))));
        }
        let refusal = read_json(&mut response).ok();
        let number = refusal.as_ref().map(|refusal: &Refusal| refusal.error);
        let refusal = refusal.map_or_else(
            || format!("it answered {status} and does not say why"),
            |Refusal { error, message }| format!("{} (error {error})", printable(&message)),
        );
        Err(match status.as_u16() {
            401 | 403 => Stop::Configuration(anyhow!(
                "{url} refuses the token of {}: {refusal}; give the file of another with --token-file",
                self.token_origin
            )),
            404 if matches!(number, Some(NO_SUCH_PLANT | NO_BACKUPS)) => stop(anyhow!(refusal)),
            404 | 405 => Stop::Usage(anyhow!(
                "{url} does not know this operation: {refusal}; give the URL of plantd with --url"
            )),
            // The server or the network is not ready.
            408 | 426 | 429 => Stop::Io(anyhow!("{url} cannot take the request now: {refusal}")),
            400..=499 => stop(anyhow!("{url} refused the request: {refusal}")),
            _ => Stop::Io(anyhow!("{url} failed: {refusal}")),
        })
    }
}

/// A client of this server.
pub(crate) fn agent(url: &ServerUrl) -> Agent {
    let config = agent_config()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_per_read(Some(IDLE_TIMEOUT))
        .timeout_per_write(Some(IDLE_TIMEOUT))
        .build();
    match url.socket() {
        Some(path) => {
            Agent::with_parts(config, UnixConnector { path: path.to_owned() }, NoResolver)
        }
        None => Agent::new_with_config(config),
    }
}

/// The configuration of every client: no redirects, because they could send a token or plants to another server, and no
/// proxy.
pub(crate) fn agent_config() -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .tls_config(tls)
        .user_agent(concat!("plantd/", env!("CARGO_PKG_VERSION")))
}

/// Why a connection failed, and what to do about it.
pub(crate) fn explained(url: &ServerUrl, error: ureq::Error) -> anyhow::Error {
    let advice = advice(url, &error);
    cause(error).context(advice)
}

fn read_token(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut token = Vec::new();
    // Room for a line end, and one byte more than a token may have.
    let limit = TOKEN_MAX_BYTES as u64 + 3;
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut token));
    read.with_context(|| format!("cannot read the token file {}", path.display()))?;
    Ok(token.trim_ascii().to_owned())
}

fn environment_token() -> Result<Vec<u8>, Stop> {
    let Some(token) = variable(TOKEN_VARIABLE) else {
        return Err(Stop::Usage(anyhow!(
            "there is no token; give its file with --token-file, or set {TOKEN_VARIABLE}"
        )));
    };
    Ok(token.into_encoded_bytes())
}

/// Checks that the token can be sent. It need not be one that plantd created.
fn checked_token(token: &[u8], origin: &str) -> anyhow::Result<String> {
    ensure!(!token.is_empty(), "{origin} holds no token");
    ensure!(
        token.len() <= TOKEN_MAX_BYTES && token.iter().all(u8::is_ascii_graphic),
        "{origin} holds no token: a token has at most {TOKEN_MAX_BYTES} characters, all of them ASCII and none of them \
         white space"
    );
    ensure!(
        !Token::is_mistyped(token),
        "the token that {origin} holds was cut or mistyped: its last characters are a checksum, which does not fit"
    );
    Ok(String::from_utf8_lossy(token).into_owned())
}

/// Parses an answer as JSON.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(
    response: &mut Response<Body>,
) -> anyhow::Result<T> {
    let body = read_body(response)?;
    serde_json::from_slice(&body).context(NOT_FROM_PLANTD)
}

/// Reads an answer of at most [`ANSWER_MAX_BYTES`].
pub(crate) fn read_body(response: &mut Response<Body>) -> anyhow::Result<Vec<u8>> {
    let body = response.body_mut().with_config().limit(ANSWER_MAX_BYTES).read_to_vec();
    body.map_err(cause)
}

/// Where the next page begins: this parameter in the link to it (RFC 8288). The rest of the link is not used, because a
/// proxy may have changed the path.
pub(crate) fn start_of_next_page<'a>(headers: &'a HeaderMap, parameter: &str) -> Option<&'a str> {
    let links = headers.get_all(header::LINK).into_iter().filter_map(|link| link.to_str().ok());
    // A proxy may have joined the headers.
    let mut targets = links
        .flat_map(|links| links.split(", "))
        .filter_map(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"next\""));
    let (_, query) = targets.next()?.split_once('?').unwrap_or_default();
    let mut parameters = query.split('&').filter_map(|pair| pair.split_once('='));
    let start = parameters.find_map(|(name, value)| (name == parameter).then_some(value));
    Some(start.unwrap_or_default())
}

/// The body of every failure.
#[derive(Deserialize)]
struct Refusal {
    error: i32,
    message: String,
}

/// Replaces characters that control the terminal or the order of a line, so that text from a server does neither.
pub(crate) fn printable(text: &str) -> String {
    // Line separators, and the marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm.
    let is_layout = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let replaced = |c: char| c.is_control() || is_layout(c);
    text.chars().map(|c| if replaced(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
