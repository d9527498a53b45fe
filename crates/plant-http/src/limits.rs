//! The limits of what a client sends. The check, its message and the OpenAPI document use the same constant.
//!
//! The deadlines of connections are in `server/deadlines.rs`. The limits of a plant's members are those of
//! [`plant_domain`], and the work for one page of plants is bounded by [`plant_store::PAGE_MAX_WORK`].

use std::time::Duration;

use plant_domain::PLANT_MAX_CHARACTERS;
use plant_store::AUTHOR_MAX_BYTES;

/// The largest body, in bytes, except for an import and a batch.
pub const BODY_MAX_BYTES: usize = 64 * 1024;

/// The largest body of a batch, in bytes.
pub const BATCH_BODY_MAX_BYTES: usize = 64 * BODY_MAX_BYTES;

/// How long a body may take to arrive after the request's head. For an import, see [`BODY_IDLE_DEADLINE`].
pub const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// How long the body of a batch may take to arrive after the request's head.
pub const BATCH_BODY_DEADLINE: Duration = Duration::from_secs(60);

/// How long the next part of the body of an import or a batch may take to arrive.
pub const BODY_IDLE_DEADLINE: Duration = Duration::from_secs(10);

/// The largest row of an import, in bytes, without its line end.
pub const ROW_MAX_BYTES: usize = 64 * 1024;

/// The most failed rows that the report of an import lists. The report counts all of them.
pub const REPORT_MAX_ERRORS: usize = 1000;

/// The most plants on a page of the list; the least is one.
pub const PAGE_MAX_PLANTS: usize = 1000;

/// The most plants on a page if the request has no `limit`.
pub const PAGE_DEFAULT_PLANTS: usize = 100;

/// The most ids in the parameter `ids` of the list; the least is one.
pub const IDS_MAX: usize = 100;

/// The most changes on a page of a history; the least is one.
pub const PAGE_MAX_CHANGES: usize = 1000;

/// The most changes on a page of a history if the request has no `limit`.
pub const PAGE_DEFAULT_CHANGES: usize = 100;

/// The most tags on a page; the least is one.
pub const PAGE_MAX_TAGS: usize = 1000;

/// The most tags on a page if the request has no `limit`.
pub const PAGE_DEFAULT_TAGS: usize = 100;

/// The most events on a page; the least is one.
pub const PAGE_MAX_EVENTS: usize = 1000;

/// The most events on a page if the request has no `limit`.
pub const PAGE_DEFAULT_EVENTS: usize = 100;

/// The longest `wait` for an event.
pub const EVENTS_WAIT_MAX: Duration = Duration::from_secs(50);

/// After this time without an event, a stream of events has a bookmark.
pub const EVENTS_HEARTBEAT: Duration = Duration::from_secs(15);

/// The most memory that large answers take together while they are made and sent: lists, tags, histories, exports,
/// events and batches. Beyond it, they wait, and are then refused.
pub const ANSWERS_MAX_BYTES: usize = 256 * 1024 * 1024;

/// The most memory that the requests of batches take together. Beyond it, they wait, and are then refused.
pub const BATCHES_MAX_BYTES: usize = 128 * 1024 * 1024;

/// The most bytes of a plant in an answer: a character has at most four, escaped or not, and the id and the names of the
/// members have less than 64.
#[expect(clippy::cast_possible_truncation, reason = "the limits are far below")]
pub const PLANT_ANSWER_MAX_BYTES: usize = 4 * PLANT_MAX_CHARACTERS as usize + 64;

/// The most bytes of an event in an answer, without its plant.
pub const EVENT_ANSWER_MAX_BYTES: usize = 256;

/// An answer is given to the connection in parts of at most this many bytes, one by one, so that it is not copied whole into the
/// buffer of a client that does not read.
pub(crate) const ANSWER_PART_BYTES: usize = 16 * 1024;

/// The most entity tags that `If-Match` or `If-None-Match` may list.
pub const ENTITY_TAGS_MAX: usize = 100;

/// The most characters of an `Idempotency-Key`; the least is one.
pub const IDEMPOTENCY_KEY_MAX_CHARACTERS: usize = 255;

/// The most characters of an `X-Request-Id`; the least is one.
pub const REQUEST_ID_MAX_CHARACTERS: usize = 128;

/// The most bytes of a head: its lines with their line ends, the empty line that ends it, and empty lines before it.
/// actix-http has a limit too, but checks it only between two reads, so that the effective limit depends on how the
/// bytes arrive.
pub const HEAD_MAX_BYTES: usize = 32 * 1024;

/// The most bytes of one line of a head, the request line too, with its line end.
pub const HEAD_LINE_MAX_BYTES: usize = 8 * 1024;

/// The most bytes of the line with a chunk's size, and of all trailers together. Chunk extensions and trailers are
/// ignored (RFC 9112, sections 7.1.1 and 7.1.2).
pub const CHUNK_OVERHEAD_MAX_BYTES: usize = 8 * 1024;

/// The fewest characters of a token that a person chose.
pub const CHOSEN_TOKEN_MIN_CHARACTERS: usize = 16;

/// The most characters of a token's name; the least is one.
pub const TOKEN_NAME_MAX_CHARACTERS: usize = AUTHOR_MAX_BYTES;
