//! A model of a disk that loses its power: synced data survive, and a random part of the rest.
//!
//! The model replays the system calls of one run of the server, which strace saw ([`SystemCalls`]), and can be cut
//! at any of them.
//! - A write to a file is durable after a `fsync` or `fdatasync` of that file that began after the write had returned,
//!   or when it returns if the file is synchronous (`chattr +S`). Any combination of the other writes may survive,
//!   and any combination of the sectors of one write.
//! - A name that was made, changed or removed is durable after a `fsync` of its folder, which also keeps the
//!   names on the way to that folder, and no others. Of the other changes the first ones may survive, as file
//!   systems with a journal keep them.
//!
//! `sync_file_range` makes nothing durable: it leaves data in the disk's volatile cache.
//!
//! The model does not cover a disk that acknowledges syncs too early, sectors that hold neither the old nor the new
//! bytes, and data of other files in a file that grew. It would not see writes through `mmap` and `io_uring`; the
//! server uses neither.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::system_calls::{SystemCall, SystemCalls, Text};

/// The unit that a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// The system calls that strace must show: those that change or sync files, and those that answer requests.
pub const TRACED: &str = "trace=open,openat,creat,lseek,write,pwrite64,writev,pwritev,pwritev2,sendto,\
                          sendmsg,ftruncate,truncate,fallocate,copy_file_range,sendfile,link,linkat,\
                          rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,\
                          fdatasync,ioctl";

/// A folder on a disk that may lose power.
#[derive(Clone, Debug)]
pub struct Disk {
    folder: PathBuf,
    files: Vec<FileOnDisk>,
    /// How many folders ever existed.
    folders: usize,
    /// The names as the running system sees them.
    names: Names,
    durable_names: Names,
    pending_names: Vec<NameChange>,
    positions: BTreeMap<usize, Position>,
}

/// A folder, and a name in it.
type Entry = (usize, OsString);

type Names = BTreeMap<Entry, Node>;

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
    /// In the order in which the calls began.
    pending: Vec<DataChange>,
    is_synchronous: bool,
}

/// The file offset of the next plain `write` to a descriptor. Only known if the descriptor cannot read: the trace does
/// not show reads, which would move it.
#[derive(Clone, Copy, Debug)]
struct Position {
    file: usize,
    offset: usize,
}

#[derive(Clone, Debug)]
struct DataChange {
    /// The line of the trace on which the call had returned.
    returned: usize,
    kind: DataChangeKind,
    is_durable: bool,
}

#[derive(Clone, Debug)]
enum DataChangeKind {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// The chance of each sector that was not synced to survive. `None` chooses one for each change.
type Odds = Option<f64>;

fn odds_of_a_file(chance: &mut Rng) -> Odds {
    [Some(0.0), Some(1.0), None][chance.usize(..3)]
}

impl Disk {
    /// A disk with this folder as it is now, all of it durable.
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

