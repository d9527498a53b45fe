//! The manual pages and the completions describe the whole command line.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use plantd_tests::{CommandHelp, printed, temporary_folder};

#[test]
fn each_subcommand_has_a_manual_page_with_all_its_flags() {
    let folder = temporary_folder();
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
    assert!(page.contains("Exit codes:"), "{page}");
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
fn each_shell_completes_each_subcommand_and_its_flags() {
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
    // clap makes the other scripts from the same subcommands and flags.
    for shell in ["fish", "zsh"] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("import") && script.contains("on-conflict"), "{script}");
    }
}
