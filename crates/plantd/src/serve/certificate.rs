//! The files of the TLS certificate and its key.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use plant_http::TlsCertificate;

use crate::exit::Stop;
use crate::files::private_file::PrivateFile;
use crate::serve::followed_file::follow;

/// The bits of a file's mode that let others than its owner and its group at it.
const MODE_OF_OTHERS: u32 = 0o007;

/// The certificate in force, and where it comes from.
pub(crate) struct Certificate {
    files: Files,
    /// What they held when they were read.
    pem: Pem,
    in_force: TlsCertificate,
}

impl Certificate {
    /// The certificate in the file `chain`, with those that lead to it, and its key.
    pub(crate) fn read(chain: &Path, key: &Path) -> Result<Self, Stop> {
        let files = Files { chain: chain.to_owned(), key: key.to_owned() };
        let pem = files.read().map_err(Stop::of_file)?;
        let in_force = TlsCertificate::from_pem(&pem.chain.bytes, &pem.key.bytes);
        let in_force = in_force.with_context(|| files.cannot_use()).map_err(Stop::Configuration)?;
        files.warn_when_open_to_others(&pem);
        Ok(Self { files, pem, in_force })
    }

    pub(crate) fn in_force(&self) -> TlsCertificate {
        self.in_force.clone()
    }

    /// The file of the certificate.
    pub(crate) fn chain(&self) -> &Path {
        &self.files.chain
    }

    /// From now on, what the files hold is in force soon after they change.
    pub(crate) fn follow(self) -> anyhow::Result<()> {
        let Self { files, pem, in_force } = self;
        let read = {
            let files = files.clone();
            move || files.read()
        };
        let take = move |pem: &Pem| {
            let replaced = in_force.replace(&pem.chain.bytes, &pem.key.bytes);
            replaced.with_context(|| files.cannot_use())?;
            files.warn_when_open_to_others(pem);
            Ok(())
        };
        follow("the TLS certificate", pem, read, take)
    }
}

#[derive(Clone)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
}

/// What the files hold.
#[derive(PartialEq, Eq)]
struct Pem {
    chain: PrivateFile,
    key: PrivateFile,
}

impl Files {
    fn read(&self) -> anyhow::Result<Pem> {
        Ok(Pem { chain: read(&self.chain, "--tls-cert")?, key: read(&self.key, "--tls-key")? })
    }

    fn cannot_use(&self) -> String {
        let Self { chain, key } = self;
        format!(
            "cannot speak TLS with the certificate in {} and the key in {}",
            chain.display(),
            key.display()
        )
    }

    fn warn_when_open_to_others(&self, pem: &Pem) {
        if pem.key.is_open_to(MODE_OF_OTHERS) {
            let key = self.key.to_string_lossy();
            let quoted = shlex::try_quote(&key).unwrap_or("FILE".into());
            log::warn!(
                "every user of this machine can get at the key in {key}; run: chmod o= {quoted}"
            );
        }
    }
}

fn read(path: &Path, flag: &str) -> anyhow::Result<PrivateFile> {
    // What is not there is what cannot be read.
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
    let file = PrivateFile::read(path, flag)?.ok_or_else(not_found);
    file.with_context(|| {
        format!("cannot read {}; check the path, or name another by {flag}", path.display())
    })
}