    /// Replays the calls on these lines of the trace.
    pub fn run(&mut self, calls: &SystemCalls, lines: std::ops::Range<usize>) {
        // A write may have an effect from when it begins; any other call has one when it returns.
        type Step = fn(&mut Disk, &SystemCall);
        let mut steps: Vec<(usize, Step, &SystemCall)> = Vec::new();
        for call in calls.all(|call| call.succeeded()) {
            if call.is_write() {
                steps.push((call.begun, Self::write, call));
                steps.push((call.returned, Self::write_has_returned, call));
            } else {
                steps.push((call.returned, Self::carry_out, call));
            }
        }
        steps.retain(|(line, ..)| lines.contains(line));
        // The sort is stable: a call on one line begins before it returns.
        steps.sort_by_key(|(line, ..)| *line);
        for (_, step, call) in steps {
            step(self, call);
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
                let length = call.last_number();
                if let Some(file) = self.file_of(call) {
                    // Not durable even if the file is synchronous, which concerns writes.
                    self.files[file].change(call, DataChangeKind::Resize(length));
                }
            }
            "lseek" => {
                if let Some(position) = self.positions.get_mut(&leading_number(&call.arguments)) {
                    position.offset = leading_number(&call.result);
                }
            }
            "ioctl" => {
                // `chattr +S`.
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

    /// The entries on the way to a path, the last of which is its own. Empty for the folder itself, and `None`
    /// when the path is outside or its folder does not exist.
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

    /// The entry of a path, which need not exist. `None` when the path is outside, or is the folder itself.
    fn entry(&self, path: &Path) -> Option<Entry> {
        self.way_to(path)?.pop()
    }

    fn node(&self, path: &Path) -> Option<Node> {
        match self.way_to(path)?.last() {
            None => Some(Node::Folder(ROOT)),
            Some(entry) => self.names.get(entry).copied(),
        }
    }

    /// The file behind the call's descriptor, if it is on this disk.
    fn file_of(&self, call: &SystemCall) -> Option<usize> {
        match self.node(Path::new(call.file()?))? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    fn open(&mut self, call: &SystemCall) {
        let Some(path) = call.paths().pop().filter(|path| self.is_inside(path)) else { return };
        let has = |flag: &str| call.arguments.contains(flag);
        assert!(!has("O_APPEND"), "this disk cannot place appended bytes: {path:?}");
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
            let position = self.positions.get_mut(&leading_number(&call.arguments));
            let position = position.filter(|position| position.file == file);
            let position =
                position.expect("a plain write needs a file that is open for writing alone");
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
        let Some(path) = call.file().map(Path::new) else { return };
        match self.node(path) {
            Some(Node::File(file)) => {
                self.files[file].became_durable(|change| change.returned < call.begun);
            }
            Some(Node::Folder(folder)) => {
                let way = self.way_to(path).expect("it is there");
                self.sync_folder(folder, way);
            }
            None => {}
        }
    }

    /// Makes the changes in one folder durable, the names on the way to it, and all earlier changes of the same
    /// names.
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

    /// Cuts the power: writes the rest of the folder to `target`, which must not exist. Returns how many changes
    /// are lost, in whole or in part.
    pub fn cut(&self, target: &Path, chance: &mut Rng) -> usize {
        let mut names = self.durable_names.clone();
        let kept = chance.usize(..=self.pending_names.len());
        for change in &self.pending_names[..kept] {
            change.apply(&mut names);
        }
        // The same odds for all files, or different odds for each.
        let odds = chance.bool().then(|| odds_of_a_file(chance));
        let lost = self.leave(&names, ROOT, target, odds, chance);
        lost + self.pending_names.len() - kept
    }

    /// Writes the rest of a folder. Returns how many changes of its files are lost.
    fn leave(
        &self,
        names: &Names,
        folder: usize,
        target: &Path,
        odds: Option<Odds>,
        chance: &mut Rng,
    ) -> usize {
        fs::create_dir(target).expect("a folder can be made");
        let mut lost = 0;
        let entries = names.range((folder, OsString::new())..(folder + 1, OsString::new()));
        for ((_, name), node) in entries {
            let path = target.join(name);
            match node {
                Node::Folder(folder) => lost += self.leave(names, *folder, &path, odds, chance),
                Node::File(file) => {
                    let odds = odds.unwrap_or_else(|| odds_of_a_file(chance));
                    let (bytes, lost_of_file) = self.files[*file].after_a_cut(odds, chance);
                    fs::write(&path, bytes).expect("a file can be written");
                    lost += lost_of_file;
                }
            }
        }
        lost
    }
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
        // A durable change is applied for good when all changes before it are durable.
        let durable = self.pending.iter().take_while(|change| change.is_durable).count();
        for change in self.pending.drain(..durable) {
            change.kind.apply(&mut self.durable, || true);
        }
    }

    /// The bytes that survive, and how many changes are lost, in whole or in part.
    fn after_a_cut(&self, odds: Odds, chance: &mut Rng) -> (Vec<u8>, usize) {
        let (mut bytes, mut lost) = (self.durable.clone(), 0);
        for change in &self.pending {
            let odds = odds.unwrap_or_else(|| [0.0, 0.5, 1.0][chance.usize(..3)]);
            let is_whole =
                change.kind.apply(&mut bytes, || change.is_durable || chance.f64() < odds);
            lost += usize::from(!is_whole);
        }
        (bytes, lost)
    }
}

impl DataChangeKind {
    /// Applies the sectors that survive, each of which `survives` decides. Returns whether these were all.
    fn apply(&self, file: &mut Vec<u8>, mut survives: impl FnMut() -> bool) -> bool {
        let (offset, bytes) = match self {
            Self::Write { offset, bytes } => (*offset, bytes),
            Self::Resize(length) => {
                let survives = survives();
                if survives {
                    file.resize(*length, 0);
                }
                return survives;
            }
        };
        let (mut begin, mut is_whole) = (0, true);
        while begin < bytes.len() {
            let to_next_sector = SECTOR_BYTES - (offset + begin) % SECTOR_BYTES;
            let end = bytes.len().min(begin + to_next_sector);
            if survives() {
                file.resize(file.len().max(offset + end), 0);
                file[offset + begin..offset + end].copy_from_slice(&bytes[begin..end]);
            } else {
                is_whole = false;
            }
            begin = end;
        }
        is_whole
    }
}

/// The number at the beginning of a text, such as the descriptor before its path.
fn leading_number(text: &str) -> usize {
    let digits = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().expect("it begins with a number")
}

impl SystemCall {
    /// The paths among its arguments.
    fn paths(&self) -> Vec<PathBuf> {
        let path = |text: &Text| match &text.folder {
            Some(folder) => Path::new(folder).join(OsStr::from_bytes(&text.bytes)),
            None => PathBuf::from(OsStr::from_bytes(&text.bytes)),
        };
        self.texts().iter().map(path).collect()
    }

    fn last_number(&self) -> usize {
        let (_, last) = self.arguments.rsplit_once(", ").expect("several arguments");
        last.parse().expect("the last argument is a number")
    }
}

#[cfg(test)]
mod tests;
