//! The valid tokens, and how many requests each of them may make.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::access::token::TokenDigest;
use crate::access::token_record::TokenRecord;

/// The valid tokens, each until it expires. Clones share the same tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    in_force: Arc<RwLock<Vec<Arc<TokenInForce>>>>,
    requests_per_second: Option<NonZeroU32>,
}

impl Tokens {
    /// These tokens, without a rate limit.
    #[must_use]
    pub fn new(records: Vec<TokenRecord>) -> Self {
        let tokens = Self::default();
        tokens.replace(records);
        tokens
    }

    /// These tokens, each for at most this many requests a second, and as many at once.
    #[must_use]
    pub fn with_rate_limit(records: Vec<TokenRecord>, requests_per_second: NonZeroU32) -> Self {
        let requests_per_second = Some(requests_per_second);
        let tokens = Self { requests_per_second, ..Self::default() };
        tokens.replace(records);
        tokens
    }

    /// Replaces the valid tokens by these. A token that was valid before keeps the count of its requests.
    pub fn replace(&self, records: Vec<TokenRecord>) {
        let before = self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone();
        let in_force = records
            .into_iter()
            .map(|record| {
                let before = before.iter().find(|token| token.record.is_of_same_token(&record));
                let limiter = match before {
                    Some(token) => token.limiter.clone(),
                    None => self
                        .requests_per_second
                        .map(|rate| Arc::new(RateLimiter::direct(Quota::per_second(rate)))),
                };
                let life = match before {
                    Some(token) if token.record.expires == record.expires => {
                        Arc::clone(&token.life)
                    }
                    _ => Arc::new(Life::of(&record)),
                };
                Arc::new(TokenInForce { record, limiter, life })
            })
            .collect();
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = in_force;
    }

    /// Whether this token, which was valid, still is.
    pub(super) fn is_in_force(&self, token: &TokenInForce) -> bool {
        self.find(&token.record.sha256).is_some()
    }

    /// The valid token with this digest; `None` when it is unknown or has expired. Compares with every token, each in constant
    /// time, so that the duration reveals nothing.
    pub(super) fn find(&self, digest: &TokenDigest) -> Option<Arc<TokenInForce>> {
        let in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for token in in_force.iter() {
            if token.record.sha256.is(digest) {
                found = Some(token);
            }
        }
        found.filter(|token| !token.is_expired()).cloned()
    }
}

/// A valid token, and its use of its rate.
pub(super) struct TokenInForce {
    pub(super) record: TokenRecord,
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
    life: Arc<Life>,
}

/// How long a token is valid in this process, even when the clock is set back.
struct Life {
    /// The end of the lifetime, computed from the clock when the token was first read.
    end: Option<Instant>,
    /// Whether the token has ever been found expired.
    has_ended: AtomicBool,
}

impl Life {
    fn of(record: &TokenRecord) -> Self {
        let end = record.time_left().and_then(|left| Instant::now().checked_add(left));
        Self { end, has_ended: AtomicBool::new(false) }
    }

    /// `is_expired` is the answer of the clock at `now`.
    fn has_ended(&self, is_expired: bool, now: Instant) -> bool {
        if is_expired || self.end.is_some_and(|end| end <= now) {
            self.has_ended.store(true, Relaxed);
        }
        self.has_ended.load(Relaxed)
    }
}

impl TokenInForce {
    fn is_expired(&self) -> bool {
        self.life.has_ended(self.record.is_expired(), Instant::now())
    }

    /// Counts a request. Returns whether it is within the rate.
    pub(super) fn count_request(&self) -> bool {
        self.limiter.as_ref().is_none_or(|limiter| limiter.check().is_ok())
    }
}

impl fmt::Debug for TokenInForce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_with;
    use std::time::Duration;

    use super::*;
    use crate::access::token::Token;
    use crate::access::token_record::{Scope, TokenName};

    fn record(token: &Token) -> TokenRecord {
        TokenRecord::new(TokenName::new("test").expect("a good name"), Scope::Read, token)
    }

    #[test]
    fn a_token_that_has_expired_stays_so_when_the_clock_is_set_back() {
        let token = Token::random().unwrap();
        let record = record(&token).expiring_after(Duration::from_secs(60)).unwrap();
        let now = Instant::now();
        let by_clock = Life::of(&record);
        assert!(!by_clock.has_ended(false, now));
        assert!(by_clock.has_ended(true, now));
        assert!(by_clock.has_ended(false, now), "the clock was set back");
        // Holds even if no request came at the time of expiry.
        assert!(Life::of(&record).has_ended(false, now + Duration::from_secs(61)));

        // A token that has expired stays expired when the file is read again, unless the file has another expiry.
        let tokens = Tokens::new(vec![record.clone()]);
        let find = || tokens.find(&token.digest());
        find().unwrap().life.has_ended(true, now);
        tokens.replace(vec![record.clone()]);
        assert!(find().is_none());
        tokens.replace(vec![TokenRecord { expires: None, ..record }]);
        assert!(find().is_some());
    }

    #[test]
    fn the_count_of_a_token_s_requests_outlives_a_change_of_the_file() {
        let token = Token::random().unwrap();
        let tokens = Tokens::with_rate_limit(vec![record(&token)], NonZeroU32::MIN);
        let count = || tokens.find(&token.digest()).unwrap().count_request();
        assert!(repeat_with(count).any(|is_allowed| !is_allowed));
        tokens.replace(vec![record(&token)]);
        assert!(!count(), "a change of the file gives no new requests");
    }
}
