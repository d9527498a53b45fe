pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod plants;
