//! Modules that import each other, directly or in a longer cycle.
//!
//! A `use` item and any path in the code, also inside of a macro call, is an import of the module that defines the
//! name: re-exports are followed. `mod child;` is no import, and neither is a re-export of a descendant. Code for
//! unit tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::{Metadata, TargetKind};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// How many re-exports of re-exports are followed; it ends the search for a name that stands for itself.
const REEXPORTS_MAX: usize = 16;

/// The cycles in the libraries and programs of the product.
pub(super) fn violations(metadata: &Metadata) -> anyhow::Result<Vec<String>> {
    let product = metadata.workspace_root.join("crates");
    let mut violations = Vec::new();
    for package in metadata.workspace_packages() {
        let is_product = package.manifest_path.starts_with(&product);
        for target in package.targets.iter().filter(|_| is_product) {
            if target.kind.iter().any(|kind| [TargetKind::Lib, TargetKind::Bin].contains(kind)) {
                let cycles = Modules::read(target.src_path.as_std_path())?.cycles();
                violations.extend(cycles.iter().map(|cycle| {
                    format!(
                        "modules of {} import each other; move what they share into a module of its own:\n{cycle}",
                        target.name
                    )
                }));
            }
        }
    }
    Ok(violations)
}

/// All modules of a crate; the first is the root.
struct Modules(Vec<Module>);

#[derive(Default)]
struct Module {
    /// Such as `crate::server::tls`.
    name: String,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// The names that `use` items bring in, and the paths that they stand for.
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

impl Modules {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let mut reader = Reader::default();
        reader.add_module("crate".to_owned());
        reader.files.push((0, root.to_owned()));
        while let Some((module, path)) = reader.files.pop() {
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            let file = syn::parse_file(&text);
            let file = file.with_context(|| format!("cannot parse {}", path.display()))?;
            let is_named_by_folder =
                ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| path.ends_with(name));
            reader.folder =
                if is_named_by_folder { path.with_file_name("") } else { path.with_extension("") };
            reader.current = module;
            reader.visit_file(&file);
        }
        Ok(Self(reader.modules))
    }

    /// What a path leads to; `None` for what is not in this crate.
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

    /// From which module to which there is an import, and how it is written.
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

    /// Each strongly connected component of more than one module, a line for each import in it.
    fn cycles(&self) -> Vec<String> {
        let edges = self.edges();
        let reachable = |start: usize| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(from) = open.pop() {
                let next = edges.range((from, 0)..=(from, usize::MAX)).map(|((_, to), _)| *to);
                open.extend(next.filter(|to| seen.insert(*to)));
            }
            seen
        };
        let reached: Vec<BTreeSet<usize>> = (0..self.0.len()).map(reachable).collect();
        let in_cycles = (0..self.0.len()).filter(|module| reached[*module].contains(module));
        let components: BTreeSet<BTreeSet<usize>> = in_cycles
            .map(|module| {
                reached[module]
                    .iter()
                    .copied()
                    .filter(|it| reached[*it].contains(&module))
                    .collect()
            })
            .collect();
        let lines = |component: &BTreeSet<usize>| {
            let inside = edges
                .iter()
                .filter(|((from, to), _)| component.contains(from) && component.contains(to));
            inside
                .map(|((from, to), path)| {
                    format!("    {} → {} by `{path}`\n", self.0[*from].name, self.0[*to].name)
                })
                .collect()
        };
        components.iter().map(lines).collect()
    }
}

/// Reads the files of a crate, from its root on.
#[derive(Default)]
struct Reader {
    modules: Vec<Module>,
    /// The module that is being read.
    current: usize,
    /// Where the files of its children are.
    folder: PathBuf,
    /// Modules that are still to be read, and their files.
    files: Vec<(usize, PathBuf)>,
}

impl Reader {
    fn add_module(&mut self, name: String) -> usize {
        self.modules.push(Module { name, parent: self.current, ..Module::default() });
        self.modules.len() - 1
    }

    fn import(&mut self, path: Vec<String>, is_reexport: bool) {
        self.modules[self.current].imports.push(Import { path, is_reexport });
    }

