//! TLS: the certificate in force, and the handshake.
//!
//! The handshake is done here and not by actix-http, so that it has a deadline, counts as a connection,
//! and ends when the server does.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, ServerConfig};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::server::deadlines::{FIRST_BYTES_GRACE, HEAD_DEADLINE};
use crate::server::transport::{TimedSocket, Transport};

/// The only protocol that is spoken over TLS. A client that offers others alone is refused.
const PROTOCOL: &[u8] = b"http/1.1";

/// The certificate that clients are shown, with its chain and its private key.
///
/// Clones are the same certificate: when one [is replaced](Self::replace), all are.
///
/// ```
/// use std::net::TcpListener;
///
/// use plant_http::{ListeningSocket, TlsCertificate};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
/// # let (first, next) = (made()?, made()?);
/// # let (chain, key) = (first.cert.pem(), first.signing_key.serialize_pem());
/// # let (next_chain, next_key) = (next.cert.pem(), next.signing_key.serialize_pem());
/// let certificate = TlsCertificate::from_pem(chain.as_bytes(), key.as_bytes())?;
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let socket = ListeningSocket::from(listener).with_tls(certificate.clone());
///
/// // Later, while the socket is served.
/// certificate.replace(next_chain.as_bytes(), next_key.as_bytes())?;
/// // Nothing changes when the two do not belong together.
/// assert!(certificate.replace(chain.as_bytes(), next_key.as_bytes()).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TlsCertificate {
    /// With all that depends on the certificate, such as the sessions that clients may resume.
    in_force: Arc<RwLock<Arc<ServerConfig>>>,
}

impl TlsCertificate {
    /// Reads a chain of certificates, the server's own first, and its private key (PKCS#8, SEC1 or
    /// PKCS#1), both as PEM. Whether the certificate is valid today, and for which names, is for clients
    /// to see.
    ///
    /// # Errors
    ///
    /// When one of them cannot be used, or they do not belong together. The message tells nothing of
    /// what they hold.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, UnusableCertificate> {
        let config = Arc::new(server_config(chain, key)?);
        Ok(Self { in_force: Arc::new(RwLock::new(config)) })
    }

    /// Puts another certificate in force, for all connections that are taken from now on. Those that are
    /// open go on with what they have.
    ///
    /// # Errors
    ///
    /// As [`Self::from_pem`]; then the certificate in force stays in force.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), UnusableCertificate> {
        let config = Arc::new(server_config(chain, key)?);
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Shakes hands with a client that has just connected. `closed` is there when no more connections are
    /// taken: the client has as long from then on as one that has sent nothing yet.
    pub(crate) async fn shake_hands(
        &self,
        wire: TimedSocket,
        closed: impl Future<Output = ()>,
    ) -> io::Result<Transport> {
        let config = Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = timeout(HEAD_DEADLINE, TlsAcceptor::from(config).accept(wire));
        let drained = async {
            closed.await;
            sleep(FIRST_BYTES_GRACE).await;
        };
        let stream = tokio::select! {
            shaken = handshake => shaken??,
            () = drained => return Err(io::ErrorKind::TimedOut.into()),
        };
        Ok(Transport::over_tls(stream))
    }
}

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TlsCertificate(…)")
    }
}

/// Why a certificate and a key cannot be used. No message tells what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnusableCertificate {
    /// The certificate is broken PEM.
    #[error("the file of the certificate is broken PEM; get it anew from whoever issued it")]
    BrokenChain,
    /// There is no certificate.
    #[error(
        "the file of the certificate holds none as PEM, which begins with -----BEGIN CERTIFICATE-----; name the file \
         that does, best with its whole chain"
    )]
    NoCertificate,
    /// The server's own certificate cannot be read.
    #[error(
        "the server's own certificate, which is the first in its file, cannot be read; get it anew from whoever issued \
         it"
    )]
    UnreadableCertificate,
    /// The key is broken PEM.
    #[error("the file of the key is broken PEM; get it anew from where it was made")]
    BrokenKey,
    /// There is no key, or only one that is encrypted.
    #[error(
        "the file of the key holds none as PEM that is not encrypted; name the file of the private key, in PKCS#8, SEC1 \
         or PKCS#1"
    )]
    NoKey,
    /// The key is of a kind, or of a size, that TLS does not use.
    #[error(
        "the key cannot be used; make one that is RSA with at least 2048 bits, ECDSA over P-256 or P-384, or Ed25519"
    )]
    UnusableKey,
    /// The key is not that of the certificate.
    #[error(
        "the key is not that of the certificate; name the two that were made together, the server's own certificate \
         first in its file"
    )]
    OtherKey,
}

fn server_config(chain: &[u8], key: &[u8]) -> Result<ServerConfig, UnusableCertificate> {
    let chain: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|_| UnusableCertificate::BrokenChain)?;
    if chain.is_empty() {
        return Err(UnusableCertificate::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| match cause {
        PemError::NoItemsFound => UnusableCertificate::NoKey,
        _ => UnusableCertificate::BrokenKey,
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => UnusableCertificate::OtherKey,
            Error::InvalidCertificate(_) => UnusableCertificate::UnreadableCertificate,
            _ => UnusableCertificate::UnusableKey,
        })?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
