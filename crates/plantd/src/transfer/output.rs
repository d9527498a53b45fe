//! Where an export goes. A file holds all of it or is as it was before.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, StdoutLock, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The bits of a file's mode that say who may do what.
const MODE_PERMISSIONS: u32 = 0o7777;

/// The mode of a new file, of which the umask takes something away.
const NEW_FILE_MODE: u32 = 0o666;

/// What is written to. Only [`Output::finish`] makes sure that all of it is there.
pub(crate) enum Output {
    Standard(StdoutLock<'static>),
    /// A device or a pipe, which cannot be replaced.
    Stream(File),
    /// A file beside the one that it is to become.
    File {
        unfinished: NamedTempFile,
        path: PathBuf,
    },
}

impl Output {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard(io::stdout().lock()));
        }
        let existing = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                return Ok(Self::Stream(File::options().write(true).open(path)?));
            }
            // A link stays what it is: what it leads to is replaced.
            Ok(metadata) => Some((fs::canonicalize(path)?, metadata)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(cause),
        };
        let (path, existing) = existing
            .map_or_else(|| (path.to_owned(), None), |(path, metadata)| (path, Some(metadata)));
        let unfinished = create_beside(&path, existing.as_ref())?;
        Ok(Self::File { unfinished, path })
    }

    /// What is to be done about a part that was written, before the whole is written again. The part of a file is gone
    /// by itself.
    pub(crate) fn advice_on_part(&self) -> &'static str {
        match self {
            Self::Standard(_) => "throw away the part that went to standard output, and ",
            Self::Stream(_) => "throw away the part that was written, and ",
            Self::File { .. } => "",
        }
    }

    /// Ends the writing, and puts a file where it belongs.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Standard(mut stdout) => stdout.flush(),
            Self::Stream(_) => Ok(()),
            Self::File { unfinished, path } => {
                unfinished.as_file().sync_all()?;
                unfinished.persist(&path)?;
                // From here on the new name survives a power cut.
                File::open(folder_of(&path))?.sync_all()
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(stdout) => stdout.write(bytes),
            Self::Stream(file) => file.write(bytes),
            Self::File { unfinished, .. } => unfinished.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(stdout) => stdout.flush(),
            Self::Stream(file) => file.flush(),
            Self::File { unfinished, .. } => unfinished.flush(),
        }
    }
}

/// A file in the same folder, open to those who may open the one that it replaces.
fn create_beside(path: &Path, existing: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut prefix = name.to_owned();
    prefix.push(".");
    let mode = existing.map_or(NEW_FILE_MODE, |metadata| metadata.permissions().mode());
    let permissions = Permissions::from_mode(mode & MODE_PERMISSIONS);
    let unfinished = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".unfinished")
        .permissions(permissions.clone())
        .tempfile_in(folder_of(path))?;
    if existing.is_some() {
        // The umask has no say here.
        unfinished.as_file().set_permissions(permissions)?;
    }
    Ok(unfinished)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// What to say of a file that cannot be written.
pub(crate) fn cannot_write(file: &Path) -> String {
    match file == Path::new("-") {
        true => "cannot write to standard output".to_owned(),
        false => format!("cannot write {}", file.display()),
    }
}
