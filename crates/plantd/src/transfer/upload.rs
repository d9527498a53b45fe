//! The request body of an import: a file, read as fast as the server takes it.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use indicatif::ProgressBar;
use plant_http::transfer::ImportFormat;

use crate::transfer::row_counter::RowCounter;

/// What is read from.
pub(crate) struct Source {
    file: File,
    /// How many bytes there are to come, where that can be known.
    length: Option<u64>,
}

impl Source {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = if is_standard(path) {
            io::stdin().as_fd().try_clone_to_owned()?.into()
        } else {
            File::open(path)?
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        let length = if metadata.is_file() {
            // Standard input may be a file that somebody has begun to read.
            Some(metadata.len().saturating_sub(file.stream_position()?))
        } else {
            None
        };
        Ok(Self { file, length })
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }
}

/// The body of the request: the source, as long as the server reads it.
pub(crate) struct Upload<'a> {
    file: File,
    /// How many bytes of an announced length are to come.
    left: Option<u64>,
    progress: &'a ProgressBar,
    /// How many bytes were handed on to be sent.
    sent: u64,
    counter: RowCounter,
    /// Why the source could not be read.
    failure: Option<io::Error>,
}

impl<'a> Upload<'a> {
    pub(crate) fn new(source: Source, format: ImportFormat, progress: &'a ProgressBar) -> Self {
        let Source { file, length } = source;
        let counter = RowCounter::new(format);
        Self { file, left: length, progress, sent: 0, counter, failure: None }
    }

    pub(crate) fn left(&self) -> Option<u64> {
        self.left
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Why the source could not be read, if it could not.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// How many rows were sent.
    pub(crate) fn finish(self) -> u64 {
        self.counter.finish()
    }

    fn read_source(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
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
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "it has become shorter meanwhile",
            ));
        }
        self.sent += read as u64;
        self.counter.read(&buffer[..read]);
        self.progress.inc(read as u64);
        Ok(read)
    }
}

impl Read for Upload<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read_source(buffer) {
            Ok(read) => {
                self.left = self.left.map(|left| left.saturating_sub(read as u64));
                Ok(read)
            }
            Err(cause) => {
                self.failure = Some(cause);
                // It ends the request, and stays behind the one that is kept.
                Err(io::Error::other("the source cannot be read"))
            }
        }
    }
}

/// What to say of a file that cannot be read.
pub(crate) fn cannot_read(file: &Path) -> String {
    match is_standard(file) {
        true => "cannot read standard input".to_owned(),
        false => format!("cannot read {}", file.display()),
    }
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}
