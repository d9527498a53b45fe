//! How long to wait before a request is tried again.

use std::time::Duration;

use ureq::http::{HeaderMap, header};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double from one try to the next. They are random, so that not all clients of a server that restarts come
/// back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// The longest that the next pause may be.
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// The pause before the next try.
    pub(crate) fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// The pause for which an answer asks: the whole seconds in `Retry-After`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse::<u32>().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_between_half_and_whole() {
        let mut backoff = Backoff::new();
        for whole_ms in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let whole = Duration::from_millis(whole_ms);
            let pause = backoff.pause();
            assert!((whole / 2..=whole).contains(&pause), "{pause:?} of {whole:?}");
        }
    }
}
