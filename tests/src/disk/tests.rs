//! The model on small, made-up traces.

use std::collections::BTreeSet;

use tempfile::TempDir;

use super::*;

/// How often each disk is cut: enough for every possible rest to appear.
const CUTS: usize = 300;

/// What cuts have left of a file or folder: `None`, or its bytes.
type Left = BTreeSet<Option<Vec<u8>>>;

/// A disk before a run, with the file `old`, which holds `old`, and the folders `one` and `other`.
struct Replay {
    folder: TempDir,
    disk: Disk,
    trace: Vec<String>,
}

impl Replay {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let on_disk = folder.path().join("on-disk");
        for folder in ["", "one", "other"] {
            fs::create_dir(on_disk.join(folder)).unwrap();
        }
        fs::write(on_disk.join("old"), "old").unwrap();
        let disk = Disk::holding(&on_disk);
        Self { folder, disk, trace: Vec::new() }
    }

    /// The disk after these calls, in which `D` is its folder.
    fn after(lines: &[&str]) -> Self {
        let mut replay = Self::new();
        replay.run(lines);
        replay
    }

    /// Continues with these calls.
    fn run(&mut self, lines: &[&str]) {
        let begin = self.trace.len();
        self.trace.extend(lines.iter().map(|line| (*line).to_owned()));
        self.run_lines(begin..self.trace.len());
    }

    fn run_lines(&mut self, lines: std::ops::Range<usize>) {
        let folder = self.disk.folder.to_str().unwrap();
        let trace = self.trace.join("\n").replace("<D", &format!("<{folder}"));
        let calls = SystemCalls::parse(&trace.replace("\"D", &format!("\"{folder}")));
        self.disk.run(&calls, lines);
    }

    /// What many cuts leave under these names.
    fn left_of<const COUNT: usize>(
        &self,
        names: [&str; COUNT],
    ) -> BTreeSet<[Option<Vec<u8>>; COUNT]> {
        let target = self.folder.path().join("left");
        let mut chance = Rng::with_seed(1);
        let mut left = BTreeSet::new();
        for _ in 0..CUTS {
            self.disk.cut(&target, &mut chance);
            left.insert(names.map(|name| {
                let path = target.join(name);
                if path.is_dir() { Some(Vec::new()) } else { fs::read(path).ok() }
            }));
            fs::remove_dir_all(&target).unwrap();
        }
        left
    }

    fn left(&self, name: &str) -> Left {
        self.left_of([name]).into_iter().map(|[left]| left).collect()
    }
}

fn some(text: &str) -> Option<Vec<u8>> {
    Some(text.into())
}

const WRITE: &str = "1 pwrite64(4<D/old>, \"new\", 3, 0) = 3";

const SYNCHRONOUS: &str = "1 ioctl(3<D/old>, FS_IOC_SETFLAGS, [FS_SYNC_FL|FS_EXTENT_FL]) = 0";

#[test]
fn cuts_leave_synced_data_and_any_of_the_rest() {
    let beginning = "1 pwrite64(4<D/old>, \"new\", 3, 0 <unfinished ...>";
    let cases: [(&str, &[&str], &[&str]); 11] = [
        ("what is not written stays", &[], &["old"]),
        ("a write may survive or not", &[WRITE], &["old", "new"]),
        (
            "several writes survive in any combination",
            &[WRITE, "1 pwrite64(4<D/old>, \"er\", 2, 3) = 2"],
            &["old", "new", "older", "newer"],
        ),
        ("fsync keeps earlier writes", &[WRITE, "2 fsync(5<D/old>) = 0"], &["new"]),
        ("fdatasync keeps earlier writes", &[WRITE, "2 fdatasync(5<D/old>) = 0"], &["new"]),
        (
            "a write under way when a sync begins may be lost",
            &[
                beginning,
                "2 fsync(4<D/old> <unfinished ...>",
                "1 <... pwrite64 resumed>) = 3",
                "2 <... fsync resumed>) = 0",
            ],
            &["old", "new"],
        ),
        (
            "a failed sync keeps nothing",
            &[WRITE, "1 fsync(4<D/old>) = -1 EIO (Input/output error)"],
            &["old", "new"],
        ),
        ("a write to a synchronous file stays", &[SYNCHRONOUS, WRITE], &["new"]),
        (
            "a file that did not become synchronous is not",
            &[
                "1 ioctl(3<D/old>, FS_IOC_SETFLAGS, [FS_SYNC_FL]) = -1 ENOTTY (Inappropriate ioctl)",
                WRITE,
            ],
            &["old", "new"],
        ),
        (
            "another length of a synchronous file may be lost",
            &[SYNCHRONOUS, "1 ftruncate(4<D/old>, 1) = 0"],
            &["old", "o"],
        ),
        (
            "a sync keeps another length",
            &[SYNCHRONOUS, "1 ftruncate(4<D/old>, 1) = 0", "1 fdatasync(4<D/old>) = 0"],
            &["o"],
        ),
    ];
    for (claim, lines, left) in cases {
        let left: Left = left.iter().map(|left| some(left)).collect();
        assert_eq!(Replay::after(lines).left("old"), left, "{claim}");
    }
}

