//! The token that a connection sent last.

use std::cell::RefCell;

use subtle::ConstantTimeEq as _;

use crate::access::token::TokenDigest;

/// The last valid token of a connection, with its digest. Most connections send one token with every request, and a digest costs
/// a tenth of a read. The digest is looked up for each request, so a revoked token is refused here too.
#[derive(Default)]
pub(crate) struct LastToken(RefCell<Option<(Vec<u8>, TokenDigest)>>);

impl LastToken {
    /// The digest, if this is the token. Compares in constant time, because a proxy may send the tokens of several clients on
    /// one connection.
    pub(super) fn digest_of(&self, token: &[u8]) -> Option<TokenDigest> {
        let last = self.0.borrow();
        let (text, digest) = last.as_ref()?;
        bool::from(text.ct_eq(token)).then_some(*digest)
    }

    pub(super) fn remember(&self, token: &[u8], digest: TokenDigest) {
        self.0.replace(Some((token.to_vec(), digest)));
    }
}
