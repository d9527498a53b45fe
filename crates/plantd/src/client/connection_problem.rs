//! Explains what is wrong with the connection to a server, and what to do.

use std::io::ErrorKind;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use anyhow::anyhow;
use ureq::http::Uri;
use ureq::{Error, Timeout};

use crate::client::server_url::ServerUrl;

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a transfer may stall. There is no limit on a whole exchange.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the server at `url` sent no answer, and what to do about it.
pub(crate) fn advice(url: &ServerUrl, error: &Error) -> String {
    if let Some(error) = tls_error(error) {
        return tls_problem(url, error);
    }
    let kind = match error {
        Error::Io(cause) => Some(cause.kind()),
        _ => None,
    };
    let is_socket = url.socket().is_some();
    match (error, kind) {
        (_, Some(ErrorKind::ConnectionRefused)) => nothing_listens(url),
        (_, Some(ErrorKind::NotFound)) if is_socket => nothing_listens(url),
        (_, Some(ErrorKind::PermissionDenied)) if is_socket => {
            format!(
                "this user may not connect to {url}; act as its owner, or as a member of its group"
            )
        }
        (Error::Timeout(Timeout::Resolve | Timeout::Connect), _) => format!(
            "{url} does not answer within {} s; check that the server runs and that no firewall blocks it, \
             or choose another with --url",
            CONNECT_TIMEOUT.as_secs()
        ),
        (Error::Timeout(_), _) => {
            format!("{url} does not answer; read the log of the server, and run this command again")
        }
        (Error::Protocol(_), _) => {
            format!("{url} does not answer in HTTP; give the URL of plantd with --url")
        }
        _ if is_end(error) => format!(
            "{url} broke the connection off; read the log of the server, and if it speaks TLS, begin --url with https://"
        ),
        _ if !is_name_known(url) => {
            format!(
                "the host name in {url} is not known; correct --url, or check the DNS settings of this machine"
            )
        }
        _ => format!("cannot reach {url}; check the network, or choose another server with --url"),
    }
}

fn nothing_listens(url: &ServerUrl) -> String {
    format!("nothing listens at {url}; start the server, or choose another with --url")
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

/// Whether the name of the host resolves.
fn is_name_known(url: &ServerUrl) -> bool {
    let uri: Option<Uri> = url.at("/").parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    (host.trim_matches(['[', ']']), 0).to_socket_addrs().is_ok()
}

fn tls_error(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::Rustls(error) => Some(error),
        Error::Io(cause) => cause.get_ref()?.downcast_ref(),
        _ => None,
    }
}

fn tls_problem(url: &ServerUrl, error: &rustls::Error) -> String {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext,
    };
    use rustls::Error::{General, InvalidCertificate, InvalidMessage, Other};
    match error {
        InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            format!("the certificate of {url} is for another name; use one of its names in --url")
        }
        InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
        ) => format!(
            "the certificate of {url} has expired or is not valid yet; renew it, and check the clocks of both machines"
        ),
        InvalidCertificate(_) => format!(
            "this machine does not trust the certificate of {url}; set SSL_CERT_FILE to a file with the certificate of \
             its issuer"
        ),
        InvalidMessage(_) => format!("{url} does not speak TLS; begin --url with http://"),
        General(_) | Other(_) => format!(
            "there are no certificates to check {url} with; set SSL_CERT_FILE to a file that holds some"
        ),
        _ => format!("{url} and this machine cannot agree on TLS; read the log of the server"),
    }
}

/// Why a connection broke before the end of the answer.
pub(crate) fn cause(error: Error) -> anyhow::Error {
    match error {
        Error::Io(cause) => cause.into(),
        Error::Timeout(_) => anyhow!("nothing moved for {} s", IDLE_TIMEOUT.as_secs()),
        error => error.into(),
    }
}
