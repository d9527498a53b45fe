//! What reads bytes from clients, for a fuzzer to feed.
//!
//! None of it may panic, whatever the bytes are. Where there is another way to the same result (serde's
//! own reading of JSON, the csv crate's of CSV, reading what was written), both must agree.

mod heads;
mod json;
mod request_end;
mod rows;

pub use plant_store::fuzzing::Target;

/// Everything in this crate that reads bytes from clients.
pub const TARGETS: [Target; 13] = [
    Target { name: "new_plant", check: json::new_plant },
    Target { name: "plant", check: json::plant },
    Target { name: "merge_patch", check: json::merge_patch },
    Target { name: "ndjson", check: rows::ndjson },
    Target { name: "csv", check: rows::csv },
    Target { name: "json_array", check: rows::json_array },
    Target { name: "entity_tags", check: heads::entity_tags },
    Target { name: "idempotency_key", check: heads::idempotency_key },
    Target { name: "authorization", check: heads::authorization },
    Target { name: "media_types", check: heads::media_types },
    Target { name: "query", check: heads::query },
    Target { name: "head_end", check: request_end::head_end },
    Target { name: "chunks_end", check: request_end::chunks_end },
];
