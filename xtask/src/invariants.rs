//! What must hold in the workspace for as long as it lives, beside what compilers see.

mod claims;
mod crate_roots;
mod decisions;
mod exceptions;
mod layers;
mod manifests;
mod module_cycles;
pub(crate) mod packages;
mod tree;

use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::{CargoOpt, MetadataCommand};

/// All violations of all invariants, each a sentence that says what to do.
pub(crate) fn violations(workspace_root: &Path) -> anyhow::Result<Vec<String>> {
    let graph_with = |features: Option<CargoOpt>| {
        let mut command = MetadataCommand::new();
        command.manifest_path(workspace_root.join("Cargo.toml"));
        if let Some(features) = features {
            command.features(features);
        }
        command.exec().context("cannot read the dependency graph of the workspace")
    };
    let by_default = graph_with(None)?;
    let metadata = graph_with(Some(CargoOpt::AllFeatures))?;
    let mut violations = layers::violations(&layers::members(&metadata));
    violations.extend(tree::violations(&tree::DependencyTree::of(&metadata)?));
    violations.extend(tree::violations_by_default(&tree::DependencyTree::of(&by_default)?));
    violations.extend(manifests::violations(&manifests::Manifests::read(&metadata)?));
    violations.extend(module_cycles::violations(&metadata)?);
    violations.extend(packages::violations(&packages::read(&metadata)?));
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
