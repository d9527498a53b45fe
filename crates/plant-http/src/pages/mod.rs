//! The pages for people, with all their files. Their sources are in the folder `web`, as browsers get them.

mod app;
mod docs;
pub(crate) mod static_file;

use crate::pages::static_file::StaticFile;

/// Every file of every page, each with its path.
pub(crate) fn files() -> impl Iterator<Item = &'static (&'static str, StaticFile)> {
    app::FILES.iter().chain(&docs::FILES)
}
