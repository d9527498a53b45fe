//! Certificates of tests, and clients that trust them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// An authority, which issues certificates.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "The authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate can be made"))
    }

    /// The certificate of the authority, as PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The certificate of the authority.
    pub fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A new certificate for a server on this machine, with a new key.
    pub fn issue(&self) -> IssuedCertificate {
        self.issue_until(4096)
    }

    /// Like [`Self::issue`], but the certificate expires on the first day of this year.
    pub fn issue_until(&self, year: i32) -> IssuedCertificate {
        let key = KeyPair::generate().expect("a key can be made");
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let mut params = CertificateParams::new(names).expect("names of this machine");
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate can be made");
        IssuedCertificate {
            chain: certificate.pem() + &self.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
        }
    }

    /// A client that trusts this authority, with these versions of TLS and ALPN protocols.
    pub fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.der()).expect("an authority can be trusted");
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions that there are")
            .with_webpki_verifier(verifier.build().expect("there is a root"))
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// Like [`Self::client`], with all versions and without ALPN.
    pub fn plain_client(&self) -> Arc<ClientConfig> {
        self.client(rustls::ALL_VERSIONS, &[])
    }
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The certificate and that of its authority, as PEM.
    pub chain: String,
    /// The key, as PEM.
    pub key: String,
    /// The certificate itself.
    pub der: CertificateDer<'static>,
}

impl IssuedCertificate {
    /// Writes the chain, then the key into this folder, each atomically, as ACME clients do.
    pub fn write(&self, folder: &Path) {
        replace_file(&chain_path(folder), &self.chain);
        replace_file(&key_path(folder), &self.key);
    }
}

/// The path of the certificate in this folder.
pub fn chain_path(folder: &Path) -> PathBuf {
    folder.join("fullchain.pem")
}

/// The path of the key in this folder.
pub fn key_path(folder: &Path) -> PathBuf {
    folder.join("privkey.pem")
}

/// Writes a file that only its owner can read, and atomically replaces an existing one.
pub fn replace_file(path: &Path, text: &str) {
    let folder = path.parent().expect("a file is in a folder");
    let file = tempfile::NamedTempFile::new_in(folder).expect("a file can be made");
    fs::write(file.path(), text).expect("a file can be written");
    file.persist(path).expect("a file can be renamed");
}
