//! What a power cut leaves of a folder: a disk that keeps what was synced, and of the rest what chance
//! says.
//!
//! It is made from the system calls of one run of the server, which strace saw ([`SystemCalls`]), and
//! can be cut at any of them. It keeps
//! - a write to a file for sure only after a `fsync` or `fdatasync` of that file that began when the
//!   write had returned, or when the file is one whose writes are synchronous (`chattr +S`). What was
//!   not synced may be there or not, in any combination, and the sectors of one write as well;
//! - a name that was made, changed or removed for sure only after a `fsync` of its folder, which also
//!   keeps the names on the way to that folder, and no others. Of those that were not synced the first
//!   ones may be there, as file systems with a journal keep them.
//!
//! `sync_file_range` counts for nothing: it leaves data in the disk's volatile cache.
//!
//! Not simulated are a disk that says too early that its cache is on it, sectors that a cut leaves with
//! neither the old nor the new bytes, and old data of other files where a file became longer and its data
//! were not written. Writes through `mmap` and `io_uring` would not be seen; the server uses neither.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::system_calls::{SystemCall, SystemCalls, Text};

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// The system calls that change files or bring them to the disk, and those that answer: what strace has
/// to show.
pub const TRACED: &str = "trace=open,openat,creat,lseek,write,pwrite64,writev,pwritev,pwritev2,sendto,\
                          sendmsg,ftruncate,truncate,fallocate,copy_file_range,sendfile,link,linkat,\
                          rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,\
                          fdatasync,ioctl";

/// A folder on a disk that may lose its power.
#[derive(Clone, Debug)]
pub struct Disk {
    folder: PathBuf,
    files: Vec<FileOnDisk>,
    /// How many folders there have ever been.
    folders: usize,
    /// What the running system sees.
    names: Names,
    /// What is on the disk for sure.
    durable_names: Names,
    pending_names: Vec<NameChange>,
    positions: BTreeMap<usize, Position>,
}

/// A name, and the folder that it is in.
type Entry = (usize, OsString);

/// What the entries stand for.
type Names = BTreeMap<Entry, Node>;

/// The folder that the disk holds.
const ROOT: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder(usize),
    File(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Make(Entry, Node),
    Rename(Entry, Entry),
    Remove(Entry),
}

#[derive(Clone, Debug, Default)]
struct FileOnDisk {
    durable: Vec<u8>,
    /// In the order in which they began.
    pending: Vec<DataChange>,
    is_synchronous: bool,
}

/// Where the next plain `write` to a descriptor goes. Only one that cannot read has this: reads, which
/// the trace does not show, would move it.
#[derive(Clone, Copy, Debug)]
struct Position {
    file: usize,
    offset: usize,
}

#[derive(Clone, Debug)]
struct DataChange {
    /// The line of the trace on which it had returned.
    returned: usize,
    kind: DataChangeKind,
    is_durable: bool,
}

#[derive(Clone, Debug)]
enum DataChangeKind {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// How much of what was not synced is left.
#[derive(Clone, Copy, Debug)]
enum Luck {
    Nothing,
    Everything,
    /// Each change alone, and the sectors of some.
    Any,
}

impl Luck {
    const ALL: [Self; 3] = [Self::Nothing, Self::Everything, Self::Any];

    fn any(chance: &mut Rng) -> Self {
        Self::ALL[chance.usize(..Self::ALL.len())]
    }
}

impl Disk {
    /// A disk that holds this folder as it stands now, all of it synced.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    #[must_use]
    pub fn holding(folder: &Path) -> Self {
        let mut disk = Self {
            folder: folder.canonicalize().expect("the folder is there"),
            files: Vec::new(),
            folders: ROOT + 1,
            names: Names::new(),
            durable_names: Names::new(),
            pending_names: Vec::new(),
            positions: BTreeMap::new(),
        };
        let folder = disk.folder.clone();
        disk.load(&folder, ROOT);
        disk.durable_names = disk.names.clone();
        disk
    }

    fn load(&mut self, path: &Path, folder: usize) {
        for entry in fs::read_dir(path).expect("a folder can be read") {
            let entry = entry.expect("a folder can be read");
            let path = entry.path();
            let node = if path.is_dir() {
                let node = self.new_folder();
                self.load(&path, node);
                Node::Folder(node)
            } else {
                let durable = fs::read(path).expect("a file can be read");
                self.files.push(FileOnDisk { durable, ..FileOnDisk::default() });
                Node::File(self.files.len() - 1)
            };
            self.names.insert((folder, entry.file_name()), node);
        }
    }

