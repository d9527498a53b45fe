//! `plantd openapi`.

use std::io::{self, Write as _};

use anyhow::Context as _;

use crate::exit::Stop;

pub(crate) fn run() -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    out.write_all(plant_http::openapi_document().as_bytes())
        .and_then(|()| out.flush())
        .context("cannot print the document")
        .map_err(Stop::Io)
}
