//! The URL of a server: the value of `--url`.

use std::net::ToSocketAddrs as _;
use std::str::FromStr;

use anyhow::{bail, ensure};
use ureq::http::Uri;

/// `http` or `https`, a host, and perhaps a path prefix; without a slash at its end.
#[derive(Clone, Debug)]
pub(crate) struct ServerUrl(String);

impl ServerUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the host's name resolves.
    pub(crate) fn is_name_known(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_the_url_of_a_server_is_refused() {
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
}
