pub(crate) mod cors;
pub(crate) mod gate;
pub(crate) mod last_token;
pub(crate) mod token;
pub(crate) mod token_record;
pub(crate) mod tokens;
