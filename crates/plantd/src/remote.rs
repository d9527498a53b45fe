//! A running server, as the client commands see it.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use plant_http::Token;
use serde::Deserialize;
use ureq::http::request::Builder;
use ureq::http::{Method, Request, Response, Uri, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body, Error, Timeout};

use crate::cli::RemoteOptions;
use crate::{Stop, TOKEN_VARIABLE};

/// The longest token that is sent, in bytes.
const TOKEN_MAX_BYTES: usize = 4096;

/// How long the server may take to answer the call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the server may neither send nor take anything. There is no limit on the whole.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest answer that is kept in memory, in bytes.
const ANSWER_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A server, and the token to talk to it with.
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
            // A token goes to no other server than the one that it is meant for.
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
        &self.url.0
    }

    /// The beginning of a request; `path` begins with a slash.
    pub(crate) fn request(&self, method: Method, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.0))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token.text))
    }

    /// Sends a request and returns the answer, whatever its status. Without an answer, the error is
    /// what is wrong with the connection, and what to do about it.
    pub(crate) fn send(&self, request: Request<impl AsSendBody>) -> anyhow::Result<Response<Body>> {
        self.agent.run(request).map_err(|error| {
            let problem = self.problem(&error);
            connection_failure(error).context(problem)
        })
    }

    fn problem(&self, error: &Error) -> String {
        let url = &self.url.0;
        if let Some(error) = tls_error(error) {
            return tls_problem(url, error);
        }
        let kind = match error {
            Error::Io(cause) => Some(cause.kind()),
            _ => None,
        };
        match (error, kind) {
            (_, Some(ErrorKind::ConnectionRefused)) => {
                format!("nothing listens at {url}; start the server, or name another by --url")
            }
            (Error::Timeout(Timeout::Resolve | Timeout::Connect), _) => format!(
                "{url} does not answer the call within {} s; see that the server runs and that no firewall is in \
                 between, or name another by --url",
                CONNECT_TIMEOUT.as_secs()
            ),
            (Error::Timeout(_), _) => {
                format!("{url} does not answer; see what its log says, and run this again")
            }
            (Error::Protocol(_), _) => {
                format!("{url} does not answer in HTTP; name by --url where plantd is")
            }
            _ if is_end(error) => format!(
                "{url} broke the connection off; see what its log says, and where it speaks TLS, begin --url with \
                 https://"
            ),
            _ if !self.url.is_name_known() => {
                format!(
                    "the name in {url} is not known; mend it in --url, or see that this machine finds names"
                )
            }
            _ => format!("cannot reach {url}; name another by --url"),
        }
    }

    /// Tells an answer of success from a refusal. `stop` is for a refusal of what was asked for.
    pub(crate) fn check(
        &self,
        mut response: Response<Body>,
        stop: fn(anyhow::Error) -> Stop,
    ) -> Result<Response<Body>, Stop> {
        let status = response.status();
        if status.as_u16() == 200 {
            return Ok(response);
        }
        let url = &self.url.0;
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
                self.token.origin
            )),
            404 | 405 => Stop::Usage(anyhow!(
                "{url} does not know this operation: {refusal}; name by --url where plantd is"
            )),
            // It is the server, or the way to it, that is not ready.
            408 | 426 | 429 => Stop::Io(anyhow!("{url} gave up: {refusal}")),
            400..=499 => stop(anyhow!("{url} refused it: {refusal}")),
            _ => Stop::Io(anyhow!("{url} failed: {refusal}")),
        })
    }
}

/// Whether the server ended the connection before it had answered.
fn is_end(error: &Error) -> bool {
    let Error::Io(cause) = error else { return false };
    matches!(
        cause.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
    )
}

fn tls_error(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::Rustls(error) => Some(error),
        Error::Io(cause) => cause.get_ref()?.downcast_ref(),
        _ => None,
    }
}

fn tls_problem(url: &str, error: &rustls::Error) -> String {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext,
    };
    use rustls::Error::{General, InvalidCertificate, InvalidMessage, Other};
    match error {
        InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            format!("the certificate of {url} is for another name; use a name that it has in --url")
        }
        InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
        ) => format!(
            "the certificate of {url} is not in force; renew it, and see that the clocks of both machines are right"
        ),
        InvalidCertificate(_) => format!(
            "this machine does not trust the certificate of {url}; name by SSL_CERT_FILE a file with the certificate \
             of its issuer"
        ),
        InvalidMessage(_) => format!("{url} does not speak TLS; begin --url with http://"),
        General(_) | Other(_) => format!(
            "there are no certificates by which {url} could be trusted; name by SSL_CERT_FILE a file that holds some"
        ),
        _ => format!("{url} and this machine cannot agree on TLS; see what its log says"),
    }
}

/// What is wrong with a connection on which no answer, or not all of it, came.
pub(crate) fn connection_failure(error: Error) -> anyhow::Error {
    match error {
        Error::Io(cause) => cause.into(),
        Error::Timeout(_) => anyhow!("nothing moved for {} s", IDLE_TIMEOUT.as_secs()),
        error => error.into(),
    }
}

/// An answer that fits into memory, read as JSON.
pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(
    response: &mut Response<Body>,
) -> anyhow::Result<T> {
    let body = response.body_mut().with_config().limit(ANSWER_MAX_BYTES).read_to_vec();
    let body = body.map_err(connection_failure)?;
    serde_json::from_slice(&body).context("the answer is none of plantd's")
}

/// The body of every failure.
#[derive(Deserialize)]
struct Failure {
    error: i32,
    message: String,
}

fn refusal(response: &mut Response<Body>) -> anyhow::Result<String> {
    let Failure { error, message } = read_json(response)?;
    Ok(format!("{} (error {error})", printable(&message)))
}

