//! Where deliveries may go: to this machine, and to public addresses. The rules keep a webhook from reaching other services of
//! a private network, even by a name that an outsider controls (server-side request forgery).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use url::{Host, Url};

const URL_MAX_BYTES: usize = 2048;

/// A URL, and which protections its administrator has lifted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Destination {
    pub(crate) url: Url,
    /// Whether plants may travel unencrypted beyond this machine.
    pub(crate) allow_http: bool,
    /// Whether the addresses of private networks may be reached.
    pub(crate) allow_private: bool,
}

/// Shows only the origin: the rest of the URL may hold a secret.
impl fmt::Debug for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Destination").field(&self.origin()).finish()
    }
}

impl Destination {
    /// Checks the URL, and its host if that is an address. The addresses of a name are checked for each connection.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let url = &self.url;
        ensure!(url.as_str().len() <= URL_MAX_BYTES, "the URL has more than {URL_MAX_BYTES} bytes");
        ensure!(
            url.username().is_empty() && url.password().is_none(),
            "the URL holds a user or a password; leave them out, since deliveries are signed"
        );
        ensure!(url.fragment().is_none(), "leave out the fragment of the URL, from # on");
        match url.scheme() {
            "https" => {}
            "http" => ensure!(
                self.names_this_machine() || self.allow_http,
                "plants would travel unencrypted; use https, or add --allow-http"
            ),
            scheme => bail!("the scheme of the URL is {scheme}; use https"),
        }
        ensure!(
            self.address().is_none_or(|address| self.permits(address)),
            "the host is a private or reserved address; if that is intended, add --allow-private"
        );
        Ok(())
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// The host, if it is an address.
    fn address(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.to_canonical()),
            Host::Domain(_) => None,
        }
    }

    fn names_this_machine(&self) -> bool {
        let is_loopback = self.address().is_some_and(|address| address.is_loopback());
        is_loopback || self.url.host_str() == Some("localhost")
    }

    /// Whether deliveries may go to this address. A URL that names this machine reaches it alone, and another URL reaches it
    /// only with `allow_private`.
    fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        if self.names_this_machine() {
            return address.is_loopback();
        }
        let may_leave = self.url.scheme() == "https" || self.allow_http;
        may_leave && (self.allow_private || is_public(address))
    }
}

/// Whether an address is one of the public internet (RFC 6890 and the registries of IANA for special-purpose addresses).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        // This network; multicast, and what is reserved up to the broadcast address.
        || matches!(a, 0 | 224..)
        // Networks of carriers (RFC 6598), protocol assignments (RFC 6890), and networks for benchmarks (RFC 2544).
        || matches!((a, b, c), (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // A translator reaches the IPv4 address at the end (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Teredo and 6to4 tunnels end at an IPv4 address; the last network is for documentation.
        [0x2001, 0, ..] | [0x2002, ..] | [0x2001, 0xdb8, ..] => false,
        // Only these are global unicast addresses.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Resolves names for each connection, and leaves out the addresses that deliveries may not go to.
#[derive(Debug)]
pub(super) struct PermittedAddresses(pub(super) Destination);

impl Resolver for PermittedAddresses {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let mut permitted = self.empty();
        for address in found.iter().filter(|address| self.0.permits(address.ip())) {
            permitted.push(*address);
        }
        if permitted.is_empty() { Err(Error::Other(Box::new(NotPermitted))) } else { Ok(permitted) }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the host has only private or reserved addresses, which this webhook may not reach")]
struct NotPermitted;

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(url: &str, [allow_http, allow_private]: [bool; 2]) -> Destination {
        let url = Url::parse(url).expect("a URL");
        Destination { url, allow_http, allow_private }
    }

    #[test]
    fn urls_need_encryption_and_a_public_host_unless_an_option_says_otherwise() {
        const HTTP: &str = "--allow-http";
        const PRIVATE: &str = "--allow-private";
        for (url, refusals) in [
            ("https://shop.example/plants?key=1", [None; 3]),
            ("https://93.184.215.14", [None; 3]),
            ("http://127.0.0.1:9000/", [None; 3]),
            ("http://[::1]:9000/", [None; 3]),
            ("http://localhost:9000/", [None; 3]),
            ("http://shop.example", [Some(HTTP), None, Some(HTTP)]),
            ("http://localhost.example", [Some(HTTP), None, Some(HTTP)]),
            ("https://192.168.1.1", [Some(PRIVATE), Some(PRIVATE), None]),
            ("https://0x0a000001", [Some(PRIVATE), Some(PRIVATE), None]),
            ("https://[::ffff:169.254.169.254]", [Some(PRIVATE), Some(PRIVATE), None]),
            ("http://169.254.169.254", [Some(HTTP), Some(PRIVATE), Some(HTTP)]),
            ("https://ann:secret@shop.example", [Some("a user or a password"); 3]),
            ("HTTPS://shop.example", [None; 3]),
            ("ftp://shop.example", [Some("use https"); 3]),
            ("https://shop.example/#top", [Some("fragment"); 3]),
        ] {
            let allowed = [[false, false], [true, false], [false, true]];
            for (allowed, refusal) in allowed.into_iter().zip(refusals) {
                let checked = destination(url, allowed).check();
                let said = checked.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(said.contains(refusal.unwrap_or_default()), "{url}: {said}");
                assert_eq!(said.is_empty(), refusal.is_none(), "{url}: {said}");
            }
        }
    }

    #[test]
    fn addresses_are_checked_in_each_form_that_reaches_the_same_machine() {
        let [public, private, this] = [
            destination("https://shop.example", [false, false]),
            destination("https://shop.example", [false, true]),
            destination("http://localhost", [true, true]),
        ];
        let allowed = "1.1.1.1 172.15.0.1 172.32.0.1 100.128.0.1 192.0.1.1 2606:4700::1 64:ff9b::101:101 ::ffff:1.1.1.1";
        let refused = "0.0.0.0 10.1.2.3 100.64.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.168.0.1 198.19.0.1 \
             224.0.0.1 255.255.255.255 :: fc00::1 fe80::1 ff02::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1::1 2001::1 \
             192.0.2.1 2001:db8::1";
        let loopback = "127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1";
        for (addresses, is_public, is_loopback) in
            [(allowed, true, false), (refused, false, false), (loopback, false, true)]
        {
            for address in addresses.split_whitespace() {
                let address: IpAddr = address.parse().expect("an address");
                assert_eq!(public.permits(address), is_public, "{address}");
                assert!(private.permits(address), "{address}");
                assert_eq!(this.permits(address), is_loopback, "{address}");
            }
        }
    }
}
