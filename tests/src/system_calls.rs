//! System calls of the server, in order, from a trace of strace.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::wait_until;

/// One system call.
#[derive(Clone, Debug)]
pub struct SystemCall {
    /// Its name.
    pub name: String,
    /// Its arguments as strace shows them, but without what is in the strings.
    pub arguments: String,
    /// The strings among its arguments, unescaped.
    pub texts: Vec<Text>,
    /// Its result as strace shows it.
    pub result: String,
    /// The line of the trace on which it began.
    pub begun: usize,
    /// The line of the trace on which it returned.
    pub returned: usize,
}

impl SystemCall {
    /// The file or socket behind the descriptor that is its first argument.
    pub fn file(&self) -> Option<&str> {
        let (descriptor, rest) = self.arguments.split_once('<')?;
        descriptor.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        Some(rest.split_once('>')?.0)
    }

    /// The paths among its arguments.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let path = |text: &Text| {
            Path::new(text.folder.as_deref().unwrap_or_default())
                .join(OsStr::from_bytes(&text.bytes))
        };
        self.texts.iter().map(path).collect()
    }

    /// The descriptor that is its first argument.
    pub(crate) fn descriptor(&self) -> usize {
        leading_number(&self.arguments)
    }

    /// Whether a string among its arguments contains this text.
    pub fn has_text(&self, text: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        self.texts.iter().any(|string| has(&string.bytes))
    }

    /// The bytes that it has written: a short write takes fewer than it was given.
    pub fn written(&self) -> Vec<u8> {
        let texts: Vec<&[u8]> = self.texts.iter().map(|text| text.bytes.as_slice()).collect();
        let mut bytes = texts.concat();
        let written = if self.succeeded() { self.result_number() } else { 0 };
        assert!(written <= bytes.len(), "strace shows all that is written");
        bytes.truncate(written);
        bytes
    }

    /// Its last argument, which must be a number.
    pub(crate) fn last_number(&self) -> usize {
        let (_, last) = self.arguments.rsplit_once(", ").expect("several arguments");
        last.parse().expect("the last argument is a number")
    }

    /// Its result, which must be a number.
    pub(crate) fn result_number(&self) -> usize {
        leading_number(&self.result)
    }

    /// Whether it returned no error.
    pub fn succeeded(&self) -> bool {
        self.result.starts_with(|first: char| first.is_ascii_digit())
    }

    /// Whether it synced a file.
    pub fn is_sync(&self) -> bool {
        matches!(self.name.as_str(), "fdatasync" | "fsync") && self.succeeded()
    }

    /// Whether it writes to a file or a socket.
    pub fn is_write(&self) -> bool {
        matches!(
            self.name.as_str(),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg"
        )
    }
}

/// A string among the arguments of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The folder before the string, to which a relative path in it refers.
    pub folder: Option<String>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The system calls of one run, in the order in which they returned.
#[derive(Clone, Debug)]
pub struct SystemCalls {
    calls: Vec<SystemCall>,
    /// The number of calls that had not returned when the process ended.
    unfinished: usize,
}

impl SystemCalls {
    /// Reads the trace of a process that has ended. Waits until strace has written all of it.
    #[track_caller]
    pub fn read(trace: &Path, process_id: u32) -> Self {
        wait_until("strace to write the end of its trace", || {
            has_end(trace, process_id).expect("a trace can be read")
        });
        let lines = BufReader::new(File::open(trace).expect("a trace can be read")).split(b'\n');
        let lines = lines.map(|line| line.expect("a trace can be read"));
        Self::parse(lines.map(|line| String::from_utf8_lossy(&line).into_owned()))
    }

    pub(crate) fn parse(lines: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let (mut calls, mut never_returned) = (Vec::new(), 0);
        // strace splits a call into two lines if another thread makes a call meanwhile.
        let mut unfinished: HashMap<String, (usize, String)> = HashMap::new();
        for (number, line) in lines.enumerate() {
            let (thread, event) =
                line.as_ref().split_once(' ').expect("a line begins with a thread's id");
            let event = event.trim_start();
            if event.starts_with("+++") || event.starts_with("---") {
                continue;
            }
            if let Some(begin) = event.strip_suffix("<unfinished ...>") {
                unfinished.insert(thread.to_owned(), (number, begin.to_owned()));
                continue;
            }
            let (begun, whole) = match event.strip_prefix("<... ") {
                None => (number, Cow::Borrowed(event)),
                Some(resumed) => {
                    let (_, end) = resumed.split_once("resumed>").expect("the end of a call");
                    let (begun, begin) = unfinished.remove(thread).expect("a call that had begun");
                    (begun, Cow::Owned(begin + end))
                }
            };
            // A call during which the process was killed has no result.
            let Some((call, result)) = whole.rsplit_once(" = ") else { continue };
            let Some((name, arguments)) = call.split_once('(') else { continue };
            never_returned += usize::from(result.starts_with('?'));
            let arguments = arguments.trim_end().trim_end_matches(')').trim_end();
            let (arguments, texts) = without_texts(arguments);
            calls.push(SystemCall {
                name: name.to_owned(),
                arguments,
                texts,
                result: result.to_owned(),
                begun,
                returned: number,
            });
        }
        Self { calls, unfinished: never_returned + unfinished.len() }
    }

