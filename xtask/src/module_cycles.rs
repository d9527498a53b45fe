//! Modules of a crate that import each other, directly or in a longer cycle.
//!
//! Every path in the code counts, even in macro calls, and is followed through re-exports to the module that defines
//! the name. `mod child;` and the re-export of a descendant are no imports. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::{Metadata, TargetKind};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// How many re-exports of re-exports are followed. The bound ends the search for a name that re-exports itself.
const REEXPORTS_MAX: usize = 16;

/// The cycles in the libraries and programs under `crates/`.
pub(crate) fn violations(workspace: &Metadata) -> anyhow::Result<Vec<String>> {
    let product = workspace.workspace_root.join("crates");
    let packages = workspace.workspace_packages().into_iter();
    let targets = packages
        .filter(|package| package.manifest_path.starts_with(&product))
        .flat_map(|package| &package.targets)
        .filter(|target| target.is_lib() || target.kind.contains(&TargetKind::Bin));
    let mut violations = Vec::new();
    for target in targets {
        let cycles = Crate::read(target.src_path.as_std_path())?.cycles();
        if !cycles.is_empty() {
            violations.push(format!(
                "modules of {} import each other; move what they share into a module of its own:\n    {}",
                target.name,
                cycles.join("\n    ")
            ));
        }
    }
    Ok(violations)
}

#[derive(Default)]
struct Module {
    /// The path of the module, such as `crate::server::tls`.
    name: String,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// The names that `use` imports, with their full paths.
    bindings: BTreeMap<String, Vec<String>>,
    imports: Vec<Import>,
}

struct Import {
    path: Vec<String>,
    is_reexport: bool,
}

#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// Something that this module defines.
    Item(usize),
}

/// All modules of a crate; the first is the root.
#[derive(Default)]
struct Crate(Vec<Module>);

