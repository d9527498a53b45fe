//! The queue of log lines between the threads that log and standard error.
//!
//! One thread writes the lines, many at a time. A reader of standard error that stalls never stalls the server: when the
//! queue is full, lines about single requests are dropped, and a line says how many.

use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prometheus::IntCounter;

/// A droppable line is dropped when more than this many bytes, about 60,000 lines, would wait. With 1 MiB, an import that logged each
/// plant lost lines although the log went to a file.
const DROPPABLE_MAX_BYTES: usize = 8 * 1024 * 1024;

/// The capacity that a buffer keeps after a burst of lines, in bytes.
const CAPACITY_KEPT_BYTES: usize = 1024 * 1024;

/// The most bytes that wait, whatever the lines. Bounds the memory that a stalled reader takes if errors never end. The writer
/// may hold as many again that it has taken.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How long the writer lets lines gather. Under load it writes many lines at once, and wakes rarely.
const GATHER: Duration = Duration::from_millis(2);

/// How long the writer waits before it tries again to write to a full pipe that does not block.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// How long the end of the program waits for a reader that has stalled.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// Whether a line may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Importance {
    /// A line about one request, or for debugging.
    Droppable,
    /// An error, or a line about the server itself.
    Kept,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct LogQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    dropped_lines: IntCounter,
    /// The writer waits for lines.
    has_lines: Condvar,
    /// A flush waits until all lines are written.
    is_written: Condvar,
}

impl Default for Shared {
    fn default() -> Self {
        let dropped_lines = IntCounter::new(
            "plantd_log_dropped_lines_total",
            "Log lines lost: the queue was full, or a write to standard error failed.",
        )
        .expect("a name of a metric");
        let (has_lines, is_written) = Default::default();
        Self { state: Mutex::default(), dropped_lines, has_lines, is_written }
    }
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    dropped: u64,
    /// Whether the writer has taken lines that it has not written yet.
    is_writing: bool,
    /// Whether the writer sleeps until there are lines.
    is_idle: bool,
}

/// The result of writing lines. After an error of the output, such as a full disk, the rest of the lines is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    lost_lines: u64,
    /// Whether the output ends within a line.
    is_cut: bool,
}

/// Writes lines. If the output ends within a line, `is_cut`, first ends that line.
fn write_lines(output: &mut impl Write, lines: &[u8], mut is_cut: bool) -> Written {
    let mut rest = lines;
    while !rest.is_empty() {
        let next = if is_cut { b"\n" } else { rest };
        match output.write(next) {
            Ok(1..) if is_cut => is_cut = false,
            Ok(written @ 1..) => rest = &rest[written..],
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            // A pipe that does not block is full.
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_INTERVAL),
            _ => {
                let lost_lines = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
                let written = &lines[..lines.len() - rest.len()];
                is_cut |= written.last().is_some_and(|byte| *byte != b'\n');
                return Written { lost_lines, is_cut };
            }
        }
    }
    Written::default()
}

impl LogQueue {
    /// Starts the thread that writes the lines. `notice` makes the line for a number of dropped lines.
    pub(crate) fn start(
        &self,
        mut output: impl Write + Send + 'static,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<()> {
        let queue = self.clone();
        let write = move || {
            let (mut lines, mut untold, mut is_cut) = (Vec::new(), 0, false);
            loop {
                untold += queue.take(&mut lines);
                let has_notice = untold > 0;
                if has_notice {
                    lines.extend_from_slice(notice(untold).as_bytes());
                }
                let written = write_lines(&mut output, &lines, is_cut);
                is_cut = written.is_cut;
                if written.lost_lines == 0 {
                    untold = 0;
                } else {
                    // The notice is the last line, so it is lost too. The next notice counts these lines again.
                    let lost = written.lost_lines - u64::from(has_notice);
                    untold += lost;
                    queue.0.dropped_lines.inc_by(lost);
                }
                queue.has_written();
                lines.clear();
                lines.shrink_to(CAPACITY_KEPT_BYTES);
            }
        };
        thread::Builder::new().name("plantd-log".to_owned()).spawn(write).map(drop)
    }

