//! Modules of a crate that import each other, directly or in a longer cycle.
//!
//! A module is a file. Every path in its code counts, and is followed through re-exports to the module that defines the
//! name. The re-export of a descendant is no import. Unit tests, which stand at the end of a file or in one of their own,
//! are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice;

use cargo_metadata::Metadata;

use crate::invariants::{files_below, read};

/// How many re-exports of re-exports are followed. The bound ends the search for a name that re-exports itself.
const REEXPORTS_MAX: usize = 16;

/// What begins the unit tests at the end of a file.
const UNIT_TESTS: &str = "mod tests {";

/// The cycles in the crates of the product, and in this one.
pub(crate) fn violations(workspace: &Metadata) -> anyhow::Result<Vec<String>> {
    let folders = ["crates", "xtask"].map(|folder| workspace.workspace_root.join(folder));
    let mut violations = Vec::new();
    for package in workspace.workspace_packages() {
        let folder = package.manifest_path.with_file_name("src");
        if folders.iter().any(|it| folder.starts_with(it)) {
            let cycles = Crate::read(folder.as_std_path())?.cycles().into_iter();
            violations.extend(cycles.map(|cycle| {
                format!("{cycle} in a cycle: move what the modules share into one of its own")
            }));
        }
    }
    Ok(violations)
}

/// The modules of a crate by their paths, such as `crate::server::tls`.
#[derive(Default)]
struct Crate(BTreeMap<String, Module>);

#[derive(Default)]
struct Module {
    /// The names that `use` imports, with their full paths.
    bindings: BTreeMap<String, Vec<String>>,
    imports: Vec<Import>,
}

struct Import {
    path: Vec<String>,
    is_reexport: bool,
}

enum Target {
    Module(String),
    /// Something that this module defines.
    Item(String),
}

impl Crate {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut modules = BTreeMap::<String, Module>::new();
        for file in files_below(folder)? {
            let path = file.strip_prefix(folder)?.with_extension("");
            let names = path.iter().map(|name| name.to_string_lossy());
            let names = names.filter(|name| !["lib", "main", "mod"].contains(&&**name));
            let path = names.fold("crate".to_owned(), |path, name| path + "::" + &name);
            if file.extension() == Some("rs".as_ref()) && !path.ends_with("::tests") {
                modules.entry(path).or_default().read_code(&read(&file)?);
            }
        }
        Ok(Self(modules))
    }

    /// The target of a path; `None` if it is outside this crate.
    fn resolve(&self, from: &str, path: &[String], reexports: usize) -> Option<Target> {
        let mut module = from.to_owned();
        for (position, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" => "crate".clone_into(&mut module),
                "self" => {}
                "super" => module.truncate(module.rfind("::")?),
                name => match self.look_up(&module, name, reexports) {
                    Some(Target::Module(found)) => module = found,
                    None if position > 0 => return Some(Target::Item(module)),
                    item_or_none => return item_or_none,
                },
            }
        }
        Some(Target::Module(module))
    }

    fn look_up(&self, module: &str, name: &str, reexports: usize) -> Option<Target> {
        let path = || self.0.get(module)?.bindings.get(name);
        let bound = || self.resolve(module, path()?, reexports.checked_sub(1)?);
        let child = format!("{module}::{name}");
        bound().or_else(|| self.0.contains_key(&child).then_some(Target::Module(child)))
    }

    /// The modules that a module imports, each with an example path.
    fn imported_by(&self, name: &str, module: &Module) -> BTreeMap<String, String> {
        let mut imported = BTreeMap::new();
        for Import { path, is_reexport } in &module.imports {
            if let Some(Target::Item(to)) = self.resolve(name, path, REEXPORTS_MAX)
                && to != name
                && !(*is_reexport && to.starts_with(&format!("{name}::")))
            {
                imported.entry(to).or_insert_with(|| path.join("::"));
            }
        }
        imported
    }

    /// The imports that are part of a cycle: those from modules that lead back.
    fn cycles(&self) -> Vec<String> {
        let imported =
            |(name, module): (&String, &Module)| (name.clone(), self.imported_by(name, module));
        let imported: BTreeMap<String, BTreeMap<String, String>> =
            self.0.iter().map(imported).collect();
        let leads = |from: &str, to: &str| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(next) = open.pop().and_then(|from| imported.get(from)) {
                open.extend(next.keys().map(String::as_str).filter(|to| seen.insert(*to)));
            }
            seen.contains(to)
        };
        let mut cycles = Vec::new();
        for (from, imported) in &imported {
            let in_cycle = imported.iter().filter(|(to, _)| leads(to, from));
            cycles.extend(in_cycle.map(|(to, path)| format!("{from} → {to} by `{path}`")));
        }
        cycles
    }
}

