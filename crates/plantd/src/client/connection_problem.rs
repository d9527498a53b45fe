//! Explains what is wrong with the connection to a server, and what to do.

use std::io::ErrorKind;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use anyhow::anyhow;
use ureq::http::Uri;
use ureq::{Error, Timeout};

/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a transfer may stall. There is no limit on a whole exchange.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the server at `url` sent no answer, and what to do about it.
pub(crate) fn advice(url: &str, error: &Error) -> String {
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
            "{url} does not answer within {} s; see that the server runs and that no firewall is in \
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
        _ if !is_name_known(url) => {
            format!(
                "the name in {url} is not known; mend it in --url, or see that this machine finds names"
            )
        }
        _ => format!("cannot reach {url}; name another by --url"),
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

/// Whether the name of the host resolves.
fn is_name_known(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
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

/// Why a connection broke before the end of the answer.
pub(crate) fn cause(error: Error) -> anyhow::Error {
    match error {
        Error::Io(cause) => cause.into(),
        Error::Timeout(_) => anyhow!("nothing moved for {} s", IDLE_TIMEOUT.as_secs()),
        error => error.into(),
    }
}
