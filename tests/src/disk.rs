//! A model of a disk that loses power: synced data survives, and so does a random part of the rest.
//!
//! The model replays the system calls of one run of the server, traced by strace ([`SystemCalls`]), and can be cut at
//! any of them.
//! - A write to a file is durable after a `fsync` or `fdatasync` of that file that began after the write had
//!   returned. Any combination of the other writes may survive, and any combination of the sectors of one write.
//! - A created, changed or removed name is durable after a `fsync` of its folder, which also makes the names on the
//!   path to that folder durable, and no others. The other changes survive in order, up to any of them, as on a file
//!   system with a journal.
//!
//! `content` models the bytes of files; this file models names, and what each call does.
//!
//! The model does not cover disks that acknowledge syncs too early, sectors with neither the old nor the new bytes,
//! or files that grow by data of other files. It would miss writes through `mmap` and `io_uring`, which the server
//! does not use.

mod content;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use self::content::{Content, ContentChange, Odds, any_odds};
use crate::system_calls::{SystemCall, SystemCalls};

/// The system calls to trace: those that change or sync files, and those that answer requests.
pub const TRACED: &str = "trace=open,openat,creat,lseek,write,pwrite64,writev,pwritev,pwritev2,sendto,\
                          sendmsg,ftruncate,truncate,fallocate,copy_file_range,sendfile,link,linkat,\
                          rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,\
                          fdatasync";

/// A folder on a disk that may lose power.
#[derive(Clone, Debug)]
pub struct Disk {
    folder: PathBuf,
    /// All files and folders that ever existed.
    inodes: Vec<Inode>,
    /// The names as the running system sees them.
    names: Names,
    /// The names that survive every power cut.
    durable_names: Names,
    /// The later changes of names, in order.
    pending_names: Vec<NameChange>,
    /// For each write-only descriptor, the file and the offset of its next plain `write`. The offsets of other
    /// descriptors are unknown: reads move them, and the trace shows no reads.
    offsets: BTreeMap<usize, (InodeNumber, usize)>,
}

#[derive(Clone, Debug)]
enum Inode {
    Folder,
    File(Content),
}

/// An index into the inodes.
type InodeNumber = usize;

const ROOT: InodeNumber = 0;

/// A folder, and a name in it.
type Name = (InodeNumber, OsString);

type Names = BTreeMap<Name, InodeNumber>;

/// A name that is created, removed, or renamed.
#[derive(Clone, Debug)]
struct NameChange {
    removed: Option<Name>,
    made: Option<(Name, InodeNumber)>,
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(name) = &self.removed {
            names.remove(name);
        }
        names.extend(self.made.clone());
    }

    fn names(&self) -> impl Iterator<Item = &Name> {
        self.removed.iter().chain(self.made.iter().map(|(name, _)| name))
    }
}

impl Disk {
    /// A disk with this folder as it is now, all of it durable.
    pub fn holding(folder: &Path) -> Self {
        let folder = folder.canonicalize().expect("the folder is there");
        let mut disk = Self {
            folder: folder.clone(),
            inodes: vec![Inode::Folder],
            names: Names::new(),
            durable_names: Names::new(),
            pending_names: Vec::new(),
            offsets: BTreeMap::new(),
        };
        disk.read(&folder, ROOT);
        disk.durable_names = disk.names.clone();
        disk
    }

    fn read(&mut self, path: &Path, folder: InodeNumber) {
        for entry in fs::read_dir(path).expect("a folder can be read") {
            let entry = entry.expect("a folder can be read");
            let path = entry.path();
            let number = if path.is_dir() {
                let number = self.add(Inode::Folder);
                self.read(&path, number);
                number
            } else {
                let bytes = fs::read(path).expect("a file can be read");
                self.add(Inode::File(Content::durable(bytes)))
            };
            self.names.insert((folder, entry.file_name()), number);
        }
    }

