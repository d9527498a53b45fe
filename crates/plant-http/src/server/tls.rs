//! TLS: the current certificate, and the handshake.
//!
//! The server does the handshake itself, not actix-http, so that it has a deadline, counts as a connection, and
//! ends with the server.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, ServerConfig};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::server::deadlines::{FIRST_BYTES_GRACE, HEAD_DEADLINE};
use crate::server::transport::TimedSocket;

/// The only protocol over TLS. A client that offers only others is refused.
const PROTOCOL: &[u8] = b"http/1.1";

/// The server's certificate, with its chain and its private key.
///
/// Clones share one certificate: [`Self::replace`] replaces it for all of them.
#[derive(Clone)]
pub struct TlsCertificate {
    /// The whole configuration, so that no session of a replaced certificate is resumed.
    in_force: Arc<RwLock<Arc<ServerConfig>>>,
}

impl TlsCertificate {
    /// Reads a chain of certificates, the server's own first, and its private key (PKCS#8, SEC1 or PKCS#1), both as
    /// PEM. Neither the validity of the certificate nor its names are checked; clients do that.
    ///
    /// # Errors
    ///
    /// When one of them cannot be used, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, UnusableCertificate> {
        let config = Arc::new(server_config(chain, key)?);
        Ok(Self { in_force: Arc::new(RwLock::new(config)) })
    }

    /// Replaces the certificate for all connections that are accepted from now on. Open connections keep theirs.
    ///
    /// # Errors
    ///
    /// Those of [`Self::from_pem`]; the current certificate then stays in use.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), UnusableCertificate> {
        let config = Arc::new(server_config(chain, key)?);
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Does the handshake with a client that has just connected. Once `closed` is ready, the client has as much
    /// time as a client that has sent nothing yet.
    pub(super) async fn shake_hands(
        &self,
        socket: TimedSocket,
        closed: impl Future<Output = ()>,
    ) -> io::Result<Box<TlsStream<TimedSocket>>> {
        let config = Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = timeout(HEAD_DEADLINE, TlsAcceptor::from(config).accept(socket));
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

fn server_config(chain: &[u8], key: &[u8]) -> Result<ServerConfig, UnusableCertificate> {
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
