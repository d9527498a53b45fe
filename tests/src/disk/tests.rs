//! The model on small, made-up traces.

use std::collections::BTreeSet;

use tempfile::TempDir;

use super::*;
use crate::at_once;

/// How often each disk is cut: often enough for every possible outcome to appear.
const CUTS: usize = 300;

/// A disk with the file `old`, which holds `old`, and the folders `one` and `other`. Calls are replayed on it.
struct Replay {
    folder: TempDir,
    disk: Disk,
    trace: Vec<String>,
}

impl Replay {
    /// The disk after these calls. `D` stands for its folder.
    fn after(lines: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let on_disk = folder.path().join("on-disk");
        for folder in ["", "one", "other"] {
            fs::create_dir(on_disk.join(folder)).unwrap();
        }
        fs::write(on_disk.join("old"), "old").unwrap();
        let disk = Disk::holding(&on_disk);
        let mut replay = Self { folder, disk, trace: Vec::new() };
        replay.trace.extend(lines.iter().map(|line| (*line).to_owned()));
        replay.run(0..lines.len());
        replay
    }

    fn run(&mut self, lines: Range<usize>) {
        let folder = self.disk.folder.to_str().unwrap();
        let trace = self.trace.join("\n").replace("<D", &format!("<{folder}"));
        let trace = trace.replace("\"D", &format!("\"{folder}"));
        let calls = SystemCalls::parse(trace.lines());
        self.disk.run(&calls, lines);
    }

    /// Cuts the power many times. Returns how many changes the cuts lose, and what they leave: `NAME=BYTES` for each
    /// file, and `NAME/` for each folder but `one` and `other`.
    fn cut(&self) -> (BTreeSet<usize>, BTreeSet<String>) {
        let target = self.folder.path().join("left");
        let mut chance = Rng::with_seed(1);
        let cut = |_| {
            let lost = self.disk.cut(&target, &mut chance);
            let mut names = Vec::new();
            list(&target, "", &mut names);
            names.retain(|name| !["one/", "other/"].contains(&name.as_str()));
            fs::remove_dir_all(&target).unwrap();
            (lost, names.join(" "))
        };
        (0..CUTS).map(cut).collect()
    }

    fn left(&self) -> BTreeSet<String> {
        self.cut().1
    }
}

fn list(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            names.push(format!("{name}/"));
            list(&entry.path(), &format!("{name}/"), names);
        } else {
            let bytes = fs::read(entry.path()).unwrap();
            names.push(format!("{name}={}", String::from_utf8(bytes).unwrap()));
        }
    }
}

