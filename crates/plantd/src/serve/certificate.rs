//! The files of the TLS certificate and its key.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use plant_http::TlsCertificate;
use prometheus::Gauge;

use crate::exit::Stop;
use crate::files::followed_file::follow;
use crate::files::private_file::PrivateFile;

/// The permissions of users other than the owner and the group.
const MODE_OF_OTHERS: u32 = 0o007;

/// The current certificate, and its files.
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    key: PathBuf,
    /// The content of the chain's and the key's files, as PEM.
    content: [PrivateFile; 2],
    pub(crate) in_force: TlsCertificate,
    /// When the certificate in force expires.
    pub(crate) expires: Gauge,
}

impl Certificate {
    /// Reads a certificate with its chain, and its key.
    pub(crate) fn read(chain: &Path, key: &Path) -> Result<Self, Stop> {
        let content = read_files(chain, key).map_err(Stop::of_file)?;
        let in_force = TlsCertificate::from_pem(&content[0].bytes, &content[1].bytes);
        let in_force =
            in_force.with_context(|| cannot_use(chain, key)).map_err(Stop::Configuration)?;
        warn_when_open_to_others(key, &content[1]);
        let expires = Gauge::new(
            "plantd_certificate_expiry_timestamp_seconds",
            "When the TLS certificate in force expires, in seconds since 1970.",
        )?;
        expires.set(seconds_since_1970(in_force.expires()));
        Ok(Self { chain: chain.to_owned(), key: key.to_owned(), content, in_force, expires })
    }

    /// Reloads the files when they change, from now on.
    pub(crate) fn follow(self) -> anyhow::Result<()> {
        let Self { chain, key, content, in_force, expires } = self;
        let read = {
            let (chain, key) = (chain.clone(), key.clone());
            move || read_files(&chain, &key)
        };
        let take = move |content: &[PrivateFile; 2]| {
            let replaced = in_force.replace(&content[0].bytes, &content[1].bytes);
            replaced.with_context(|| cannot_use(&chain, &key))?;
            expires.set(seconds_since_1970(in_force.expires()));
            warn_when_open_to_others(&key, &content[1]);
            Ok(())
        };
        follow("the TLS certificate", content, read, take)
    }
}

fn read_files(chain: &Path, key: &Path) -> anyhow::Result<[PrivateFile; 2]> {
    let read = |path: &Path, flag| {
        // Unlike a missing tokens file, a missing certificate or key is an error.
        let not_found = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
        let file = PrivateFile::read(path, flag)?.ok_or_else(not_found);
        file.with_context(|| {
            format!("cannot read {}; check the path, or choose another with {flag}", path.display())
        })
    };
    Ok([read(chain, "--tls-cert")?, read(key, "--tls-key")?])
}

/// The time as a number for a metric. NaN if the time is unknown, so that no alert fires by mistake.
fn seconds_since_1970(time: Option<SystemTime>) -> f64 {
    let since_1970 = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_1970.map_or(f64::NAN, |time| time.as_secs_f64())
}

fn cannot_use(chain: &Path, key: &Path) -> String {
    format!(
        "cannot speak TLS with the certificate in {} and the key in {}",
        chain.display(),
        key.display()
    )
}

fn warn_when_open_to_others(path: &Path, key: &PrivateFile) {
    if key.is_open_to(MODE_OF_OTHERS) {
        let path = path.to_string_lossy();
        let quoted = shlex::try_quote(&path).unwrap_or("FILE".into());
        log::warn!(
            "every user of this machine can access the key in {path}; run: chmod o= {quoted}"
        );
    }
}
