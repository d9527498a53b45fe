//! Fuzz targets: everything in this crate that reads bytes from clients.
//!
//! A target must not panic, whatever the bytes are. If there is another way to the same result (serde's own reading of
//! JSON, the csv crate's of CSV, reading what was written), both must agree.

mod heads;
mod json;
mod request_end;
mod rows;

/// A reader of bytes, and what must hold whatever they are.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target and of its folder of inputs.
    pub name: &'static str,
    /// Reads the bytes, and panics when something does not hold.
    pub check: fn(&[u8]),
}

/// The targets of this crate.
pub const TARGETS: [FuzzTarget; 13] = [
    FuzzTarget { name: "new_plant", check: json::new_plant },
    FuzzTarget { name: "plant", check: json::plant },
    FuzzTarget { name: "merge_patch", check: json::merge_patch },
    FuzzTarget { name: "ndjson", check: rows::ndjson },
    FuzzTarget { name: "csv", check: rows::csv },
    FuzzTarget { name: "json_array", check: rows::json_array },
    FuzzTarget { name: "entity_tags", check: heads::entity_tags },
    FuzzTarget { name: "idempotency_key", check: heads::idempotency_key },
    FuzzTarget { name: "authorization", check: heads::authorization },
    FuzzTarget { name: "media_types", check: heads::media_types },
    FuzzTarget { name: "query", check: heads::query },
    FuzzTarget { name: "head_end", check: request_end::head_end },
    FuzzTarget { name: "chunks_end", check: request_end::chunks_end },
];