    fn read_use(&mut self, tree: &syn::UseTree, mut path: Vec<String>, is_reexport: bool) {
        let name = match tree {
            syn::UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.read_use(&tree.tree, path, is_reexport);
            }
            syn::UseTree::Group(group) => {
                return group
                    .items
                    .iter()
                    .for_each(|tree| self.read_use(tree, path.clone(), is_reexport));
            }
            syn::UseTree::Glob(_) => "*".to_owned(),
            syn::UseTree::Name(tree) => tree.ident.to_string(),
            syn::UseTree::Rename(tree) => tree.ident.to_string(),
        };
        if name != "self" {
            path.push(name);
        }
        let name = match tree {
            syn::UseTree::Rename(tree) => Some(tree.rename.to_string()),
            _ => path.last().cloned(),
        };
        self.modules[self.current].bindings.extend(name.map(|name| (name, path.clone())));
        self.import(path, is_reexport);
    }

    /// The paths in code that is not parsed: what macros and attributes are given.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut before = String::new();
        for token in tokens {
            if let TokenTree::Punct(punct) = token {
                before.push(punct.as_char());
                continue;
            }
            if before != "::" {
                self.import(std::mem::take(&mut path), false);
            }
            match token {
                // The name of a field or a method is no path.
                TokenTree::Ident(ident) if before != "." => path.push(ident.to_string()),
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                _ => {}
            }
            before.clear();
        }
        self.import(path, false);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        let child = self.add_module(format!("{}::{name}", self.modules[self.current].name));
        self.modules[self.current].children.insert(name.clone(), child);
        let folder = self.folder.join(&name);
        if item.content.is_none() {
            let (file, in_folder) = (folder.with_extension("rs"), folder.join("mod.rs"));
            self.files.push((child, if file.exists() { file } else { in_folder }));
            return;
        }
        let parent = (self.current, std::mem::replace(&mut self.folder, folder));
        self.current = child;
        visit::visit_item_mod(self, item);
        (self.current, self.folder) = parent;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.read_use(&item.tree, Vec::new(), !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    /// `pub(in crate::server)` says who may use something, and uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.import(
                path.segments.iter().map(|segment| segment.ident.to_string()).collect(),
                false,
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.read_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.read_tokens(list.tokens.clone());
    }
}

fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cycles of a crate of these files.
    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Modules::read(&folder.path().join("lib.rs")).unwrap().cycles()
    }

    #[test]
    fn siblings_that_import_each_other_are_found_with_their_imports() {
        let found = cycles(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use super::b::{self, B}; pub struct A;"),
            ("b.rs", "pub struct B; fn f() { println!(\"{}\", g(crate::a::A)) }"),
            ("c.rs", "use crate::a::A; fn f(_: Vec<crate::b::B>) {}"),
        ]);
        assert_eq!(
            found,
            [
                "    crate::a → crate::b by `super::b::B`\n    crate::b → crate::a by `crate::a::A`\n"
            ]
        );
    }

    #[test]
    fn a_parent_that_uses_a_child_that_imports_from_it_is_found() {
        let child = ("a/b.rs", "use super::LIMIT; pub struct B;");
        for parent in
            ["mod b; use b::B;", "mod b; fn f() { b::B; }", "mod b; pub use b::B; fn f(_: B) {}"]
        {
            let parent = format!("pub const LIMIT: u8 = 1; {parent}");
            assert_eq!(
                cycles(&[("lib.rs", "mod a;"), ("a.rs", &parent), child]).len(),
                1,
                "{parent}"
            );
        }
    }

    #[test]
    fn a_reexport_is_followed_to_the_module_that_defines_the_name() {
        let found = cycles(&[
            ("lib.rs", "mod a; pub use a::B; mod c;"),
            ("a/mod.rs", "mod b; pub use b::B;"),
            ("a/b.rs", "pub struct B; fn f(_: crate::c::C) {}"),
            ("c.rs", "pub struct C; fn f(_: crate::B) {}"),
        ]);
        let there = "    crate::a::b → crate::c by `crate::c::C`\n";
        let back = "    crate::c → crate::a::b by `crate::B`\n";
        assert_eq!(found, [[back, there].concat()]);
    }

    #[test]
    fn a_tree_has_no_cycle_and_neither_has_what_its_tests_import() {
        let found = cycles(&[
            ("lib.rs", "mod a; mod sled; pub use a::A; pub use self::a::b::B;"),
            (
                "a.rs",
                "pub mod b; pub use b::B; pub struct A; #[cfg(test)] mod tests { use super::b::B; }",
            ),
            ("a/b.rs", "use super::A; use sled::Tree; pub(in crate::a) struct B;"),
            ("sled.rs", "use ::sled::Db; use crate::a; fn f(_: a::b::B, x: Db) { x.a }"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
