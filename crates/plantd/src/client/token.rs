//! The token that a client sends.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use plant_http::Token;

use crate::environment::TOKEN_VARIABLE;
use crate::exit::Stop;

/// The longest token that is sent, in bytes.
const TOKEN_MAX_BYTES: usize = 4096;

/// A token, which plantd need not have made.
pub(crate) struct ClientToken {
    text: String,
    /// The source, for messages.
    origin: String,
}

impl ClientToken {
    pub(crate) fn read(path: &Path) -> Result<Self, Stop> {
        let mut bytes = Vec::new();
        // A line end, and one byte more than a token may have.
        let limit = TOKEN_MAX_BYTES as u64 + 3;
        let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.with_context(|| format!("cannot read the token file {}", path.display()))
            .map_err(Stop::Io)?;
        Self::new(bytes.trim_ascii(), path.display().to_string()).map_err(Stop::Configuration)
    }

    pub(crate) fn from_environment() -> Result<Self, Stop> {
        let Some(token) = std::env::var_os(TOKEN_VARIABLE) else {
            return Err(Stop::Usage(anyhow!(
                "there is no token; name the file that holds one by --token-file, or put it into \
                 {TOKEN_VARIABLE}"
            )));
        };
        Self::new(token.as_encoded_bytes(), TOKEN_VARIABLE.to_owned()).map_err(Stop::Configuration)
    }

    fn new(token: &[u8], origin: String) -> anyhow::Result<Self> {
        ensure!(!token.is_empty(), "{origin} holds no token");
        ensure!(
            token.len() <= TOKEN_MAX_BYTES && token.iter().all(u8::is_ascii_graphic),
            "what {origin} holds is no token: one has {TOKEN_MAX_BYTES} characters at most, all of \
             them ASCII and none of them white space"
        );
        ensure!(
            !Token::is_mistyped(token),
            "the token that {origin} holds was cut or mistyped: its last characters are a checksum, which \
             does not fit"
        );
        Ok(Self { text: String::from_utf8_lossy(token).into_owned(), origin })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }
}