impl Crate {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let mut modules = Self(vec![Module { name: "crate".to_owned(), ..Module::default() }]);
        modules.read_file(0, root)?;
        Ok(modules)
    }

    fn read_file(&mut self, module: usize, path: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let tokens: TokenStream = text
            .parse()
            .map_err(|cause| anyhow::anyhow!("cannot parse {}: {cause}", path.display()))?;
        let is_named_by_folder =
            ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
        let folder =
            if is_named_by_folder { path.with_file_name("") } else { path.with_extension("") };
        self.read_tokens(module, &folder, tokens)
    }

    /// Reads the code of a module, whose children have their files in `folder`.
    fn read_tokens(
        &mut self,
        module: usize,
        folder: &Path,
        code: TokenStream,
    ) -> anyhow::Result<()> {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let mut position = 0;
        while let Some(token) = tokens.get(position) {
            position += 1;
            match token {
                TokenTree::Group(group) if is_cfg_test(group) => {
                    let is_end = |token: &TokenTree| is_punct(token, ';') || is_block(token);
                    position += 1 + tokens[position..].iter().take_while(|it| !is_end(it)).count();
                }
                TokenTree::Group(group) => self.read_tokens(module, folder, group.stream())?,
                TokenTree::Ident(ident) if ident == "mod" => {
                    let name = tokens[position].to_string();
                    self.read_child(module, &folder.join(&name), name, &tokens[position + 1])?;
                    position += 2;
                }
                TokenTree::Ident(ident) if ident == "use" => {
                    let is_reexport = position > 1 && !starts_item(&tokens[position - 2]);
                    let tree = &tokens[position..];
                    let length = tree.iter().take_while(|token| !is_punct(token, ';')).count();
                    self.read_use(module, &tree[..length], &[], is_reexport);
                    position += length;
                }
                TokenTree::Ident(_) if position > 1 && is_punct(&tokens[position - 2], '.') => {}
                TokenTree::Ident(ident) => {
                    let mut path = vec![ident.to_string()];
                    while let [colon, _, TokenTree::Ident(next), ..] = &tokens[position..]
                        && is_punct(colon, ':')
                        && is_punct(&tokens[position + 1], ':')
                    {
                        path.push(next.to_string());
                        position += 3;
                    }
                    self.0[module].imports.push(Import { path, is_reexport: false });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_child(
        &mut self,
        parent: usize,
        folder: &Path,
        name: String,
        content: &TokenTree,
    ) -> anyhow::Result<()> {
        let child = self.0.len();
        let full_name = format!("{}::{name}", self.0[parent].name);
        self.0.push(Module { name: full_name, parent, ..Module::default() });
        self.0[parent].children.insert(name, child);
        match content {
            TokenTree::Group(group) => self.read_tokens(child, folder, group.stream()),
            _ => {
                let files: [PathBuf; 2] = [folder.with_extension("rs"), folder.join("mod.rs")];
                let file = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
                self.read_file(child, file)
            }
        }
    }

    /// Reads what follows `use`, or one branch of it behind `prefix`.
    fn read_use(
        &mut self,
        module: usize,
        tree: &[TokenTree],
        prefix: &[String],
        is_reexport: bool,
    ) {
        let mut path = prefix.to_vec();
        let mut rest = tree;
        // A path that begins with `::` is outside the crate.
        while let [token, after @ ..] = rest {
            match token {
                TokenTree::Group(group) => {
                    let branches: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in branches.split(|token| is_punct(token, ',')) {
                        self.read_use(module, branch, &path, is_reexport);
                    }
                    return;
                }
                TokenTree::Ident(ident) if ident == "as" => break,
                TokenTree::Punct(punct) if punct.as_char() == ':' && path.is_empty() => return,
                TokenTree::Punct(punct) if punct.as_char() == ':' => {}
                segment if path.is_empty() || segment.to_string() != "self" => {
                    path.push(segment.to_string());
                }
                _ => {}
            }
            rest = after;
        }
        let name = rest.get(1).map(ToString::to_string).or_else(|| path.last().cloned());
        let module = &mut self.0[module];
        module.bindings.extend(name.map(|name| (name, path.clone())));
        module.imports.push(Import { path, is_reexport });
    }

    /// The target of a path; `None` if it is outside this crate.
    fn resolve(&self, from: usize, path: &[String], reexports: usize) -> Option<Target> {
        let mut found = Target::Module(from);
        for (position, segment) in path.iter().enumerate() {
            let Target::Module(module) = found else { break };
            found = match segment.as_str() {
                "crate" => Target::Module(0),
                "self" => found,
                "super" => Target::Module(self.0[module].parent),
                name => {
                    let named = self.look_up(module, name, reexports);
                    if position == 0 { named? } else { named.unwrap_or(Target::Item(module)) }
                }
            };
        }
        Some(found)
    }

    fn look_up(&self, module: usize, name: &str, reexports: usize) -> Option<Target> {
        let Module { children, bindings, .. } = &self.0[module];
        let bound = || self.resolve(module, bindings.get(name)?, reexports.checked_sub(1)?);
        bound().or_else(|| children.get(name).map(|child| Target::Module(*child)))
    }

    /// The imports between modules: the importing and the imported module, with an example path.
    fn edges(&self) -> BTreeMap<(usize, usize), String> {
        let mut edges = BTreeMap::new();
        for (from, module) in self.0.iter().enumerate() {
            for Import { path, is_reexport } in &module.imports {
                if let Some(Target::Item(to)) = self.resolve(from, path, REEXPORTS_MAX)
                    && to != from
                    && !(*is_reexport && self.0[to].name.starts_with(&format!("{}::", module.name)))
                {
                    edges.entry((from, to)).or_insert_with(|| path.join("::"));
                }
            }
        }
        edges
    }

    /// The imports that are part of a cycle: those from modules that lead back.
    fn cycles(&self) -> Vec<String> {
        let edges = self.edges();
        let leads = |from: usize, to: usize| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(from) = open.pop() {
                let next = edges.range((from, 0)..=(from, usize::MAX)).map(|((_, to), _)| *to);
                open.extend(next.filter(|to| seen.insert(*to)));
            }
            seen.contains(&to)
        };
        let in_cycle = edges.iter().filter(|((from, to), _)| leads(*to, *from));
        let line = |((from, to), path): (&(usize, usize), &String)| {
            format!("{} → {} by `{path}`", self.0[*from].name, self.0[*to].name)
        };
        in_cycle.map(line).collect()
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Whether the item after this token has no visibility.
fn starts_item(token: &TokenTree) -> bool {
    is_punct(token, ';')
        || matches!(token, TokenTree::Group(group) if group.delimiter() != Delimiter::Parenthesis)
}

fn is_cfg_test(group: &proc_macro2::Group) -> bool {
    group.delimiter() == Delimiter::Bracket && group.stream().to_string() == "cfg (test)"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each crate, a line for each file, with the imports of its cycles.
    const CRATES: [(&str, &str); 4] = [
        (
            r#"lib.rs: mod a; mod b;
            a.rs: use super::b::{self, B}; pub struct A;
            b.rs: pub struct B; fn f() { println!("{}", g(crate::a::A)) }"#,
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
            let cycles = Crate::read(&folder.path().join("lib.rs")).unwrap().cycles();
            assert_eq!(cycles.join(", "), expected, "{files}");
        }
    }
}