fn strings(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

const WRITE: &str = "1 pwrite64(4<D/old>, \"new\", 3, 0) = 3";
const BEGIN_OF_WRITE: &str = "1 pwrite64(4<D/old>, \"new\", 3, 0 <unfinished ...>";
const END_OF_WRITE: &str = "1 <... pwrite64 resumed>) = 3";
const READ: &str = "1 openat(AT_FDCWD</>, \"D/old\", O_RDONLY|O_CLOEXEC) = 4<D/old>";
const SHORTEN: &str = "1 ftruncate(4<D/old>, 1) = 0";
const MAKE: &str =
    "1 openat(AT_FDCWD</>, \"D/one/made\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 4<D/one/made>";
const MAKE_OTHER: &str =
    "1 openat(AT_FDCWD</>, \"D/other/later\", O_WRONLY|O_CREAT, 0666) = 5<D/other/later>";
const RENAME: &str = "1 rename(\"D/old\", \"D/new\") = 0";
const REMOVE: &str = "1 unlink(\"D/old\") = 0";
const MAKE_FOLDER: &str = "1 mkdir(\"D/new\", 0777) = 0";
const SYNC_ROOT: &str = "1 fsync(6<D>) = 0";
const SYNC_ONE: &str = "1 fsync(6<D/one>) = 0";
const SYNC_OTHER: &str = "1 fsync(6<D/other>) = 0";

/// A claim, calls, and all that cuts after these calls may leave.
type Case = (&'static str, &'static [&'static str], &'static [&'static str]);

#[test]
fn cuts_leave_synced_data_and_any_part_of_the_rest() {
    let cases: [Case; 11] = [
        ("what is not written stays", &[], &["old=old"]),
        ("a write may survive or not", &[WRITE], &["old=old", "old=new"]),
        (
            "several writes survive in any combination",
            &[WRITE, "1 pwrite64(4<D/old>, \"er\", 2, 3) = 2"],
            &["old=old", "old=new", "old=older", "old=newer"],
        ),
        ("fsync keeps earlier writes", &[WRITE, "2 fsync(5<D/old>) = 0"], &["old=new"]),
        ("fdatasync keeps earlier writes", &[WRITE, "2 fdatasync(5<D/old>) = 0"], &["old=new"]),
        (
            "a write under way when a sync begins may be lost",
            &[
                BEGIN_OF_WRITE,
                "2 fsync(4<D/old> <unfinished ...>",
                END_OF_WRITE,
                "2 <... fsync resumed>) = 0",
            ],
            &["old=old", "old=new"],
        ),
        (
            "writes are in the order in which they began",
            &[
                BEGIN_OF_WRITE,
                "2 pwrite64(4<D/old>, \"abc\", 3, 0) = 3",
                END_OF_WRITE,
                "1 fsync(4<D/old>) = 0",
            ],
            &["old=abc"],
        ),
        (
            "plain writes follow each other for each descriptor",
            &[
                MAKE,
                "1 write(4<D/one/made>, \"ab\", 2) = 2",
                "1 openat(AT_FDCWD</>, \"D/one/made\", O_RDONLY|O_CLOEXEC) = 5<D/one/made>",
                "1 write(4<D/one/made>, \"cd\", 2) = 2",
                "1 openat(AT_FDCWD</>, \"D/one/made\", O_WRONLY|O_CLOEXEC) = 5<D/one/made>",
                "1 write(5<D/one/made>, \"x\", 1) = 1",
                "1 lseek(4<D/one/made>, 1, SEEK_CUR) = 5",
                "1 write(4<D/one/made>, \"e\", 1) = 1",
                "1 fsync(5<D/one/made>) = 0",
                SYNC_ONE,
            ],
            &["old=old one/made=xbcd\0e"],
        ),
        (
            "a failed sync keeps nothing",
            &[WRITE, "1 fsync(4<D/old>) = -1 EIO (Input/output error)"],
            &["old=old", "old=new"],
        ),
        ("another length may be lost", &[SHORTEN], &["old=old", "old=o"]),
        ("a sync keeps another length", &[SHORTEN, "1 fdatasync(4<D/old>) = 0"], &["old=o"]),
    ];
    at_once(&cases, |(_, calls, left)| {
        assert_eq!(Replay::after(calls).left(), strings(left));
    });
}

#[test]
fn cuts_leave_the_names_of_synced_folders_and_the_first_of_the_other_changes() {
    let one = "old=old one/made=";
    let both = "old=old one/made= other/later=";
    let cases: [(&str, &[&str], &[&str]); 15] = [
        ("a name that was made may be lost", &[MAKE], &["old=old", one]),
        (
            "a sync of the file does not keep its name",
            &[MAKE, "1 fsync(4<D/one/made>) = 0"],
            &["old=old", one],
        ),
        ("a sync of its folder does", &[MAKE, SYNC_ONE], &[one]),
        ("a name that was changed may be the old one", &[RENAME], &["old=old", "new=old"]),
        ("a sync keeps the new one", &[RENAME, SYNC_ROOT], &["new=old"]),
        ("a name that was removed may be there", &[REMOVE], &["old=old", ""]),
        ("a sync keeps it away", &[REMOVE, SYNC_ROOT], &[""]),
        (
            "of changes in several folders the first may be there",
            &[MAKE, REMOVE],
            &["old=old", one, "one/made="],
        ),
        (
            "a sync of one folder does not keep the names of another",
            &[MAKE, MAKE_OTHER, SYNC_OTHER],
            &["old=old other/later=", both],
        ),
        (
            "nor does one of the folder above",
            &[MAKE, MAKE_OTHER, SYNC_OTHER, SYNC_ROOT],
            &["old=old other/later=", both],
        ),
        ("but its own sync does", &[MAKE, MAKE_OTHER, SYNC_OTHER, SYNC_ROOT, SYNC_ONE], &[both]),
        (
            "a sync of a folder keeps the names on the way to it",
            &[
                MAKE_FOLDER,
                "1 mkdir(\"D/new/within\", 0777) = 0",
                "1 mkdir(\"D/new/beside\", 0777) = 0",
                "1 openat(AT_FDCWD</>, \"D/new/within/made\", O_WRONLY|O_CREAT) = 5<D/new/within/made>",
                "1 fsync(6<D/new/within>) = 0",
            ],
            &[
                "new/ new/within/ new/within/made= old=old",
                "new/ new/beside/ new/within/ new/within/made= old=old",
            ],
        ),
        (
            "a sync of the folder above keeps a renamed folder, and not what is in it",
            &[
                MAKE_FOLDER,
                "1 openat(AT_FDCWD</>, \"D/new/made\", O_WRONLY|O_CREAT) = 5<D/new/made>",
                "1 rename(\"D/new\", \"D/named\") = 0",
                SYNC_ROOT,
            ],
            &["named/ old=old", "named/ named/made= old=old"],
        ),
        (
            "a sync of a renamed folder keeps what was made under its old name",
            &[
                MAKE_FOLDER,
                "1 openat(AT_FDCWD</>, \"D/new/made\", O_WRONLY|O_CREAT) = 5<D/new/made>",
                "1 rename(\"D/new\", \"D/named\") = 0",
                "1 fsync(6<D/named>) = 0",
            ],
            &["named/ named/made= old=old"],
        ),
        (
            "a name that moved to a synced folder is only there",
            &[MAKE, "1 rename(\"D/one/made\", \"D/other/made\") = 0", SYNC_OTHER],
            &["old=old other/made="],
        ),
    ];
    at_once(&cases, |(_, calls, left)| {
        assert_eq!(Replay::after(calls).left(), strings(left));
    });
}

#[test]
fn a_write_that_was_not_synced_may_be_torn_between_sectors() {
    // The first sector has room for two more bytes.
    let write = "1 pwrite64(4<D/old>, \"abcd\", 4, 510) = 4";
    let zeros = "\0".repeat(507);
    let [whole, first_alone, second_alone] =
        ["abcd", "ab", "\0\0cd"].map(|end| format!("old=old{zeros}{end}"));
    let expected = ["old=old", &whole, &first_alone, &second_alone];
    assert_eq!(Replay::after(&[write]).left(), strings(&expected));
}

#[test]
fn a_write_that_a_kill_interrupts_is_visible_to_the_next_process_and_lost_unless_that_syncs_it() {
    let mut replay = Replay::after(&[BEGIN_OF_WRITE]);
    fs::write(replay.disk.folder.join("old"), "new").unwrap();
    replay.disk.begin_trace();
    assert_eq!(replay.left(), strings(&["old=old", "old=new"]));
    replay.trace = vec![READ.to_owned(), "1 fdatasync(4<D/old>) = 0".to_owned()];
    replay.run(0..2);
    assert_eq!(replay.left(), strings(&["old=new"]));
}

#[test]
#[should_panic(expected = "open for writing alone")]
fn a_plain_write_to_a_readable_descriptor_is_refused() {
    let open = "1 openat(AT_FDCWD</>, \"D/old\", O_RDWR|O_CLOEXEC) = 4<D/old>";
    Replay::after(&[open, "1 write(4<D/old>, \"new\", 3) = 3"]);
}

#[test]
#[should_panic(expected = "appended")]
fn a_file_that_is_opened_to_append_is_refused() {
    Replay::after(&["1 openat(AT_FDCWD</>, \"D/old\", O_WRONLY|O_APPEND) = 4<D/old>"]);
}

#[test]
#[should_panic(expected = "does not know copy_file_range")]
fn an_unknown_call_is_refused() {
    Replay::after(&["1 copy_file_range(4<D/old>, NULL, 5<D/other>, NULL, 3, 0) = 3"]);
}

#[test]
fn some_cuts_have_different_odds_for_each_file() {
    // So many writes that chance alone neither keeps nor loses all of them.
    let write = |descriptor: u32, file: &str, at: usize| {
        format!("1 pwrite64({descriptor}<D/{file}>, \"x\", 1, {at}) = 1")
    };
    let writes = (0..64).flat_map(|at| [write(4, "one/made", at), write(5, "old", at)]);
    let lines: Vec<String> =
        [MAKE, SYNC_ONE].map(str::to_owned).into_iter().chain(writes).collect();
    let left = Replay::after(&lines.iter().map(String::as_str).collect::<Vec<_>>()).left();
    let all = "x".repeat(64);
    assert!(left.contains(&format!("old=old one/made={all}")));
    assert!(left.contains(&format!("old={all} one/made=")));
}

#[test]
fn a_cut_says_how_much_is_lost() {
    let synced = Replay::after(&[WRITE, "1 fsync(4<D/old>) = 0"]);
    assert_eq!(synced.cut().0, [0].into());
    let not_synced = Replay::after(&[WRITE, MAKE]);
    assert_eq!(not_synced.cut().0, [0, 1, 2].into());
}