#[test]
fn a_write_that_was_not_synced_may_be_torn_between_sectors() {
    // The first sector has room for two more bytes.
    let write = "1 pwrite64(4<D/old>, \"abcd\", 4, 510) = 4";
    let left = Replay::after(&[write]).left("old");
    let mut whole = b"old".to_vec();
    whole.resize(510, 0);
    whole.extend(b"abcd");
    let mut second_alone = whole.clone();
    second_alone[510..512].fill(0);
    let first_alone = whole[..512].to_vec();
    let expected = [b"old".to_vec(), whole, first_alone, second_alone].map(Some);
    assert_eq!(left, expected.into());
}

#[test]
fn a_write_to_a_synchronous_file_that_has_not_returned_need_not_be_there() {
    let mut replay = Replay::after(&[SYNCHRONOUS]);
    let lines = [
        "1 pwrite64(4<D/old>, \"new\", 3, 0 <unfinished ...>",
        "2 write(1<pipe:[1]>, \"x\", 1) = 1",
        "1 <... pwrite64 resumed>) = 3",
    ];
    replay.trace.extend(lines.map(str::to_owned));
    replay.run_lines(1..3);
    assert_eq!(replay.left("old"), [some("old"), some("new")].into());
    replay.run_lines(3..4);
    assert_eq!(replay.left("old"), [some("new")].into());
}

#[test]
fn writes_are_in_the_order_in_which_they_began() {
    // The one that began first returned last.
    let replay = Replay::after(&[
        "1 pwrite64(4<D/old>, \"new\", 3, 0 <unfinished ...>",
        "2 pwrite64(4<D/old>, \"abc\", 3, 0) = 3",
        "1 <... pwrite64 resumed>) = 3",
        "1 fsync(4<D/old>) = 0",
    ]);
    assert_eq!(replay.left("old"), [some("abc")].into());
}

const MAKE: &str =
    "1 openat(AT_FDCWD</>, \"D/one/made\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 4<D/one/made>";

#[test]
fn plain_writes_follow_each_other_for_each_descriptor() {
    let replay = Replay::after(&[
        MAKE,
        "1 write(4<D/one/made>, \"ab\", 2) = 2",
        "1 openat(AT_FDCWD</>, \"D/one/made\", O_RDONLY|O_CLOEXEC) = 5<D/one/made>",
        "1 write(4<D/one/made>, \"cd\", 2) = 2",
        "1 openat(AT_FDCWD</>, \"D/one/made\", O_WRONLY|O_CLOEXEC) = 5<D/one/made>",
        "1 write(5<D/one/made>, \"x\", 1) = 1",
        "1 lseek(4<D/one/made>, 1, SEEK_CUR) = 5",
        "1 write(4<D/one/made>, \"e\", 1) = 1",
        "1 fsync(5<D/one/made>) = 0",
        "1 fsync(6<D/one>) = 0",
    ]);
    assert_eq!(replay.left("one/made"), [some("xbcd\0e")].into());
}

#[test]
#[should_panic(expected = "open for writing alone")]
fn a_plain_write_to_what_can_also_be_read_is_refused() {
    let open = "1 openat(AT_FDCWD</>, \"D/old\", O_RDWR|O_CLOEXEC) = 4<D/old>";
    Replay::after(&[open, "1 write(4<D/old>, \"new\", 3) = 3"]);
}

#[test]
#[should_panic(expected = "appended")]
fn a_file_to_append_to_is_refused() {
    Replay::after(&["1 openat(AT_FDCWD</>, \"D/old\", O_WRONLY|O_APPEND) = 4<D/old>"]);
}

#[test]
#[should_panic(expected = "does not know copy_file_range")]
fn a_call_that_the_disk_does_not_know_is_refused() {
    Replay::after(&["1 copy_file_range(4<D/old>, NULL, 5<D/other>, NULL, 3, 0) = 3"]);
}

#[test]
fn a_name_that_was_made_stays_when_its_folder_was_synced() {
    let mut replay = Replay::after(&[MAKE]);
    assert_eq!(replay.left("one/made"), [None, some("")].into());
    // Not the file's own sync keeps its name.
    replay.run(&["1 fsync(4<D/one/made>) = 0"]);
    assert_eq!(replay.left("one/made"), [None, some("")].into());
    replay.run(&["1 fsync(5<D/one>) = 0"]);
    assert_eq!(replay.left("one/made"), [some("")].into());
}

#[test]
fn a_name_that_was_changed_stays_so_when_its_folder_was_synced() {
    let mut replay = Replay::after(&["1 rename(\"D/old\", \"D/new\") = 0"]);
    let (before, after) = ([some("old"), None], [None, some("old")]);
    assert_eq!(replay.left_of(["old", "new"]), [before, after.clone()].into());
    replay.run(&["1 fsync(5<D>) = 0"]);
    assert_eq!(replay.left_of(["old", "new"]), [after].into());
}

