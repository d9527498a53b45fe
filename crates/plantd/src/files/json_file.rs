//! Private files of JSON, which commands edit and a running server follows.

use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files::private_file::{self, PrivateFile};

/// The permissions of users other than the owner; but see [`PrivateFile::is_open_to`].
const MODE_OF_OTHERS: u32 = 0o077;

/// The content of a private file.
pub(crate) trait JsonFile: Default + Serialize + DeserializeOwned {
    /// The command-line flag that names the file.
    const FLAG: &'static str;

    /// What to do about a file that is not JSON of this form.
    const ADVICE: &'static str;

    /// Checks what the form of the file does not express.
    fn check(&self) -> anyhow::Result<()>;

    /// The bytes of the file; `None` if there is none. Fails as [`PrivateFile::read`], and when other users have permissions.
    fn read_bytes(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(file) = PrivateFile::read(path, Self::FLAG)? else { return Ok(None) };
        ensure!(
            !file.is_open_to(MODE_OF_OTHERS),
            "other users have permissions on {}; run: chmod 600 {}",
            path.display(),
            shlex::try_quote(&path.to_string_lossy())?
        );
        Ok(Some(file.bytes))
    }

    /// Parses the bytes, and checks the content.
    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let file: Self = parse_unchecked(bytes)?;
        file.check()?;
        Ok(file)
    }

    /// Reads and parses the file; `None` if there is none.
    fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let Some(bytes) = Self::read_bytes(path)? else { return Ok(None) };
        Self::parse(&bytes).map(Some).with_context(|| path.display().to_string())
    }

    /// Changes or makes the file, atomically and under a lock. The content is not checked, so that commands can mend it. After
    /// an error, the file is unchanged.
    fn edit<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let _lock = private_file::lock(path)?;
        let mut file = match Self::read_bytes(path)? {
            None => Self::default(),
            Some(bytes) => parse_unchecked(&bytes).with_context(|| path.display().to_string())?,
        };
        let changed = change(&mut file)?;
        let mut text = serde_json::to_string_pretty(&file)?;
        text.push('\n');
        private_file::write(path, &text)?;
        Ok(changed)
    }
}

/// The error says where the file is broken, but quotes nothing, because the text may be a secret.
fn parse_unchecked<File: JsonFile>(bytes: &[u8]) -> anyhow::Result<File> {
    serde_json::from_slice(bytes).map_err(|cause| {
        let (line, column) = (cause.line(), cause.column());
        anyhow::anyhow!("it is broken at line {line}, column {column}; {}", File::ADVICE)
    })
}