    /// The number of calls that had not returned when the process ended.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The number of lines up to the last call.
    pub fn lines(&self) -> usize {
        self.calls.last().map_or(0, |call| call.returned + 1)
    }

    /// The calls that satisfy `holds`.
    pub fn all(&self, holds: impl Fn(&SystemCall) -> bool) -> impl Iterator<Item = &SystemCall> {
        self.calls.iter().filter(move |call| holds(call))
    }

    /// The first call that satisfies `holds`. Panics, naming `what`, if there is none.
    #[track_caller]
    pub fn first(&self, what: &str, holds: impl Fn(&SystemCall) -> bool) -> &SystemCall {
        let found = self.calls.iter().find(|call| holds(call));
        found.unwrap_or_else(|| panic!("the trace does not show {what}"))
    }
}

/// The number at the beginning of a text, such as a descriptor before its path.
fn leading_number(text: &str) -> usize {
    let digits = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().expect("a number")
}

/// Whether the last line of a trace reports the end of this process. The ends of its other threads come before.
fn has_end(trace: &Path, process_id: u32) -> io::Result<bool> {
    const LAST_LINE_MAX_BYTES: u64 = 256;
    let mut file = match File::open(trace) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE_MAX_BYTES)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let end = String::from_utf8_lossy(&end);
    let last = end.lines().next_back().unwrap_or_default();
    let (thread, event) = last.split_once(' ').unwrap_or_default();
    let has_ended = event.contains("+++ exited with") || event.contains("+++ killed by");
    Ok(has_ended && thread == process_id.to_string())
}

/// The arguments of a call without what is in the strings, and the strings, unescaped.
fn without_texts(arguments: &str) -> (String, Vec<Text>) {
    let (mut without, mut texts) = (String::new(), Vec::new());
    let mut folder = None;
    let mut rest = arguments;
    while let Some(next) = rest.find(['<', '"']) {
        let (before, behind) = rest.split_at(next + 1);
        without += before;
        if before.ends_with('<') {
            let (path, _) = behind.split_once('>').unwrap_or((behind, ""));
            folder = Some(path.to_owned());
            without += path;
            rest = &behind[path.len()..];
        } else {
            let (bytes, behind) = unescape(behind);
            texts.push(Text { folder: folder.take(), bytes });
            without.push('"');
            rest = behind;
        }
    }
    (without + rest, texts)
}

/// The bytes of a string up to its closing quotation mark, and the text after that.
fn unescape(text: &str) -> (Vec<u8>, &str) {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        let (byte, after) = match rest {
            [] | [b'"', ..] => {
                let rest = &text[text.len() - rest.len()..];
                return (bytes, rest.strip_prefix('"').unwrap_or(rest));
            }
            [b'\\', b'n', after @ ..] => (b'\n', after),
            [b'\\', b't', after @ ..] => (b'\t', after),
            [b'\\', b'r', after @ ..] => (b'\r', after),
            [b'\\', b'v', after @ ..] => (0x0B, after),
            [b'\\', b'f', after @ ..] => (0x0C, after),
            [b'\\', b'x', high, low, after @ ..] => {
                (16 * hexadecimal(*high) + hexadecimal(*low), after)
            }
            [b'\\', digits @ ..] if matches!(digits, [b'0'..=b'7', ..]) => octal(digits),
            [b'\\'] | [b'\\', b'x', ..] => panic!("a text ends in an escape"),
            [b'\\', other, after @ ..] | [other, after @ ..] => (*other, after),
        };
        bytes.push(byte);
        rest = after;
    }
}

/// The number of a digit. Quick without optimization, as a trace has millions of them.
fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("not a hexadecimal digit: {digit}"),
    }
}

/// The byte with the number of up to three octal digits, and what follows those.
fn octal(text: &[u8]) -> (u8, &[u8]) {
    let digits = text.iter().take(3).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
    let (digits, after) = text.split_at(digits);
    (digits.iter().fold(0, |number, digit| 8 * number + (digit - b'0')), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_did_not_return_is_counted() {
        let trace = concat!(
            "71  fdatasync(4</d/db> <unfinished ...>\n",
            "72  fdatasync(5</d/db> <unfinished ...>\n",
            "73  fdatasync(5</d/db> <unfinished ...>\n",
            "71  <... fdatasync resumed>) = ?\n",
            "73  <... fdatasync resumed>) = 0\n",
            "72  +++ killed by SIGKILL +++\n",
        );
        let calls = SystemCalls::parse(trace.lines());
        assert_eq!(calls.unfinished(), 2);
        assert_eq!(calls.all(SystemCall::is_sync).count(), 1);
    }

    #[test]
    fn texts_are_shown_without_escapes_and_with_their_folders() {
        let trace = concat!(
            "7  unlinkat(3</d>, \"a\", 0) = 0\n",
            r#"7  write(4</d/b>, "\x00\xff\n\"<\\\1010", 8) = 8"#,
        );
        let calls = SystemCalls::parse(trace.lines());
        let text = |name: &str| &*calls.first(name, |call| call.name == name).texts;
        let folder = |folder: &str| Some(folder.to_owned());
        assert_eq!(text("unlinkat"), [Text { folder: folder("/d"), bytes: b"a".to_vec() }]);
        let bytes = b"\x00\xff\n\"<\\A0".to_vec();
        assert_eq!(text("write"), [Text { folder: folder("/d/b"), bytes }]);
    }
}
