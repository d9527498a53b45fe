//! The request body of an import: a file, read as fast as the server takes it.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use indicatif::ProgressBar;
use plant_http::transfer::{ImportFormat, RowReader, row_reader};

/// The body of an import.
pub(crate) struct Upload {
    file: File,
    /// How many bytes are left, if that is known.
    pub(crate) left: Option<u64>,
    pub(crate) progress: ProgressBar,
    /// How many bytes were passed on.
    pub(crate) sent: u64,
    /// Counts the rows as the server does. `None` after an error, where the server stops reading rows too.
    rows: Option<Box<dyn RowReader>>,
    count: u64,
    /// Why the file could not be read, if it could not.
    pub(crate) failure: Option<io::Error>,
}

impl Upload {
    pub(crate) fn open(path: &Path, format: ImportFormat) -> io::Result<Self> {
        let mut file = if path == Path::new("-") {
            io::stdin().as_fd().try_clone_to_owned()?.into()
        } else {
            File::open(path)?
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let left = if metadata.is_file() {
            // Standard input may be a file that was already read in part.
            Some(metadata.len().saturating_sub(file.stream_position()?))
        } else {
            None
        };
        let rows = Some(row_reader(format));
        let progress = ProgressBar::hidden();
        Ok(Self { file, left, progress, sent: 0, rows, count: 0, failure: None })
    }

    /// How many rows were sent.
    pub(crate) fn finish(self) -> u64 {
        let mut last = Vec::new();
        // A body in which no row can be read has no rows.
        let _ = self.rows.map(|mut rows| rows.finish(&mut last));
        self.count + last.len() as u64
    }

    fn read_file(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = match self.left {
            Some(left) => buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => buffer.len(),
        };
        let read = loop {
            match self.file.read(&mut buffer[..room]) {
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if read == 0 && room > 0 && self.left.is_some() {
            let cause = "the file became shorter while it was read";
            return Err(io::Error::new(ErrorKind::UnexpectedEof, cause));
        }
        let mut found = Vec::new();
        self.rows.take_if(|rows| rows.read(&buffer[..read], &mut found).is_err());
        self.count += found.len() as u64;
        self.sent += read as u64;
        self.left = self.left.map(|left| left.saturating_sub(read as u64));
        self.progress.inc(read as u64);
        Ok(read)
    }
}

impl Read for Upload {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_file(buffer).map_err(|cause| {
            self.failure = Some(cause);
            // This error only ends the request; the stored error is shown to the user.
            io::Error::other("the source cannot be read")
        })
    }
}
