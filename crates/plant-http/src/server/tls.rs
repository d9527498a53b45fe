//! TLS: the current certificate, and the handshake.
//!
//! The server does the handshake itself, not actix-http, so that it has a deadline, counts as a connection, and
//! ends with the server.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, ServerConfig};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::server::deadlines::{FIRST_BYTES_GRACE, HEAD_DEADLINE};
use crate::server::transport::TimedSocket;

/// The only protocol over TLS. A client that offers only others is refused.
const PROTOCOL: &[u8] = b"http/1.1";

/// The server's certificate, with its chain and its private key.
///
/// Clones share one certificate: [`Self::replace`] replaces it for all of them.
#[derive(Clone)]
pub struct TlsCertificate {
    in_force: Arc<RwLock<InForce>>,
}

#[derive(Clone)]
struct InForce {
    /// The whole configuration, so that no session of a replaced certificate is resumed.
    config: Arc<ServerConfig>,
    expires: Option<SystemTime>,
}

impl TlsCertificate {
    /// Reads a chain of certificates, the server's own first, and its private key (PKCS#8, SEC1 or PKCS#1), both as
    /// PEM. Neither the validity of the certificate nor its names are checked; clients do that.
    ///
    /// # Errors
    ///
    /// When one of them cannot be used, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, UnusableCertificate> {
        Ok(Self { in_force: Arc::new(RwLock::new(InForce::from_pem(chain, key)?)) })
    }

    /// Replaces the certificate for all connections that are accepted from now on. Open connections keep theirs.
    ///
    /// # Errors
    ///
    /// Those of [`Self::from_pem`]; the current certificate then stays in use.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), UnusableCertificate> {
        let new = InForce::from_pem(chain, key)?;
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// When the server's own certificate stops being valid; `None` if that cannot be read.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.in_force().expires
    }

    fn in_force(&self) -> InForce {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does the handshake with a client that has just connected. Once `closed` is ready, the client has as much
    /// time as a client that has sent nothing yet.
    pub(super) async fn shake_hands(
        &self,
        socket: TimedSocket,
        closed: impl Future<Output = ()>,
    ) -> io::Result<Box<TlsStream<TimedSocket>>> {
        let acceptor = TlsAcceptor::from(self.in_force().config);
        let handshake = timeout(HEAD_DEADLINE, acceptor.accept(socket));
        let drained = async {
            closed.await;
            sleep(FIRST_BYTES_GRACE).await;
        };
        let mut stream = tokio::select! {
            shaken = handshake => shaken??,
            () = drained => return Err(io::ErrorKind::TimedOut.into()),
        };
        // The bytes so far were the handshake's, not a request's.
        stream.get_mut().0.has_news = false;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TlsCertificate(…)")
    }
}

/// Why a certificate and a key cannot be used, and what to do. The message does not reveal their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableCertificate(&'static str);

impl InForce {
    fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, UnusableCertificate> {
        let chain = certificates(chain)?;
        let expires = chain.first().and_then(end_of_validity);
        Ok(Self { config: Arc::new(server_config(chain, key)?), expires })
    }
}

/// The certificates of a chain, at least one.
fn certificates(chain: &[u8]) -> Result<Vec<CertificateDer<'static>>, UnusableCertificate> {
    let chain: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|_| {
        UnusableCertificate("the certificate's file is broken PEM; get it again from its issuer")
    })?;
    if chain.is_empty() {
        return Err(UnusableCertificate(
            "the certificate's file has no -----BEGIN CERTIFICATE----- (PEM); give the file with the certificate, best \
             with its whole chain",
        ));
    }
    Ok(chain)
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
) -> Result<ServerConfig, UnusableCertificate> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| match cause {
        PemError::NoItemsFound => UnusableCertificate(
            "the key's file has no private key as PEM that is not encrypted; give the file of the key, in PKCS#8, SEC1 \
             or PKCS#1",
        ),
        _ => UnusableCertificate("the key's file is broken PEM; get it again from where it was made"),
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => UnusableCertificate(
                "the key is not that of the certificate; give the two that were made together, the server's own \
                 certificate first in its file",
            ),
            Error::InvalidCertificate(_) => UnusableCertificate(
                "the first certificate in the file, which is the server's own, cannot be read; get it again from its \
                 issuer",
            ),
            _ => UnusableCertificate(
                "the key cannot be used; make one that is RSA with at least 2048 bits, ECDSA over P-256 or P-384, or \
                 Ed25519",
            ),
        })?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// The end of a certificate's validity (RFC 5280, section 4.1.2.5).
fn end_of_validity(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.validity.not_after.to_system_time())
}
