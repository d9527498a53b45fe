//! What must hold in the workspace for as long as it lives, beside what compilers see.

mod claims;
mod crate_roots;
mod decisions;
mod exceptions;
mod layers;
mod manifests;
mod tree;

use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::{CargoOpt, MetadataCommand};

/// All violations of all invariants, each a sentence that says what to do.
pub(crate) fn violations(workspace_root: &Path) -> anyhow::Result<Vec<String>> {
    let mut command = MetadataCommand::new();
    command.manifest_path(workspace_root.join("Cargo.toml"));
    let context = "cannot read the dependency graph of the workspace";
    let by_default = command.exec().context(context)?;
    let metadata = command.features(CargoOpt::AllFeatures).exec().context(context)?;
    let mut violations = layers::violations(&layers::members(&metadata));
    violations.extend(tree::violations(&tree::DependencyTree::of(&metadata)?));
    violations.extend(tree::violations_by_default(&tree::DependencyTree::of(&by_default)?));
    violations.extend(manifests::violations(&manifests::Manifests::read(&metadata)?));
    let mut command = MetadataCommand::new();
    let fuzz = command.manifest_path(workspace_root.join("fuzz/Cargo.toml")).no_deps();
    let fuzz = fuzz.exec().context("cannot read the workspace of the fuzzer")?;
    for metadata in [&metadata, &fuzz] {
        violations.extend(crate_roots::violations(&crate_roots::read(metadata)?));
    }
    violations.extend(exceptions::violations(&manifests::read(&workspace_root.join("deny.toml"))?));
    violations.extend(decisions::violations(&decisions::file_names(
        &workspace_root.join("docs/decisions"),
    )?));
    violations.extend(claims::violations(workspace_root)?);
    Ok(violations)
}
