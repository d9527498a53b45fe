//! What a power cut leaves of a folder: a disk that keeps what was synced, and of the rest what chance
//! says.
//!
//! It is made from the system calls of one run of the server, which strace saw ([`SystemCalls`]), and
//! can be cut at any of them. It keeps
//! - a write to a file for sure only after a `fsync` or `fdatasync` of that file that began when the
//!   write had returned, or when the file is one whose writes are synchronous (`chattr +S`). What was
//!   not synced may be there or not, in any combination, and the sectors of one write as well;
//! - a name that was made, changed or removed for sure only after a `fsync` of its folder. Of those that
//!   were not synced the first ones may be there, as file systems with a journal keep them.
//!
//! `sync_file_range` counts for nothing: it leaves data in the disk's volatile cache.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::system_calls::{SystemCall, SystemCalls, Text};

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// The system calls that change files or bring them to the disk, and those that answer: what strace has
/// to show.
pub const TRACED: &str = "trace=open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,sendto,\
                          sendmsg,ftruncate,truncate,fallocate,copy_file_range,sendfile,link,linkat,\
                          rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,\
                          fdatasync,ioctl";

/// A folder on a disk that may lose its power.
#[derive(Clone, Debug)]
pub struct Disk {
    folder: PathBuf,
    files: Vec<FileOnDisk>,
    /// What the running system sees.
    names: Names,
    /// What is on the disk for sure.
    durable_names: Names,
    pending_names: Vec<NameChange>,
}

