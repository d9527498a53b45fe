//! The groups that operations come in.

use utoipa::openapi::tag::{Tag, TagBuilder};

/// What an operation has to do with.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperationTag {
    Plants,
    ImportAndExport,
    Server,
}

impl OperationTag {
    pub(super) const ALL: [Self; 3] = [Self::Plants, Self::ImportAndExport, Self::Server];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ImportAndExport => "Import and export",
            Self::Plants => "Plants",
            Self::Server => "Server",
        }
    }

    pub(super) fn describe(self) -> Tag {
        let description = match self {
            Self::ImportAndExport => "Many plants at once, row by row",
            Self::Plants => "One plant, and the list of them",
            Self::Server => "The server itself",
        };
        TagBuilder::new().name(self.name()).description(Some(description)).build()
    }
}