    fn add(&mut self, inode: Inode) -> InodeNumber {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    /// Continues with the trace of another process, after the replay of the first one; line numbers begin anew. If a
    /// kill interrupted a write, its result is not in the trace, so the folder shows what the write changed.
    pub fn begin_trace(&mut self) {
        self.offsets.clear();
        for inode in &mut self.inodes {
            if let Inode::File(file) = inode {
                file.begin_trace();
            }
        }
        self.catch_up(ROOT, &self.folder.clone());
    }

    fn catch_up(&mut self, folder: InodeNumber, path: &Path) {
        let within = self.names.range((folder, OsString::new())..(folder + 1, OsString::new()));
        let within: Vec<_> = within.map(|((_, name), number)| (path.join(name), *number)).collect();
        for (path, number) in within {
            match &mut self.inodes[number] {
                Inode::Folder => self.catch_up(number, &path),
                Inode::File(file) => file.catch_up(&fs::read(path).expect("a file can be read")),
            }
        }
    }

    /// Replays the calls on these lines of the trace.
    pub fn run(&mut self, calls: &SystemCalls, lines: Range<usize>) {
        let mut moments = Vec::new();
        for call in calls.all(SystemCall::succeeded) {
            moments.push((call.begun, false, call));
            moments.push((call.returned, true, call));
        }
        moments.retain(|(line, ..)| lines.contains(line));
        // The sort is stable: a call on one line begins before it returns.
        moments.sort_by_key(|(line, ..)| *line);
        for (_, has_returned, call) in moments {
            match (call.is_write(), has_returned) {
                (true, false) => self.write(call),
                // Other calls take effect when they return.
                (false, true) => self.carry_out(call),
                _ => {}
            }
        }
    }

    fn carry_out(&mut self, call: &SystemCall) {
        let paths = call.paths();
        let of_last = paths.last().and_then(|path| self.name_of(path));
        match call.name.as_str() {
            "open" | "openat" | "creat" => self.open(call),
            "mkdir" | "mkdirat" => {
                if let Some(name) = of_last {
                    let folder = self.add(Inode::Folder);
                    self.rename(None, Some((name, folder)));
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let of_first = paths.first().and_then(|path| self.name_of(path));
                match (of_first, of_last) {
                    (Some(from), Some(to)) => {
                        let number = self.names[&from];
                        self.rename(Some(from), Some((to, number)));
                    }
                    (None, None) => {}
                    _ => panic!("{paths:?} are not on one disk"),
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                if of_last.is_some() {
                    self.rename(of_last, None);
                }
            }
            "fsync" | "fdatasync" => self.sync(call),
            "ftruncate" => {
                if let Some(file) = self.file_of(call) {
                    file.change(call.returned, ContentChange::Resize(call.last_number()));
                }
            }
            "lseek" => {
                if let Some((_, offset)) = self.offsets.get_mut(&call.descriptor()) {
                    *offset = call.result_number();
                }
            }
            other => {
                let of_descriptor = call.file().map(Path::new);
                let is_ours = |path: &Path| path.starts_with(&self.folder);
                assert!(
                    !paths.iter().map(PathBuf::as_path).chain(of_descriptor).any(is_ours),
                    "this disk does not know {other}: {}",
                    call.arguments
                );
            }
        }
    }

    /// The names on the path from the disk's folder, up to the one of `path` itself. Empty for the folder itself;
    /// `None` when `path` is outside or its parent does not exist.
    fn way_to(&self, path: &Path) -> Option<Vec<Name>> {
        let (mut way, mut folder) = (Vec::new(), Some(ROOT));
        for part in path.strip_prefix(&self.folder).ok()? {
            let name = (folder?, part.to_owned());
            folder = self.names.get(&name).copied();
            way.push(name);
        }
        Some(way)
    }

    /// The name of a path, which need not exist; `None` for the disk's folder itself and for paths outside.
    fn name_of(&self, path: &Path) -> Option<Name> {
        self.way_to(path)?.pop()
    }

    fn number_of(&self, path: &Path) -> Option<InodeNumber> {
        match self.way_to(path)?.last() {
            None => Some(ROOT),
            Some(name) => self.names.get(name).copied(),
        }
    }

    /// The file of the call's descriptor, if it is on this disk.
    fn file_of(&mut self, call: &SystemCall) -> Option<&mut Content> {
        let number = self.number_of(Path::new(call.file()?))?;
        match &mut self.inodes[number] {
            Inode::File(file) => Some(file),
            Inode::Folder => None,
        }
    }

    fn open(&mut self, call: &SystemCall) {
        let Some(path) = call.paths().pop().filter(|path| path.starts_with(&self.folder)) else {
            return;
        };
        let has = |flag: &str| call.arguments.contains(flag);
        assert!(!has("O_APPEND"), "this disk cannot place appended bytes: {path:?}");
        let number = self.number_of(&path).unwrap_or_else(|| {
            assert!(has("O_CREAT"), "{path:?} came from nowhere");
            let name = self.name_of(&path).expect("the folder of the path exists");
            let number = self.add(Inode::File(Content::default()));
            self.rename(None, Some((name, number)));
            number
        });
        self.offsets.remove(&call.result_number());
        if let Inode::File(file) = &mut self.inodes[number] {
            if has("O_WRONLY") {
                self.offsets.insert(call.result_number(), (number, 0));
            }
            if has("O_TRUNC") {
                file.change(call.returned, ContentChange::Resize(0));
            }
        }
    }

    fn rename(&mut self, removed: Option<Name>, made: Option<(Name, InodeNumber)>) {
        let change = NameChange { removed, made };
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn write(&mut self, call: &SystemCall) {
        let Some(number) = call.file().and_then(|file| self.number_of(Path::new(file))) else {
            return;
        };
        let bytes = call.written();
        let offset = match call.name.as_str() {
            "pwrite64" => call.last_number(),
            "write" => {
                let offset = self.offsets.get_mut(&call.descriptor());
                let (_, offset) = offset
                    .filter(|(of, _)| *of == number)
                    .expect("a plain write needs a file that is open for writing alone");
                *offset += bytes.len();
                *offset - bytes.len()
            }
            other => panic!("this disk does not know {other}"),
        };
        if let Inode::File(file) = &mut self.inodes[number] {
            file.change(call.returned, ContentChange::Write { offset, bytes });
        }
    }

    fn sync(&mut self, call: &SystemCall) {
        if let Some(file) = self.file_of(call) {
            file.became_durable(|returned| returned < call.begun);
        } else if let Some(path) = call.file().map(Path::new)
            && let Some(folder) = self.number_of(path)
        {
            let way = self.way_to(path).expect("the folder exists");
            self.sync_folder(folder, way);
        }
    }

    /// Makes the changes in one folder durable, the names on the path to it, and all earlier changes of the same
    /// names.
    fn sync_folder(&mut self, folder: InodeNumber, way: Vec<Name>) {
        let mut needed = way;
        let mut is_synced = vec![false; self.pending_names.len()];
        for (change, is_synced) in self.pending_names.iter().zip(&mut is_synced).rev() {
            *is_synced = change.names().any(|name| name.0 == folder || needed.contains(name));
            if *is_synced {
                needed.extend(change.names().cloned());
            }
        }
        let pending = std::mem::take(&mut self.pending_names);
        for (change, is_synced) in pending.into_iter().zip(is_synced) {
            if is_synced {
                change.apply(&mut self.durable_names);
            } else {
                self.pending_names.push(change);
            }
        }
    }

    /// Cuts the power: writes what survives to `target`, which must not exist. Returns how many changes are lost, in
    /// whole or in part.
    pub fn cut(&self, target: &Path, chance: &mut Rng) -> usize {
        let mut names = self.durable_names.clone();
        let kept = chance.usize(..=self.pending_names.len());
        for change in &self.pending_names[..kept] {
            change.apply(&mut names);
        }
        // The same odds for all files, or different odds for each.
        let odds = chance.bool().then(|| any_odds(chance));
        let lost = self.leave(&names, ROOT, target, odds, chance);
        lost + self.pending_names.len() - kept
    }

    /// Writes what survives of a folder. Returns how many changes of its files are lost.
    fn leave(
        &self,
        names: &Names,
        folder: InodeNumber,
        target: &Path,
        odds: Option<Odds>,
        chance: &mut Rng,
    ) -> usize {
        fs::create_dir(target).expect("a folder can be made");
        let mut lost = 0;
        let within = names.range((folder, OsString::new())..(folder + 1, OsString::new()));
        for ((_, name), number) in within {
            let path = target.join(name);
            match &self.inodes[*number] {
                Inode::Folder => lost += self.leave(names, *number, &path, odds, chance),
                Inode::File(file) => {
                    let odds = odds.unwrap_or_else(|| any_odds(chance));
                    let (bytes, lost_of_file) = file.after_a_cut(odds, chance);
                    fs::write(&path, bytes).expect("a file can be written");
                    lost += lost_of_file;
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests;