#[test]
fn a_name_that_was_removed_stays_away_when_its_folder_was_synced() {
    let mut replay = Replay::after(&["1 unlink(\"D/old\") = 0"]);
    assert_eq!(replay.left("old"), [None, some("old")].into());
    replay.run(&["1 fsync(5<D>) = 0"]);
    assert_eq!(replay.left("old"), [None].into());
}

#[test]
fn a_sync_of_one_folder_does_not_keep_the_names_of_another() {
    let made =
        "1 openat(AT_FDCWD</>, \"D/other/later\", O_WRONLY|O_CREAT, 0666) = 5<D/other/later>";
    let mut replay = Replay::after(&[MAKE, made, "1 fsync(6<D/other>) = 0"]);
    let names = ["one/made", "other/later"];
    let both = [some(""), some("")];
    assert_eq!(replay.left_of(names), [[None, some("")], both.clone()].into());
    replay.run(&["1 fsync(6<D>) = 0"]);
    assert_eq!(replay.left_of(names), [[None, some("")], both.clone()].into());
    replay.run(&["1 fsync(6<D/one>) = 0"]);
    assert_eq!(replay.left_of(names), [both].into());
}

#[test]
fn a_sync_of_a_folder_keeps_the_names_on_the_way_to_it() {
    let replay = Replay::after(&[
        "1 mkdir(\"D/new\", 0777) = 0",
        "1 mkdir(\"D/new/within\", 0777) = 0",
        "1 mkdir(\"D/new/beside\", 0777) = 0",
        "1 openat(AT_FDCWD</>, \"D/new/within/made\", O_WRONLY|O_CREAT) = 5<D/new/within/made>",
        "1 fsync(6<D/new/within>) = 0",
    ]);
    let left = replay.left_of(["new/within/made", "new/beside"]);
    assert_eq!(left, [[some(""), None], [some(""), some("")]].into());
}

#[test]
fn a_sync_of_a_folder_that_was_renamed_keeps_what_was_made_under_its_old_name() {
    let mut replay = Replay::after(&[
        "1 mkdir(\"D/new\", 0777) = 0",
        "1 openat(AT_FDCWD</>, \"D/new/made\", O_WRONLY|O_CREAT) = 5<D/new/made>",
        "1 rename(\"D/new\", \"D/named\") = 0",
        "1 fsync(6<D>) = 0",
    ]);
    assert_eq!(replay.left_of(["new", "named", "named/made"]), {
        [[None, some(""), None], [None, some(""), some("")]].into()
    });
    replay.run(&["1 fsync(6<D/named>) = 0"]);
    assert_eq!(replay.left("named/made"), [some("")].into());
}

#[test]
fn a_name_that_moved_to_a_synced_folder_is_in_one_of_both_alone() {
    let replay = Replay::after(&[
        MAKE,
        "1 rename(\"D/one/made\", \"D/other/made\") = 0",
        "1 fsync(6<D/other>) = 0",
    ]);
    assert_eq!(replay.left_of(["one/made", "other/made"]), [[None, some("")]].into());
}

#[test]
fn of_names_in_several_folders_the_first_changes_may_be_there() {
    let later = "1 unlink(\"D/old\") = 0";
    let left = Replay::after(&[MAKE, later]).left_of(["one/made", "old"]);
    let expected = [[None, some("old")], [some(""), some("old")], [some(""), None]];
    assert_eq!(left, expected.into());
}

#[test]
fn some_cuts_have_another_luck_for_each_file() {
    let mut replay = Replay::after(&[MAKE, "1 fsync(6<D/one>) = 0"]);
    // So many writes that chance alone neither keeps nor loses all of them.
    for at in 0..64 {
        for (descriptor, file) in [(4, "one/made"), (5, "old")] {
            let write = format!("1 pwrite64({descriptor}<D/{file}>, \"x\", 1, {at}) = 1");
            replay.run(&[&write]);
        }
    }
    let all = Some(vec![b'x'; 64]);
    let left = replay.left_of(["one/made", "old"]);
    assert!(left.contains(&[all.clone(), some("old")]));
    assert!(left.contains(&[some(""), all]));
}

#[test]
fn a_cut_says_how_much_is_lost() {
    let mut chance = Rng::with_seed(1);
    let losses = |replay: &Replay, chance: &mut Rng| -> BTreeSet<usize> {
        let target = replay.folder.path().join("left");
        let cuts = 0..CUTS;
        let cuts = cuts.map(|_| {
            let lost = replay.disk.cut(&target, chance);
            fs::remove_dir_all(&target).unwrap();
            lost
        });
        cuts.collect()
    };
    let synced = Replay::after(&[WRITE, "1 fsync(4<D/old>) = 0"]);
    assert_eq!(losses(&synced, &mut chance), [0].into());
    let not_synced = Replay::after(&[WRITE, MAKE]);
    assert_eq!(losses(&not_synced, &mut chance), [0, 1, 2].into());
}
