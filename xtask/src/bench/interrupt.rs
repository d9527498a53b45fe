//! Ctrl-C and SIGTERM: a bench ends as it does by an error, with its programs stopped and its folders removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static IS_INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on these signals do not end the process, but are what [`check`] looks for.
pub(super) fn listen() -> anyhow::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&IS_INTERRUPTED))
            .with_context(|| format!("cannot listen to signal {signal}"))?;
    }
    Ok(())
}

/// Fails once there was a signal.
pub(super) fn check() -> anyhow::Result<()> {
    ensure!(!IS_INTERRUPTED.load(Ordering::Relaxed), "interrupted");
    Ok(())
}
