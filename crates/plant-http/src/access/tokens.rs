//! The tokens in force, and how many requests each of them may make.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::access::token::TokenDigest;
use crate::access::token_record::{Scope, TokenName, TokenRecord};

/// The tokens in force, each until it expires. A clone is the same tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    in_force: Arc<RwLock<Vec<Arc<TokenInForce>>>>,
    /// How many requests a second each token may make.
    rate_limit: Option<NonZeroU32>,
}

impl Tokens {
    /// These tokens, each for as many requests as it likes.
    #[must_use]
    pub fn new(records: Vec<TokenRecord>) -> Self {
        Self::build(records, None)
    }

    /// These tokens, each for at most so many requests a second, and as many at once.
    #[must_use]
    pub fn with_rate_limit(records: Vec<TokenRecord>, requests_a_second: NonZeroU32) -> Self {
        Self::build(records, Some(requests_a_second))
    }

    fn build(records: Vec<TokenRecord>, rate_limit: Option<NonZeroU32>) -> Self {
        let tokens = Self { in_force: Arc::default(), rate_limit };
        tokens.replace(records);
        tokens
    }

    /// From now on these tokens, and no others, are in force. One that was in force before has made the
    /// requests that it has made.
    pub fn replace(&self, records: Vec<TokenRecord>) {
        let before = self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone();
        let in_force = records
            .into_iter()
            .map(|record| {
                let before = before.iter().find(|token| token.record.is_of_same_token(&record));
                let limiter = match before {
                    Some(token) => token.limiter.clone(),
                    None => self
                        .rate_limit
                        .map(|rate| Arc::new(RateLimiter::direct(Quota::per_second(rate)))),
                };
                // With another expiry, its life begins anew.
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

    /// The token in force that this text is; `None` when it is unknown or has expired.
    ///
    /// How long this takes tells nothing of the tokens: digests are compared, each with each, in constant
    /// time.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Arc<TokenInForce>> {
        self.find_digest(&TokenDigest::of(text))
    }

    /// Whether this token, which was in force, still is.
    pub(crate) fn is_in_force(&self, token: &TokenInForce) -> bool {
        self.find_digest(&token.record.sha256).is_some()
    }

    fn find_digest(&self, digest: &TokenDigest) -> Option<Arc<TokenInForce>> {
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

/// A token in force, and what it has used of its rate.
pub(crate) struct TokenInForce {
    record: TokenRecord,
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
    life: Arc<Life>,
}

/// How long a token is valid in this process, whatever becomes of the clock.
struct Life {
    /// When its time is over at the latest: by what the clock showed when the token was first read.
    end: Option<Instant>,
    /// The token was found expired once.
    has_ended: AtomicBool,
}

impl Life {
    fn of(record: &TokenRecord) -> Self {
        let end = record.time_left().and_then(|left| Instant::now().checked_add(left));
        Self { end, has_ended: AtomicBool::new(false) }
    }

    /// `is_expired` is what the clock says now.
    fn has_ended(&self, is_expired: bool, now: Instant) -> bool {
        if is_expired || self.end.is_some_and(|end| end <= now) {
            self.has_ended.store(true, Relaxed);
        }
        self.has_ended.load(Relaxed)
    }
}

impl TokenInForce {
    /// Whether it has expired. Then it stays so, also where the clock is set back.
    fn is_expired(&self) -> bool {
        self.life.has_ended(self.record.is_expired(), Instant::now())
    }

    pub(crate) fn name(&self) -> &TokenName {
        &self.record.name
    }

    pub(crate) fn scope(&self) -> Scope {
        self.record.scope
    }

    /// Counts one request. Says whether it is not one too many.
    pub(crate) fn count_request(&self) -> bool {
        self.limiter.as_ref().is_none_or(|limiter| limiter.check().is_ok())
    }
}

impl fmt::Debug for TokenInForce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.record)
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_with;
    use std::time::Duration;

    use super::*;
    use crate::access::token::Token;

    fn record(scope: Scope, token: &Token) -> TokenRecord {
        TokenRecord::new(TokenName::new("test").expect("a good name"), scope, token)
    }

    fn scope_of(tokens: &Tokens, text: &str) -> Option<Scope> {
        tokens.find(text.as_bytes()).map(|token| token.scope())
    }

    #[test]
    fn a_token_in_force_has_its_scope_and_others_have_none() {
        let (reader, writer) = (Token::random().unwrap(), Token::random().unwrap());
        let tokens = Tokens::new(vec![record(Scope::Read, &reader), record(Scope::Write, &writer)]);
        assert_eq!(scope_of(&tokens, reader.reveal()), Some(Scope::Read));
        assert_eq!(scope_of(&tokens, writer.reveal()), Some(Scope::Write));
        for unknown in ["", "plantd_", &reader.reveal()[1..], &format!("{}=", reader.reveal())] {
            assert_eq!(scope_of(&tokens, unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn an_expired_token_is_not_in_force() {
        let token = Token::random().unwrap();
        let record = record(Scope::Write, &token);
        let past = record.created - Duration::from_secs(1);
        let lasting = record.clone().expiring_after(Duration::from_secs(3600)).unwrap();
        let expired = TokenRecord { expires: Some(past), ..record };
        for (record, scope) in [(lasting, Some(Scope::Write)), (expired, None)] {
            assert_eq!(scope_of(&Tokens::new(vec![record]), token.reveal()), scope);
        }
    }

    #[test]
    fn a_token_that_has_expired_stays_so_when_the_clock_is_set_back() {
        let token = Token::random().unwrap();
        let record = record(Scope::Write, &token).expiring_after(Duration::from_secs(60)).unwrap();
        let now = Instant::now();
        let by_clock = Life::of(&record);
        assert!(!by_clock.has_ended(false, now));
        assert!(by_clock.has_ended(true, now));
        assert!(by_clock.has_ended(false, now), "the clock was set back");
        // Nobody asked when it expired.
        assert!(Life::of(&record).has_ended(false, now + Duration::from_secs(61)));

        // It stays so when the file is read again, unless that says another expiry.
        let tokens = Tokens::new(vec![record.clone()]);
        tokens.find(token.reveal().as_bytes()).unwrap().life.has_ended(true, now);
        tokens.replace(vec![record.clone()]);
        assert_eq!(scope_of(&tokens, token.reveal()), None);
        tokens.replace(vec![TokenRecord { expires: None, ..record }]);
        assert_eq!(scope_of(&tokens, token.reveal()), Some(Scope::Write));
    }

    #[test]
    fn tokens_that_are_replaced_are_in_force_no_more() {
        let (old, new) = (Token::random().unwrap(), Token::random().unwrap());
        let tokens = Tokens::new(vec![record(Scope::Read, &old)]);
        let found = tokens.find(old.reveal().as_bytes()).expect("it is in force");
        assert!(tokens.is_in_force(&found));
        tokens.clone().replace(vec![record(Scope::Write, &new)]);
        assert!(!tokens.is_in_force(&found));
        assert_eq!(scope_of(&tokens, old.reveal()), None);
        assert_eq!(scope_of(&tokens, new.reveal()), Some(Scope::Write));
    }

    #[test]
    fn each_token_has_a_rate_of_its_own_which_outlives_a_change_of_the_file() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        let records = [&one, &other].map(|token| record(Scope::Read, token)).to_vec();
        let tokens = Tokens::with_rate_limit(records.clone(), NonZeroU32::MIN);
        let count = |token: &Token| {
            let found = tokens.find(token.reveal().as_bytes()).expect("it is in force");
            found.count_request()
        };
        assert!(repeat_with(|| count(&one)).any(|is_allowed| !is_allowed));
        assert!(count(&other));
        tokens.replace(records);
        assert!(!count(&one), "a change of the file gives no new requests");
    }
}