/// What stands at a path.
type Names = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug)]
enum Node {
    Folder,
    File(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Make(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Debug, Default)]
struct FileOnDisk {
    durable: Vec<u8>,
    /// In the order in which they began.
    pending: Vec<DataChange>,
    is_synchronous: bool,
    /// Where the next plain `write` goes.
    position: usize,
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
            names: Names::new(),
            durable_names: Names::new(),
            pending_names: Vec::new(),
        };
        let folder = disk.folder.clone();
        disk.load(&folder);
        disk.durable_names = disk.names.clone();
        disk
    }

    fn load(&mut self, path: &Path) {
        if path.is_dir() {
            self.names.insert(path.to_owned(), Node::Folder);
            for entry in fs::read_dir(path).expect("a folder can be read") {
                self.load(&entry.expect("a folder can be read").path());
            }
        } else {
            let durable = fs::read(path).expect("a file can be read");
            self.files.push(FileOnDisk { durable, ..FileOnDisk::default() });
            self.names.insert(path.to_owned(), Node::File(self.files.len() - 1));
        }
    }

    /// Does what the server did between two lines of the trace.
    ///
    /// # Panics
    ///
    /// When it did something that this disk does not know.
    pub fn run(&mut self, calls: &SystemCalls, lines: std::ops::Range<usize>) {
        for call in calls.all(|call| call.succeeded()) {
            // What has begun may have an effect, and what has returned has one.
            if lines.contains(&call.begun) && call.is_write() {
                self.write(call);
            } else if lines.contains(&call.returned) && !call.is_write() {
                self.carry_out(call);
            }
            if lines.contains(&call.returned) && call.is_write() {
                self.write_has_returned(call);
            }
        }
    }

    fn carry_out(&mut self, call: &SystemCall) {
        match call.name.as_str() {
            "open" | "openat" | "creat" => self.open(call),
            "mkdir" | "mkdirat" => self.make(call, Node::Folder),
            "rename" | "renameat" | "renameat2" => {
                let paths = call.paths();
                if let [from, to] = &paths[..]
                    && self.is_inside(from)
                {
                    self.change_names(NameChange::Rename(from.clone(), to.clone()));
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                let path = call.paths().pop().expect("a path is removed");
                if self.is_inside(&path) {
                    self.change_names(NameChange::Remove(path));
                }
            }
            "fsync" | "fdatasync" => self.sync(call),
            "ftruncate" => {
                let length = call.number(1);
                if let Some(file) = self.file_of(call) {
                    let kind = DataChangeKind::Resize(length);
                    file.pending.push(DataChange {
                        returned: call.returned,
                        kind,
                        is_durable: file.is_synchronous,
                    });
                }
            }
            "ioctl" => {
                // What strace shows of `chattr +S`.
                if call.arguments.contains("FS_IOC_SETFLAGS")
                    && let Some(file) = self.file_of(call)
                {
                    file.is_synchronous = call.arguments.contains("FS_SYNC_FL");
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

    /// The file that the call's descriptor stands for, where it is one of ours.
    fn file_of(&mut self, call: &SystemCall) -> Option<&mut FileOnDisk> {
        match self.names.get(&call.descriptor_path()?)? {
            Node::File(file) => Some(&mut self.files[*file]),
            Node::Folder => None,
        }
    }

    fn open(&mut self, call: &SystemCall) {
        let Some(path) = call.paths().pop().filter(|path| self.is_inside(path)) else { return };
        if !self.names.contains_key(&path) {
            assert!(call.arguments.contains("O_CREAT"), "{path:?} came from nowhere");
            self.files.push(FileOnDisk::default());
            self.make(call, Node::File(self.files.len() - 1));
        }
        if let Some(Node::File(file)) = self.names.get(&path).copied() {
            let file = &mut self.files[file];
            file.position = 0;
            if call.arguments.contains("O_TRUNC") {
                file.pending.push(DataChange {
                    returned: call.returned,
                    kind: DataChangeKind::Resize(0),
                    is_durable: false,
                });
            }
        }
    }

    fn make(&mut self, call: &SystemCall, node: Node) {
        let path = call.paths().pop().expect("a path is made");
        if self.is_inside(&path) {
            self.change_names(NameChange::Make(path, node));
        }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn write(&mut self, call: &SystemCall) {
        let written = call.result.parse().expect("how much was written");
        let is_known = matches!(call.name.as_str(), "write" | "pwrite64");
        let Some(file) = self.file_of(call) else { return };
        assert!(is_known, "this disk does not know {}", call.name);
        let mut bytes = call.texts().swap_remove(0).bytes;
        assert!(bytes.len() >= written, "strace does not show all that is written");
        bytes.truncate(written);
        let offset = if call.name == "write" {
            let offset = file.position;
            file.position += bytes.len();
            offset
        } else {
            call.last_number()
        };
        let kind = DataChangeKind::Write { offset, bytes };
        file.pending.push(DataChange { returned: call.returned, kind, is_durable: false });
    }

    fn write_has_returned(&mut self, call: &SystemCall) {
        let Some(file) = self.file_of(call) else { return };
        if file.is_synchronous {
            file.became_durable(|change| change.returned == call.returned);
        }
    }

    fn sync(&mut self, call: &SystemCall) {
        let Some(path) = call.descriptor_path() else { return };
        match self.names.get(&path) {
            Some(Node::File(file)) => {
                self.files[*file].became_durable(|change| change.returned < call.begun);
            }
            Some(Node::Folder) => {
                let concerns = |change: &NameChange| change.concerns(&path);
                let synced =
                    self.pending_names.iter().rposition(concerns).map_or(0, |last| last + 1);
                for change in self.pending_names.drain(..synced) {
                    change.apply(&mut self.durable_names);
                }
            }
            None => {}
        }
    }

    /// Cuts the power: writes what is left of the folder to `target`, which must not be there.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn cut(&self, target: &Path, chance: &mut Rng) {
        let mut names = self.durable_names.clone();
        let kept = chance.usize(..=self.pending_names.len());
        for change in &self.pending_names[..kept] {
            change.apply(&mut names);
        }
        let luck = *chance.choice(&[Luck::Nothing, Luck::Everything, Luck::Any]).expect("some");
        for (path, node) in &names {
            let inside = path.strip_prefix(&self.folder).expect("a path inside of the folder");
            let path =
                if inside == Path::new("") { target.to_owned() } else { target.join(inside) };
            match node {
                Node::Folder => fs::create_dir(&path).expect("a folder can be made"),
                Node::File(file) => {
                    let bytes = self.files[*file].after_a_cut(luck, chance);
                    fs::write(&path, bytes).expect("a file can be written");
                }
            }
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Make(path, node) => {
                // Its folder may be gone by a rename that was not synced.
                if path.parent().is_some_and(|parent| names.contains_key(parent)) {
                    names.insert(path.clone(), *node);
                }
            }
            Self::Rename(from, to) => {
                let moved: Vec<PathBuf> =
                    names.keys().filter(|path| path.starts_with(from)).cloned().collect();
                for path in moved {
                    let inside = path.strip_prefix(from).expect("it was found so").to_owned();
                    let target = if inside == Path::new("") { to.clone() } else { to.join(inside) };
                    let node = names.remove(&path).expect("it was found");
                    names.insert(target, node);
                }
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }

    /// Whether a sync of this folder brings the change to the disk.
    fn concerns(&self, folder: &Path) -> bool {
        let paths = match self {
            Self::Make(path, _) | Self::Remove(path) => vec![path],
            Self::Rename(from, to) => vec![from, to],
        };
        paths.iter().any(|path| path.parent() == Some(folder))
    }
}

impl FileOnDisk {
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

    fn after_a_cut(&self, luck: Luck, chance: &mut Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match luck {
                _ if change.is_durable => change.kind.apply(&mut bytes),
                Luck::Everything => change.kind.apply(&mut bytes),
                Luck::Nothing => {}
                Luck::Any => match chance.u8(..3) {
                    0 => {}
                    1 => change.kind.apply(&mut bytes),
                    _ => change.kind.apply_in_part(&mut bytes, chance),
                },
            }
        }
        bytes
    }
}

impl DataChangeKind {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write_at(file, *offset, bytes),
            Self::Resize(length) => file.resize(*length, 0),
        }
    }

    /// Some sectors only.
    fn apply_in_part(&self, file: &mut Vec<u8>, chance: &mut Rng) {
        let Self::Write { offset, bytes } = self else { return self.apply(file) };
        let mut begin = 0;
        while begin < bytes.len() {
            let to_next_sector = SECTOR_BYTES - (offset + begin) % SECTOR_BYTES;
            let end = bytes.len().min(begin + to_next_sector);
            if chance.bool() {
                write_at(file, offset + begin, &bytes[begin..end]);
            }
            begin = end;
        }
    }
}

fn write_at(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

impl SystemCall {
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