impl Module {
    fn read_code(&mut self, code: &str) {
        let code = code.split(UNIT_TESTS).next().unwrap_or_default();
        let tokens: Vec<&str> = code.lines().flat_map(tokens).collect();
        let (mut tokens, mut before) = (tokens.iter(), ";");
        while let Some(token) = tokens.next() {
            // Elsewhere, `use` is a word in a text.
            if *token == "use" && [";", "{", "}", "]", ")", "pub"].contains(&before) {
                before = self.read_use(&mut tokens, &[], ["pub", ")"].contains(&before));
                continue;
            }
            if is_word(token) && before != "." {
                let mut path = vec![(*token).to_owned()];
                while let [":", ":", next, ..] = tokens.as_slice()
                    && is_word(next)
                {
                    path.push((*next).to_owned());
                    tokens.nth(2);
                }
                self.imports.push(Import { path, is_reexport: false });
            }
            before = token;
        }
    }

    /// Reads what follows `use`, or one branch of it behind `prefix`. Returns the token at its end.
    fn read_use<'code>(
        &mut self,
        tokens: &mut slice::Iter<'_, &'code str>,
        prefix: &[String],
        is_reexport: bool,
    ) -> &'code str {
        let (mut path, mut name) = (prefix.to_vec(), None);
        loop {
            match *tokens.next().unwrap_or(&";") {
                "{" => {
                    while self.read_use(tokens, &path, is_reexport) == "," {}
                    name = None;
                }
                "as" => name = tokens.next().map(|name| (*name).to_owned()),
                // A path that begins with `::` is outside the crate, where no name is empty.
                ":" if path.is_empty() => path.push(String::new()),
                ":" => {}
                "self" if !path.is_empty() => name = path.last().cloned(),
                end @ ("," | "}" | ";") => {
                    if let Some(name) = name {
                        self.bindings.insert(name, path.clone());
                        self.imports.push(Import { path, is_reexport });
                    }
                    return end;
                }
                segment => {
                    path.push(segment.to_owned());
                    name = Some(segment.to_owned());
                }
            }
        }
    }
}

/// The words of a line, and every other character by itself, without comments and texts in quotation marks.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    let code = code.split('"').step_by(2);
    let words = code.flat_map(|code| code.split_inclusive(|letter: char| !is_letter(letter)));
    let tokens = words.flat_map(|word| {
        let (word, end) = word.split_at(word.trim_end_matches(|it| !is_letter(it)).len());
        [word, end]
    });
    tokens.filter(|token| !token.trim().is_empty())
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(is_letter)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Each crate, a line for each file, with the imports of its cycles.
    const CRATES: [(&str, &str); 4] = [
        (
            r#"lib.rs: mod a; mod b; mod c;
            a.rs: use std::fs; use super::b::{self, B}; pub struct A;
            b.rs: pub struct B; fn f() { println!("crate::c::C {}", g(crate::a::A)) }
            c.rs: use crate::b::B;"#,
            "crate::a → crate::b by `super::b::B`, crate::b → crate::a by `crate::a::A`",
        ),
        (
            "lib.rs: mod a;
            a.rs: pub const MAX: u8 = 1; mod b; pub use b::B; fn f(_: B) {}
            a/b.rs: use super::MAX; pub struct B;",
            "crate::a → crate::a::b by `B`, crate::a::b → crate::a by `super::MAX`",
        ),
        (
            "lib.rs: mod a; pub use a::B; mod c;
            a/mod.rs: mod b; pub use b::B;
            a/b.rs: pub struct B; fn f(_: crate::c::C) {}
            c.rs: pub struct C; fn f(_: crate::B) {}",
            "crate::a::b → crate::c by `crate::c::C`, crate::c → crate::a::b by `crate::B`",
        ),
        (
            "lib.rs: mod a; mod other; pub use a::A; pub use self::a::b::B;
            a.rs: pub mod b; pub use b::B; pub struct A; #[cfg(test)] mod tests { use super::b::B; }
            a/b.rs: use super::A; use other::Tree; pub(in crate::a) struct B;
            other.rs: use ::other::Db; use crate::a; fn f(_: a::b::B, x: Db) { x.a }",
            "",
        ),
    ];

    #[test]
    fn cycles_are_found_through_macros_parents_and_reexports_and_trees_have_none() {
        for (files, expected) in CRATES {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in files.lines().filter_map(|line| line.split_once(": ")) {
                let path = folder.path().join(path.trim());
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let cycles = Crate::read(folder.path()).unwrap().cycles();
            assert_eq!(cycles.join(", "), expected, "{files}");
        }
    }
}
