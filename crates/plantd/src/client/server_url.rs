//! The URL of a server.

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{anyhow, ensure};
use url::{ParseError, SyntaxViolation, Url};

use crate::files::unix_socket::{self, UNIX_PREFIX};

/// The URL that requests over a Unix socket have. Nothing resolves its host, which only becomes the `Host` header.
const URL_OVER_UNIX_SOCKET: &str = "http://localhost";

const ADVICE: &str = "give a URL, such as http://127.0.0.1:8080, https://plants.example or unix:/run/plantd/plantd.sock";

/// Where a server is: `http` or `https`, a host, and maybe a port and a path prefix; or `unix:` and the path of its socket.
#[derive(Clone, Debug)]
pub(crate) struct ServerUrl {
    /// Without a slash at the end.
    base: String,
    socket: Option<PathBuf>,
}

impl ServerUrl {
    /// The URL of a path, which begins with a slash.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The Unix socket over which the server is reached; `None` for TCP.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }
}

impl FromStr for ServerUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix(UNIX_PREFIX) {
            unix_socket::check_path(path.as_ref()).map_err(|cause| anyhow!("{cause}; {ADVICE}"))?;
            return Ok(Self { base: URL_OVER_UNIX_SOCKET.to_owned(), socket: Some(path.into()) });
        }
        let url = parse_strictly(text).map_err(|cause| anyhow!("{cause}; {ADVICE}"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https"),
            "the scheme is neither http nor https; {ADVICE}"
        );
        let has_user = !url.username().is_empty() || url.password().is_some();
        ensure!(!has_user, "leave out the user; --token-file says who you are");
        ensure!(
            url.query().is_none() && url.fragment().is_none(),
            "the URL must end with a host or a path; leave out the query and the fragment"
        );
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), socket: None })
    }
}

/// Parses as the URL Standard does, and refuses what that standard only repairs, such as a backslash: nothing is sent to a
/// place that was not meant. Accepts a user and a password.
pub(crate) fn parse_strictly(text: &str) -> anyhow::Result<Url> {
    let repaired = Cell::new(None);
    let note = |violation| {
        if violation != SyntaxViolation::EmbeddedCredentials {
            repaired.set(Some(violation));
        }
    };
    let url =
        Url::options().syntax_violation_callback(Some(&note)).parse(text).map_err(|cause| {
            match cause {
                ParseError::RelativeUrlWithoutBase => anyhow!("the scheme is missing"),
                cause => cause.into(),
            }
        })?;
    if let Some(violation) = repaired.take() {
        return Err(anyhow!("{violation}"));
    }
    // An empty port stands for the default one, but here a variable in a script may have been empty.
    let authority = text.split('/').nth(2).unwrap_or_default();
    let is_port = url.port() != Some(0) && !authority.ends_with(':');
    ensure!(is_port, "a port is a number from 1 to 65535");
    // An address in another form, such as 010.0.0.1, is not the one that it seems to be.
    let host = url.host_str().unwrap_or_default();
    let written = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let after_host = written.strip_prefix(host);
    let is_host =
        after_host.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '?', '#']));
    // The forms of an IPv6 address mean one address.
    let is_host = is_host || written.starts_with('[');
    ensure!(is_host, "the host is {host}, so write it that way");
    Ok(url)
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(formatter, "{UNIX_PREFIX}{}", path.display()),
            None => formatter.write_str(&self.base),
        }
    }
}
