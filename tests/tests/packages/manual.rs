//! The manual pages and the completions describe the whole command line.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use plantd_tests::{CommandHelp, printed};

/// The exit codes of `docs/operations.md`.
const EXIT_CODES: [&str; 6] = ["0", "1", "64", "74", "75", "78"];

#[test]
fn each_subcommand_has_a_manual_page_with_all_its_flags() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let pages = folder.path().join("new/man");
    printed(&["man", pages.to_str().expect("UTF-8")]);
    for subcommand in CommandHelp::all() {
        let name = format!("plantd-{}", subcommand.words.join("-"));
        let path = pages.join(format!("{}.1", name.trim_end_matches('-')));
        let page = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", path.display()));
        let page = page.replace('\\', "");
        for flag in subcommand.flags() {
            assert!(page.contains(&format!("fB{flag}fR")), "{name} lacks {flag}: {page}");
        }
        assert!(subcommand.words.is_empty() || !page.contains("PLANTD_TOKEN in the environment"));
    }
    let page = fs::read_to_string(pages.join("plantd.1")).expect("a file can be read");
    for code in EXIT_CODES {
        assert!(page.lines().any(|line| line.trim_start().starts_with(&format!("{code}  "))));
    }
}

/// The flags and subcommands that the fish script offers after these words.
fn offered_by_fish(script: &str, words: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
    let conditions = match words {
        [] => vec!["\"__fish_plantd_needs_command\"".to_owned()],
        [one] => ["\"", "; and not "]
            .map(|end| format!("\"__fish_plantd_using_subcommand {one}{end}"))
            .to_vec(),
        [one, two] => vec![format!(
            "\"__fish_plantd_using_subcommand {one}; and __fish_seen_subcommand_from {two}\""
        )],
        _ => panic!("{words:?} are more words than this test knows"),
    };
    let offers = |line: &&str| conditions.iter().any(|condition| line.contains(condition));
    let lines: Vec<&str> = script.lines().filter(offers).collect();
    let behind = |option: &str| -> Vec<&str> {
        let rests = lines.iter().filter_map(|line| Some(line.split_once(option)?.1));
        rests.filter_map(|rest| rest.split([' ', '"']).next()).collect()
    };
    let flags = behind(" -l ").into_iter().map(|flag| format!("--{flag}")).collect();
    (flags, behind(" -a \"").into_iter().map(str::to_owned).collect())
}

/// The flags that the zsh script offers after these words, which have a branch of their own.
#[track_caller]
fn offered_by_zsh(script: &str, words: &[String]) -> BTreeSet<String> {
    let mut lines = script.lines();
    for word in words {
        let branch = format!("({word})");
        assert!(lines.any(|line| line.trim() == branch), "zsh does not know {words:?}");
    }
    let arguments = lines.skip_while(|line| !line.starts_with("_arguments")).map(str::trim_start);
    let arguments = arguments.take_while(|line| !line.starts_with("&& ret=0"));
    // A list in parentheses has the flags that exclude this one.
    let without_list = |line| match str::split_once(line, ')') {
        Some((list, flag)) if list.starts_with("'(") => flag,
        _ => line,
    };
    let flags = arguments.map(without_list).map(|line| line.trim_start_matches(['\'', '*']));
    let flags = flags.filter(|line| line.starts_with("--"));
    flags.filter_map(|line| Some(line.split(['=', '[']).next()?.to_owned())).collect()
}

#[test]
fn fish_and_zsh_complete_each_subcommand_and_exactly_its_flags() {
    let [fish, zsh] = ["fish", "zsh"].map(|shell| printed(&["completions", shell]));
    for help in CommandHelp::all() {
        let words = &help.words;
        assert_eq!(offered_by_fish(&fish, words).0, help.flags(), "fish, {words:?}");
        if let Some((last, before)) = words.split_last() {
            let (_, subcommands) = offered_by_fish(&fish, before);
            assert!(subcommands.contains(last), "fish, {words:?}: {subcommands:?}");
        }
        if !words.is_empty() {
            assert_eq!(offered_by_zsh(&zsh, words), help.flags(), "zsh, {words:?}");
        }
    }
}

/// What bash offers after these words.
fn offered(words: &[&str]) -> String {
    let (last, before) = words.split_last().expect("there are words");
    let script = format!(
        "{}\nCOMP_WORDS=({}); COMP_CWORD={}; _plantd plantd '{last}' '{}'; echo \"${{COMPREPLY[@]}}\"",
        printed(&["completions", "bash"]),
        words.join(" "),
        before.len(),
        before.last().expect("the program"),
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
}

#[test]
fn bash_completes_each_subcommand_and_its_flags() {
    for help in CommandHelp::all() {
        let (words, flags) = (&help.words, help.flags());
        let path: Vec<&str> =
            ["plantd"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let offered_flags = offered(&[&path[..], &["--"]].concat());
        assert_eq!(
            offered_flags.split(' ').collect::<BTreeSet<_>>(),
            flags.iter().map(String::as_str).collect()
        );
        if let Some(name) = words.last() {
            assert!(offered(&path).split(' ').any(|word| word == name), "{path:?}");
        }
    }
    assert_eq!(offered(&["plantd", "impo"]), "import");
}
