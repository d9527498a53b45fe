//! Pipes that a command reads as its standard input.

use std::io::{self, PipeReader, Write as _};
use std::thread;

/// A standard input with these bytes.
pub fn pipe_of(bytes: impl AsRef<[u8]> + Send + 'static) -> PipeReader {
    let (reader, mut writer) = io::pipe().expect("a pipe can be made");
    // Fails if the command does not read to the end, which the test notices.
    thread::spawn(move || writer.write_all(bytes.as_ref()));
    reader
}

/// A standard input that repeats this line without end.
pub fn endless_pipe(line: &'static str) -> PipeReader {
    let (reader, mut writer) = io::pipe().expect("a pipe can be made");
    thread::spawn(move || while writer.write_all(line.as_bytes()).is_ok() {});
    reader
}
