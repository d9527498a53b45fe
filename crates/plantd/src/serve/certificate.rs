//! The files of the TLS certificate and its key.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use plant_http::TlsCertificate;

use crate::exit::Stop;
use crate::files::private_file::PrivateFile;
use crate::serve::followed_file::follow;

/// The permissions of users other than the owner and the group.
const MODE_OF_OTHERS: u32 = 0o007;

/// The certificate in force, and its files.
pub(crate) struct Certificate {
    files: Files,
    content: Content,
    in_force: TlsCertificate,
}

impl Certificate {
    /// Reads a certificate with its chain, and its key.
    pub(crate) fn read(chain: &Path, key: &Path) -> Result<Self, Stop> {
        let files = Files { chain: chain.to_owned(), key: key.to_owned() };
        let content = files.read().map_err(Stop::of_file)?;
        let in_force = TlsCertificate::from_pem(&content.chain.bytes, &content.key.bytes);
        let in_force = in_force.with_context(|| files.cannot_use()).map_err(Stop::Configuration)?;
        files.warn_when_open_to_others(&content);
        Ok(Self { files, content, in_force })
    }

    pub(crate) fn in_force(&self) -> TlsCertificate {
        self.in_force.clone()
    }

    /// The file of the certificate.
    pub(crate) fn chain(&self) -> &Path {
        &self.files.chain
    }

    /// Reloads the files when they change, from now on.
    pub(crate) fn follow(self) -> anyhow::Result<()> {
        let Self { files, content, in_force } = self;
        let read = {
            let files = files.clone();
            move || files.read()
        };
        let take = move |content: &Content| {
            let replaced = in_force.replace(&content.chain.bytes, &content.key.bytes);
            replaced.with_context(|| files.cannot_use())?;
            files.warn_when_open_to_others(content);
            Ok(())
        };
        follow("the TLS certificate", content, read, take)
    }
}

#[derive(Clone)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
}

/// What the files hold, as PEM.
#[derive(PartialEq, Eq)]
struct Content {
    chain: PrivateFile,
    key: PrivateFile,
}

impl Files {
    fn read(&self) -> anyhow::Result<Content> {
        let read = |path: &Path, flag| {
            // A missing file is an I/O error here.
            let not_found = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
            let file = PrivateFile::read(path, flag)?.ok_or_else(not_found);
            file.with_context(|| {
                format!("cannot read {}; check the path, or name another by {flag}", path.display())
            })
        };
        Ok(Content { chain: read(&self.chain, "--tls-cert")?, key: read(&self.key, "--tls-key")? })
    }

    fn cannot_use(&self) -> String {
        format!(
            "cannot speak TLS with the certificate in {} and the key in {}",
            self.chain.display(),
            self.key.display()
        )
    }

    fn warn_when_open_to_others(&self, content: &Content) {
        if content.key.is_open_to(MODE_OF_OTHERS) {
            let key = self.key.to_string_lossy();
            let quoted = shlex::try_quote(&key).unwrap_or("FILE".into());
            log::warn!(
                "every user of this machine can get at the key in {key}; run: chmod o= {quoted}"
            );
        }
    }
}