    fn new_folder(&mut self) -> usize {
        self.folders += 1;
        self.folders - 1
    }

    /// Does what the server did between two lines of the trace.
    ///
    /// # Panics
    ///
    /// When it did something that this disk does not know.
    pub fn run(&mut self, calls: &SystemCalls, lines: std::ops::Range<usize>) {
        // What has begun may have an effect, and what has returned has one.
        let mut steps: Vec<(usize, Step<'_>)> = Vec::new();
        for call in calls.all(|call| call.succeeded()) {
            if call.is_write() {
                steps.push((call.begun, Step::WriteBegins(call)));
                steps.push((call.returned, Step::WriteReturns(call)));
            } else {
                steps.push((call.returned, Step::Done(call)));
            }
        }
        steps.retain(|(line, _)| lines.contains(line));
        // A call on one line begins before it returns: the sort keeps that.
        steps.sort_by_key(|(line, _)| *line);
        for (_, step) in steps {
            match step {
                Step::WriteBegins(call) => self.write(call),
                Step::WriteReturns(call) => self.write_has_returned(call),
                Step::Done(call) => self.carry_out(call),
            }
        }
    }

    fn carry_out(&mut self, call: &SystemCall) {
        match call.name.as_str() {
            "open" | "openat" | "creat" => self.open(call),
            "mkdir" | "mkdirat" => {
                if let Some(entry) = call.paths().pop().and_then(|path| self.entry(&path)) {
                    let folder = self.new_folder();
                    self.change_names(NameChange::Make(entry, Node::Folder(folder)));
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let paths = call.paths();
                let [from, to] = &paths[..] else { panic!("a rename has two paths: {call:?}") };
                match (self.entry(from), self.entry(to)) {
                    (Some(from), Some(to)) => self.change_names(NameChange::Rename(from, to)),
                    (None, None) => {}
                    _ => panic!("{from:?} and {to:?} are not on one disk"),
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                if let Some(entry) = call.paths().pop().and_then(|path| self.entry(&path)) {
                    self.change_names(NameChange::Remove(entry));
                }
            }
            "fsync" | "fdatasync" => self.sync(call),
            "ftruncate" => {
                let length = call.number(1);
                if let Some(file) = self.file_of(call) {
                    // Also where the file is synchronous: that is said of writes.
                    self.files[file].change(call, DataChangeKind::Resize(length));
                }
            }
            "lseek" => {
                let descriptor = call.descriptor().expect("it has a descriptor");
                if let Some(position) = self.positions.get_mut(&descriptor) {
                    position.offset = leading_number(&call.result);
                }
            }
            "ioctl" => {
                // What strace shows of `chattr +S`.
                if call.arguments.contains("FS_IOC_SETFLAGS")
                    && let Some(file) = self.file_of(call)
                {
                    self.files[file].is_synchronous = call.arguments.contains("FS_SYNC_FL");
                }
            }
            other => {
                let is_ours = call.file().is_some_and(|file| self.is_inside(Path::new(file)))
                    || call.paths().iter().any(|path| self.is_inside(path));
                assert!(!is_ours, "this disk does not know {other}: {}", call.arguments);
            }
        }
    }

    fn is_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.folder)
    }

    /// The entries on the way to a path, with that of the path itself as the last one; none of the
    /// folder itself. Nothing when the path is outside, or its folder is not there.
    fn way_to(&self, path: &Path) -> Option<Vec<Entry>> {
        let mut way: Vec<Entry> = Vec::new();
        for name in path.strip_prefix(&self.folder).ok()? {
            let folder = match way.last() {
                None => ROOT,
                Some(entry) => match self.names.get(entry)? {
                    Node::Folder(folder) => *folder,
                    Node::File(_) => return None,
                },
            };
            way.push((folder, name.to_owned()));
        }
        Some(way)
    }

    /// The entry of a path, which need not be there. Nothing when it is outside, or is the folder itself.
    fn entry(&self, path: &Path) -> Option<Entry> {
        self.way_to(path)?.pop()
    }

    fn node(&self, path: &Path) -> Option<Node> {
        match self.way_to(path)?.last() {
            None => Some(Node::Folder(ROOT)),
            Some(entry) => self.names.get(entry).copied(),
        }
    }

    /// The file that the call's descriptor stands for, where it is one of ours.
    fn file_of(&self, call: &SystemCall) -> Option<usize> {
        match self.node(&call.descriptor_path()?)? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    fn open(&mut self, call: &SystemCall) {
        let Some(path) = call.paths().pop().filter(|path| self.is_inside(path)) else { return };
        let has = |flag: &str| call.arguments.contains(flag);
        assert!(!has("O_APPEND"), "this disk does not know where appended bytes go: {path:?}");
        if self.node(&path).is_none() {
            assert!(has("O_CREAT"), "{path:?} came from nowhere");
            let entry = self.entry(&path).expect("its folder is there");
            self.files.push(FileOnDisk::default());
            self.change_names(NameChange::Make(entry, Node::File(self.files.len() - 1)));
        }
        let descriptor = leading_number(&call.result);
        self.positions.remove(&descriptor);
        if let Some(Node::File(file)) = self.node(&path) {
            if has("O_WRONLY") {
                self.positions.insert(descriptor, Position { file, offset: 0 });
            }
            if has("O_TRUNC") {
                self.files[file].change(call, DataChangeKind::Resize(0));
            }
        }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn write(&mut self, call: &SystemCall) {
        let written = leading_number(&call.result);
        let is_known = matches!(call.name.as_str(), "write" | "pwrite64");
        let Some(file) = self.file_of(call) else { return };
        assert!(is_known, "this disk does not know {}", call.name);
        let mut bytes = call.texts().swap_remove(0).bytes;
        assert!(bytes.len() >= written, "strace does not show all that is written");
        bytes.truncate(written);
        let offset = if call.name == "write" {
            let descriptor = call.descriptor().expect("a write has a descriptor");
            let position = self.positions.get_mut(&descriptor);
            let position = position.filter(|position| position.file == file);
            let position = position.expect("only what is opened to write alone has a plain write");
            position.offset += written;
            position.offset - written
        } else {
            call.last_number()
        };
        self.files[file].change(call, DataChangeKind::Write { offset, bytes });
    }

    fn write_has_returned(&mut self, call: &SystemCall) {
        let Some(file) = self.file_of(call) else { return };
        let file = &mut self.files[file];
        if file.is_synchronous {
            file.became_durable(|change| change.returned == call.returned);
        }
    }

    fn sync(&mut self, call: &SystemCall) {
        let Some(path) = call.descriptor_path() else { return };
        match self.node(&path) {
            Some(Node::File(file)) => {
                self.files[file].became_durable(|change| change.returned < call.begun);
            }
            Some(Node::Folder(folder)) => {
                let way = self.way_to(&path).expect("it is there");
                self.sync_folder(folder, way);
            }
            None => {}
        }
    }

    /// Brings to the disk what changed in one folder, and what that needs: the names on the way to it,
    /// and what happened before to the same names.
    fn sync_folder(&mut self, folder: usize, way: Vec<Entry>) {
        let mut needed = way;
        let mut is_synced = vec![false; self.pending_names.len()];
        for (change, is_synced) in self.pending_names.iter().zip(&mut is_synced).rev() {
            let entries = change.entries();
            *is_synced = entries.iter().any(|entry| entry.0 == folder || needed.contains(entry));
            if *is_synced {
                needed.extend(entries.into_iter().cloned());
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

    /// Cuts the power: writes what is left of the folder to `target`, which must not be there. Returns
    /// how many changes are lost, each of them in whole or in part.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn cut(&self, target: &Path, chance: &mut Rng) -> usize {
        let mut names = self.durable_names.clone();
        let kept = chance.usize(..=self.pending_names.len());
        for change in &self.pending_names[..kept] {
            change.apply(&mut names);
        }
        // One for all files, or another one for each.
        let luck = chance.bool().then(|| Luck::any(chance));
        let lost = self.leave(&names, ROOT, target, luck, chance);
        lost + self.pending_names.len() - kept
    }

    /// Writes what is left of a folder. Returns how many changes to its files are lost.
    fn leave(
        &self,
        names: &Names,
        folder: usize,
        target: &Path,
        luck: Option<Luck>,
        chance: &mut Rng,
    ) -> usize {
        fs::create_dir(target).expect("a folder can be made");
        let mut lost = 0;
        let entries = names.range((folder, OsString::new())..(folder + 1, OsString::new()));
        for ((_, name), node) in entries {
            let path = target.join(name);
            match node {
                Node::Folder(folder) => lost += self.leave(names, *folder, &path, luck, chance),
                Node::File(file) => {
                    let luck = luck.unwrap_or_else(|| Luck::any(chance));
                    let (bytes, lost_of_file) = self.files[*file].after_a_cut(luck, chance);
                    fs::write(&path, bytes).expect("a file can be written");
                    lost += lost_of_file;
                }
            }
        }
        lost
    }
}

/// What a system call does at a line of the trace.
enum Step<'calls> {
    WriteBegins(&'calls SystemCall),
    WriteReturns(&'calls SystemCall),
    Done(&'calls SystemCall),
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Make(entry, node) => {
                names.insert(entry.clone(), *node);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            Self::Remove(entry) => {
                names.remove(entry);
            }
        }
    }

    /// What it changes.
    fn entries(&self) -> Vec<&Entry> {
        match self {
            Self::Make(entry, _) | Self::Remove(entry) => vec![entry],
            Self::Rename(from, to) => vec![from, to],
        }
    }
}

impl FileOnDisk {
    fn change(&mut self, call: &SystemCall, kind: DataChangeKind) {
        self.pending.push(DataChange { returned: call.returned, kind, is_durable: false });
    }

    fn became_durable(&mut self, holds: impl Fn(&DataChange) -> bool) {
        for change in &mut self.pending {
            change.is_durable |= holds(change);
        }
        // The oldest ones are applied for good as far as nothing stands before them that is open.
        let durable = self.pending.iter().take_while(|change| change.is_durable).count();
        for change in self.pending.drain(..durable) {
            change.kind.apply(&mut self.durable);
        }
    }

    /// What is left, and how many changes are not, in whole or in part.
    fn after_a_cut(&self, luck: Luck, chance: &mut Rng) -> (Vec<u8>, usize) {
        let (mut bytes, mut lost) = (self.durable.clone(), 0);
        for change in &self.pending {
            let kept = match luck {
                _ if change.is_durable => Kept::All,
                Luck::Everything => Kept::All,
                Luck::Nothing => Kept::Nothing,
                Luck::Any => Kept::any(chance),
            };
            match kept {
                Kept::All => change.kind.apply(&mut bytes),
                Kept::Part => lost += usize::from(!change.kind.apply_in_part(&mut bytes, chance)),
                Kept::Nothing => lost += 1,
            }
        }
        (bytes, lost)
    }
}

/// What is left of one change.
#[derive(Clone, Copy)]
enum Kept {
    Nothing,
    Part,
    All,
}

impl Kept {
    fn any(chance: &mut Rng) -> Self {
        [Self::Nothing, Self::Part, Self::All][chance.usize(..3)]
    }
}

impl DataChangeKind {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write_at(file, *offset, bytes),
            Self::Resize(length) => file.resize(*length, 0),
        }
    }

    /// Some sectors only. Says whether these were all.
    fn apply_in_part(&self, file: &mut Vec<u8>, chance: &mut Rng) -> bool {
        let Self::Write { offset, bytes } = self else {
            self.apply(file);
            return true;
        };
        let (mut begin, mut is_whole) = (0, true);
        while begin < bytes.len() {
            let to_next_sector = SECTOR_BYTES - (offset + begin) % SECTOR_BYTES;
            let end = bytes.len().min(begin + to_next_sector);
            if chance.bool() {
                write_at(file, offset + begin, &bytes[begin..end]);
            } else {
                is_whole = false;
            }
            begin = end;
        }
        is_whole
    }
}

fn write_at(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// The number that a text begins with, as a descriptor before its path.
fn leading_number(text: &str) -> usize {
    let digits = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().expect("it begins with a number")
}

impl SystemCall {
    /// The descriptor that its first argument is, where strace shows what it stands for.
    fn descriptor(&self) -> Option<usize> {
        self.file().map(|_| leading_number(&self.arguments))
    }

    /// The path of the file that its first argument stands for.
    fn descriptor_path(&self) -> Option<PathBuf> {
        self.file().map(PathBuf::from)
    }

    /// The paths among its arguments.
    fn paths(&self) -> Vec<PathBuf> {
        let path = |text: &Text| match &text.folder {
            Some(folder) => Path::new(folder).join(OsStr::from_bytes(&text.bytes)),
            None => PathBuf::from(OsStr::from_bytes(&text.bytes)),
        };
        self.texts().iter().map(path).collect()
    }

    /// One of its arguments that is a number.
    fn number(&self, argument: usize) -> usize {
        let arguments: Vec<&str> = self.arguments.split(", ").collect();
        arguments[argument].parse().expect("the argument is a number")
    }

    fn last_number(&self) -> usize {
        let (_, last) = self.arguments.rsplit_once(", ").expect("several arguments");
        last.parse().expect("the last argument is a number")
    }
}

#[cfg(test)]
mod tests;
