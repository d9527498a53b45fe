//! Data folders with plants in them: filled once for each program, and copied for each measurement.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ureq::Agent;

use super::contender::Contender;
use super::interrupt;
use super::plants::{Plants, scattered};
use super::program::{DATA_FOLDER, Program};

const CONNECTIONS: u32 = 64;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Has a program create plants with scattered ids, of the numbers from 1 to `count`, in the data folder inside
/// `folder`, and stops it.
pub(super) fn fill(
    contender: &Contender,
    folder: &Path,
    token: &str,
    plants: &Plants,
    count: u64,
) -> anyhow::Result<()> {
    Program::start(contender, folder, token)?
        .run(|program| create_all(program.address(), token, plants, count))
}

/// Copies the data folder inside `from`, which no server has open, to `to`, and waits until the disk has it: a
/// measurement should not share the disk with that.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    copy_folder(&from.join(DATA_FOLDER), &to.join(DATA_FOLDER))
}

fn create_all(address: SocketAddr, token: &str, plants: &Plants, count: u64) -> anyhow::Result<()> {
    let next_number = AtomicU64::new(1);
    let create_some = || {
        // Others in the environment may say that there is a proxy.
        let agent: Agent =
            Agent::config_builder().proxy(None).timeout_global(Some(TIMEOUT)).build().into();
        loop {
            let number = next_number.fetch_add(1, Ordering::Relaxed);
            if number > count {
                return Ok(());
            }
            interrupt::check()?;
            let body = plants.json(scattered(number))?;
            let create = agent
                .post(format!("http://{address}/plants"))
                .header("Authorization", format!("Bearer {token}"))
                .header("Content-Type", "application/json")
                .send(&body);
            // A connection is used again once its answer was read.
            create
                .and_then(|mut answer| answer.body_mut().read_to_vec())
                .with_context(|| format!("cannot create {body}"))?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(create_some)).collect();
        let outcomes = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread that creates plants panicked")))
        });
        outcomes.collect()
    })
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::create_dir(to).with_context(context)?;
    for entry in fs::read_dir(from).with_context(context)? {
        let entry = entry.with_context(context)?;
        let target = to.join(entry.file_name());
        if entry.file_type().with_context(context)?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(context)?;
            File::open(&target).and_then(|file| file.sync_all()).with_context(context)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_files_and_the_folders() {
        let [from, to] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let inner = from.path().join(DATA_FOLDER).join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "text").unwrap();
        copy(from.path(), to.path()).unwrap();
        let copied = to.path().join(DATA_FOLDER).join("inner/file");
        assert_eq!(fs::read_to_string(copied).unwrap(), "text");
    }
}
