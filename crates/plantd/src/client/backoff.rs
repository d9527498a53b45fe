//! How long to wait before a request is tried again.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use ureq::http::{HeaderMap, header};

/// The first and the longest pause of commands that wait for a server.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double from one try to the next. They are random, so that not all clients of a server that restarts come
/// back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// The longest that the next pause may be.
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next: FIRST, longest: LONGEST }
    }

    /// The backoff after this many pauses, the first of which was at most `first`.
    pub(crate) fn after(pauses: u32, first: Duration, longest: Duration) -> Self {
        let next = first.saturating_mul(2_u32.saturating_pow(pauses)).min(longest);
        Self { next, longest }
    }

    /// The pause before the next try.
    pub(crate) fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// The pause for which an answer asks with `Retry-After`: whole seconds, or a time (RFC 9110, section 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let time = DateTimeParser::new().parse_timestamp(text).ok()?;
    // A time that has passed asks for no pause.
    Some(Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_between_half_and_whole() {
        let mut backoff = Backoff::new();
        for (pauses, whole_ms) in (0..).zip([100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
            let whole = Duration::from_millis(whole_ms);
            let mut after = Backoff::after(pauses, FIRST, LONGEST);
            for pause in [backoff.pause(), after.pause()] {
                assert!((whole / 2..=whole).contains(&pause), "{pause:?} of {whole:?}");
            }
        }
        let mut after_many = Backoff::after(u32::MAX, FIRST, LONGEST);
        assert!(after_many.pause() <= LONGEST);
    }

    #[test]
    fn a_server_asks_for_a_pause_by_seconds_or_by_a_time() {
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().expect("a value"));
            retry_after(&headers)
        };
        assert_eq!(asked("120"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let far = asked("Fri, 01 Jan 2990 00:00:00 GMT").expect("a pause");
        assert!(far > Duration::from_secs(900 * 365 * 24 * 3600), "{far:?}");
        for text in ["", "soon", "-1", "1.5"] {
            assert_eq!(asked(text), None, "{text:?}");
        }
    }
}
