//! The history of a plant.

use std::rc::Rc;
use std::time::SystemTime;

use actix_http::header;
use actix_web::HttpResponse;
use actix_web::web::{Data, ReqData};
use plant_domain::Plant;
use plant_store::{Author, EventKind, HistoryRequest, PastChange, Revision};
use serde::{Serialize, Serializer};

use crate::answers::AnswerMemory;
use crate::errors::Failure;
use crate::extract::head::Head;
use crate::extract::media_type::JSON;
use crate::extract::query::HistoryQuery;
use crate::extract::target::PlantInPath;
use crate::handlers::Repository;
use crate::handlers::events::shown_event::as_time;
use crate::limits::{EVENT_ANSWER_MAX_BYTES, PLANT_ANSWER_MAX_BYTES};
use crate::middleware::context::RequestContext;
use crate::server::deadlines::ROOM_DEADLINE;

/// The header of the last page of a history that does not begin with the creation of the plant.
pub const HISTORY_COMPLETE_HEADER: &str = "x-history-complete";

/// `GET /plants/{id}/history`.
pub(crate) async fn list(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    memory: Data<AnswerMemory>,
    Head(PlantInPath(id)): Head<PlantInPath>,
    Head(HistoryQuery { before, limit }): Head<HistoryQuery>,
) -> Result<HttpResponse, Failure> {
    let row_max_bytes = PLANT_ANSWER_MAX_BYTES + EVENT_ANSWER_MAX_BYTES;
    let room = memory.room_for(limit, row_max_bytes, ROOM_DEADLINE).await?;
    let page = repository.history(HistoryRequest { id, before, limit }).await?;

    let mut response = HttpResponse::Ok();
    if let Some(next) = page.next {
        let path = format!("{}/history", context.plant_path(id));
        let query = format!("limit={limit}&before={next}");
        response.insert_header((header::LINK, RequestContext::next_link(&path, &query)));
    }
    if page.is_cut {
        response.insert_header((HISTORY_COMPLETE_HEADER, "false"));
    }
    let changes: Vec<_> = page.changes.into_iter().map(ShownChange::from).collect();
    Ok(response.content_type(JSON).body(room.hold_json(&changes)?))
}

#[derive(Serialize)]
struct ShownChange {
    /// As text, because JSON numbers of many programs end at 2^53.
    #[serde(serialize_with = "as_text")]
    revision: Revision,
    kind: EventKind,
    #[serde(serialize_with = "as_time")]
    at: SystemTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Author>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plant: Option<Plant>,
}

impl From<PastChange> for ShownChange {
    fn from(PastChange { revision, kind, at, by, plant }: PastChange) -> Self {
        Self { revision, kind, at, by, plant }
    }
}

fn as_text<S: Serializer>(revision: &Revision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(revision)
}
