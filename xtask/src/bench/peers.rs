//! What people would use instead of plantd: services of a few lines on a framework and SQLite, in `bench/peers`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use cargo_metadata::Metadata;

use crate::{packages, tools};

/// A server that takes the options `--listen` and `--data`, and the token from PLANTD_TOKEN, as plantd does. It
/// prints its own name instead of plantd's when it is ready.
#[derive(Debug)]
pub(super) struct Peer {
    /// What it is made of, for tables.
    pub(super) name: &'static str,
    pub(super) executable: PathBuf,
    /// What comes before those options.
    pub(super) arguments: Vec<String>,
}

/// Brings what the peers need, and says how to start them.
pub(super) fn install(workspace: &Metadata) -> anyhow::Result<Vec<Peer>> {
    tools::ensure(&[tools::NODE_OF_BENCHES, tools::NPM, tools::CXX, tools::MAKE, tools::PYTHON])?;
    Ok(vec![fastify(workspace)?, fastapi(workspace)?])
}

fn fastify(workspace: &Metadata) -> anyhow::Result<Peer> {
    let folder = packages::FASTIFY.ensure(workspace)?;
    // A module finds packages in the folders above it only.
    let source = packages::FASTIFY.sources(workspace).join("server.js");
    let server = folder.join("server.js");
    fs::copy(&source, &server).with_context(|| format!("cannot copy {source} to {server}"))?;
    Ok(Peer {
        name: "Fastify + better-sqlite3",
        executable: folder.join("node_modules/.bin/node").into(),
        arguments: vec![server.into_string()],
    })
}

fn fastapi(workspace: &Metadata) -> anyhow::Result<Peer> {
    let folder = packages::FASTAPI.ensure(workspace)?;
    Ok(Peer {
        name: "FastAPI + SQLite",
        executable: folder.join("bin/python").into(),
        arguments: vec![packages::FASTAPI.sources(workspace).join("server.py").into_string()],
    })
}