    pub(crate) fn dropped_lines(&self) -> IntCounter {
        self.0.dropped_lines.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, which ends with a line feed, or drops and counts it.
    pub(crate) fn push(&self, line: &[u8], importance: Importance) {
        let max_bytes = match importance {
            Importance::Droppable => DROPPABLE_MAX_BYTES,
            Importance::Kept => MAX_BYTES,
        };
        let mut state = self.state();
        if state.lines.len() + line.len() > max_bytes {
            state.dropped += 1;
            self.0.dropped_lines.inc();
            return;
        }
        state.lines.extend_from_slice(line);
        if mem::take(&mut state.is_idle) {
            drop(state);
            self.0.has_lines.notify_one();
        }
    }

    /// Waits for lines, and takes all of them. Returns how many were dropped after them.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        let mut state = self.state();
        while state.lines.is_empty() {
            state.is_idle = true;
            state = self.0.has_lines.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        thread::sleep(GATHER);
        let mut state = self.state();
        mem::swap(&mut state.lines, lines);
        state.is_writing = true;
        mem::take(&mut state.dropped)
    }

    fn has_written(&self) {
        self.state().is_writing = false;
        self.0.is_written.notify_all();
    }

    /// Waits until all lines are written, but not forever for a reader that has stalled.
    pub(crate) fn flush(&self) {
        let begun = Instant::now();
        let mut state = self.state();
        while state.is_writing || !state.lines.is_empty() {
            let Some(patience) = FLUSH_PATIENCE.checked_sub(begun.elapsed()) else { return };
            let waited = self.0.is_written.wait_timeout(state, patience);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers the writes in turn: with a number of bytes, or an error.
    struct Output(Vec<io::Result<usize>>);

    impl Write for Output {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0.remove(0)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_refused_by_a_full_pipe_are_written_later_and_lines_lost_to_write_errors_are_counted() {
        let error = |kind: ErrorKind| Err(kind.into());
        let lines = b"one\ntwo\nthree\n";
        let full = vec![Ok(4), error(ErrorKind::WouldBlock), error(ErrorKind::Interrupted), Ok(10)];
        let cut_off = |written| vec![Ok(written), error(ErrorKind::StorageFull)];
        for (writes, was_cut, lost_lines, is_cut) in [
            (full, false, 0, false),
            (cut_off(4), false, 2, false),
            (vec![Ok(6), Ok(0)], false, 2, true),
            (vec![error(ErrorKind::StorageFull)], true, 3, true),
            (vec![Ok(1), Ok(14)], true, 0, false),
            (vec![Ok(1), Ok(3), error(ErrorKind::StorageFull)], true, 3, true),
        ] {
            let mut output = Output(writes);
            let written = write_lines(&mut output, lines, was_cut);
            assert_eq!(written, Written { lost_lines, is_cut });
            assert!(output.0.is_empty());
        }
    }

    /// A disk that stores as many bytes as it has room for.
    #[derive(Clone, Default)]
    struct Disk {
        room: Arc<AtomicUsize>,
        content: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room.load(Ordering::SeqCst));
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room.fetch_sub(taken, Ordering::SeqCst);
            self.content.lock().expect("no panic").extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_notice_counts_every_line_lost_to_a_full_disk_once_when_the_disk_has_room_again() {
        const LINES: u64 = 30;
        let (queue, disk) = (LogQueue::default(), Disk::default());
        // For two lines and a half.
        disk.room.store(18, Ordering::SeqCst);
        queue.start(disk.clone(), |count| format!("{count} lost\n")).expect("a thread");
        for _ in 0..LINES {
            queue.push(b"a line\n", Importance::Kept);
            queue.flush();
        }
        disk.room.store(1_000, Ordering::SeqCst);
        queue.push(b"the end\n", Importance::Kept);
        queue.flush();
        let content = disk.content.lock().expect("no panic").clone();
        let lost = format!("{} lost", LINES - 2);
        let expected = ["a line", "a line", "a li", "the end", &lost];
        assert_eq!(String::from_utf8(content).expect("text").lines().collect::<Vec<_>>(), expected);
        assert_eq!(queue.dropped_lines().get(), LINES - 2);
    }
}
