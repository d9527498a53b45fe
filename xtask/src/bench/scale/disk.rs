//! What a folder takes of a disk, and the files that the kernel keeps in memory.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::cargo;

/// The unit in which a file counts its blocks, whatever the file system.
const BLOCK_BYTES: u64 = 512;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// The blocks that the files of a folder have, which may come and go meanwhile.
pub(super) fn allocated_bytes(folder: &Path) -> anyhow::Result<u64> {
    let context = || format!("cannot tell the size of {}", folder.display());
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path())?,
            Ok(metadata) => metadata.blocks() * BLOCK_BYTES,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error).with_context(context),
        };
    }
    Ok(bytes)
}

/// Lets the kernel forget all files that it has in memory. Says why not where it may not be told to.
pub(super) fn drop_caches() -> anyhow::Result<Result<(), String>> {
    // It keeps what is not on the disk yet.
    cargo::run(Command::new("sync").stdin(Stdio::null()))?;
    match fs::write(DROP_CACHES, "3") {
        Ok(()) => Ok(Ok(())),
        Err(error) if may_be_forbidden(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error).with_context(|| format!("cannot write {DROP_CACHES}")),
    }
}

fn may_be_forbidden(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_takes_the_blocks_of_all_its_files_and_not_what_they_could_hold() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let written = inner.join("written");
        fs::write(&written, vec![1; 100_000]).unwrap();
        fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        let bytes = allocated_bytes(folder.path()).unwrap();
        assert_eq!(bytes, written.metadata().unwrap().blocks() * BLOCK_BYTES);
    }
}