/// The format that was asked for, or else the one that the name of the file says.
pub(crate) fn transfer_format<F: FromStr<Err: Display>>(
    asked: Option<F>,
    file: &Path,
) -> Result<F, Stop> {
    if let Some(format) = asked {
        return Ok(format);
    }
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    let word = match extension.to_ascii_lowercase().as_str() {
        _ if file == Path::new("-") => "ndjson".to_owned(),
        "jsonl" => "ndjson".to_owned(),
        extension => extension.to_owned(),
    };
    word.parse().map_err(|unknown: F::Err| {
        Stop::Usage(anyhow!(
            "the name {} does not say what is in the file; say it by --format: {unknown}",
            file.display()
        ))
    })
}

/// Text from elsewhere, so that it cannot steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Where a server is: `http` or `https`, a host, and perhaps a path before those of the service. It has
/// no slash at its end.
#[derive(Clone, Debug)]
pub(crate) struct ServerUrl(String);

impl ServerUrl {
    fn is_name_known(&self) -> bool {
        let uri: Option<Uri> = self.0.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        (host.trim_matches(['[', ']']), 0).to_socket_addrs().is_ok()
    }
}

impl FromStr for ServerUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let uri: Uri = text.parse()?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            bail!("begin it with http:// or https://, such as http://127.0.0.1:8080");
        };
        ensure!(
            !authority.as_str().contains('@'),
            "leave out the user; --token-file says who you are"
        );
        ensure!(uri.query().is_none() && !text.contains('#'), "end it with a host or a path");
        Ok(Self(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/'))))
    }
}

/// A token as it was given to this client; it need not be one of ours.
struct ClientToken {
    text: String,
    /// Where it came from, for messages.
    origin: String,
}

impl ClientToken {
    fn read(path: &Path) -> Result<Self, Stop> {
        let mut bytes = Vec::new();
        // One byte and a line end more than a token may have show one that is too long.
        let limit = TOKEN_MAX_BYTES as u64 + 3;
        let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.with_context(|| format!("cannot read the token file {}", path.display()))
            .map_err(Stop::Io)?;
        Self::new(bytes.trim_ascii(), path.display().to_string()).map_err(Stop::Configuration)
    }

    fn from_environment() -> Result<Self, Stop> {
        let Some(token) = std::env::var_os(TOKEN_VARIABLE) else {
            return Err(Stop::Usage(anyhow!(
                "there is no token; name the file that holds one by --token-file, or put it into \
                 {TOKEN_VARIABLE}"
            )));
        };
        Self::new(token.as_encoded_bytes(), TOKEN_VARIABLE.to_owned()).map_err(Stop::Configuration)
    }

    fn new(token: &[u8], origin: String) -> anyhow::Result<Self> {
        ensure!(!token.is_empty(), "{origin} holds no token");
        ensure!(
            token.len() <= TOKEN_MAX_BYTES && token.iter().all(u8::is_ascii_graphic),
            "what {origin} holds is no token: one has {TOKEN_MAX_BYTES} characters at most, all of \
             them ASCII and none of them white space"
        );
        ensure!(
            !Token::is_mistyped(token),
            "the token that {origin} holds was cut or mistyped: its last characters are a checksum, which \
             does not fit"
        );
        Ok(Self { text: String::from_utf8_lossy(token).into_owned(), origin })
    }
}

#[cfg(test)]
mod tests {
    use plant_http::transfer::{ImportFormat, TransferFormat};

    use super::*;

    #[test]
    fn a_url_may_have_a_path_and_a_slash_at_its_end() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("https://plants.example/store/", "https://plants.example/store"),
            ("HTTP://[::1]:80/a/b", "http://[::1]:80/a/b"),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(url.0, expected);
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for text in [
            "",
            "127.0.0.1",
            "127.0.0.1:8080",
            "/plants",
            "ftp://plants.example",
            "http://",
            "http:///plants",
            "http://user@plants.example",
            "http://plants.example/?limit=1",
            "http://plants.example/#top",
            "http://plants example",
        ] {
            assert!(text.parse::<ServerUrl>().is_err(), "{text}");
        }
    }

    #[track_caller]
    fn check(asked: Option<TransferFormat>, file: &str, expected: Option<TransferFormat>) {
        assert_eq!(transfer_format(asked, Path::new(file)).ok(), expected, "{file}");
        let asked = asked.map(ImportFormat::from);
        let expected = match file {
            "plants.json" if asked.is_none() => Some(ImportFormat::JsonArray),
            _ => expected.map(ImportFormat::from),
        };
        assert_eq!(transfer_format(asked, Path::new(file)).ok(), expected, "{file}");
    }

    #[test]
    fn the_name_says_the_format_unless_a_flag_does() {
        use TransferFormat::{Csv, NdJson};
        for (file, by_name) in [
            ("plants.csv", Some(Csv)),
            ("PLANTS.CSV", Some(Csv)),
            ("a/b.c/plants.ndjson", Some(NdJson)),
            ("plants.jsonl", Some(NdJson)),
            ("-", Some(NdJson)),
            ("plants", None),
            ("plants.json", None),
            ("plants.csv.gz", None),
            (".csv", None),
            ("/dev/stdin", None),
        ] {
            check(None, file, by_name);
            check(Some(Csv), file, Some(Csv));
            check(Some(NdJson), file, Some(NdJson));
        }
    }

    #[test]
    fn text_from_elsewhere_steers_no_terminal() {
        assert_eq!(
            printable("Rosa\u{1b}[2J\n\u{9b}1m \"é\""),
            "Rosa\u{fffd}[2J\u{fffd}\u{fffd}1m \"é\""
        );
    }
}
