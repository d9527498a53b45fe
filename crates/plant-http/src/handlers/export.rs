//! The export: all plants, or those of a search, row by row, in bounded memory.

use std::rc::Rc;

use actix_http::header;
use actix_web::web::{Bytes, Data, ReqData};
use actix_web::{Error, HttpRequest, HttpResponse};
use futures_util::{TryFutureExt as _, stream};
use plant_store::{PagePlace, PageRequest, PlantSnapshot};
use tokio::task::yield_now;

use crate::answers::{AnswerMemory, Room};
use crate::errors::Failure;
use crate::extract::chunked::Chunked;
use crate::extract::head::{FromHead, Head};
use crate::extract::query::FilterQuery;
use crate::extract::transfer_format::ExportFormat;
use crate::handlers::Repository;
use crate::handlers::events::EVENTS_AFTER_HEADER;
use crate::handlers::plants::{TOTAL_COUNT_HEADER, total_count};
use crate::limits::PLANT_ANSWER_MAX_BYTES;
use crate::middleware::context::RequestContext;
use crate::server::deadlines::{ANSWER_IDLE_DEADLINE, ROOM_DEADLINE};

/// About how many bytes a part of an export has. A client that does not read costs as much memory.
const PART_BYTES: usize = 64 * 1024;

/// The first part has as many plants as are surely no more than that.
const FIRST_PART_PLANTS: usize = PART_BYTES / PLANT_ANSWER_MAX_BYTES;

/// The most plants in a part.
const PART_MAX_PLANTS: usize = 1000;

/// `GET /plants/export`.
///
/// All plants are of the moment at which the export begins, in the order of ascending id.
pub(crate) async fn export(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    memory: Data<AnswerMemory>,
    _: Head<Chunked>,
    Head(FilterQuery(filter)): Head<FilterQuery>,
    Head(format): Head<ExportFormat>,
) -> Result<HttpResponse, Failure> {
    let newest_event = repository.newest_event().await?;
    let total = total_count(&repository, &filter).await?;
    let room = memory.room_for(FIRST_PART_PLANTS, PLANT_ANSWER_MAX_BYTES, ROOM_DEADLINE).await?;
    let plants = repository.snapshot().await?;

    let export = Export {
        repository,
        plants,
        context: context.into_inner(),
        memory,
        room: Some(room),
        format,
        next: Some(PageRequest { filter, place: PagePlace::First, limit: FIRST_PART_PLANTS }),
    };
    let mut response = HttpResponse::Ok();
    if let Some(total) = total {
        response.insert_header((TOTAL_COUNT_HEADER, total));
    }
    Ok(response
        .content_type(format.content_type())
        .insert_header((header::VARY, "accept"))
        .insert_header((EVENTS_AFTER_HEADER, newest_event.to_string()))
        .streaming(stream::try_unfold(export, |export| export.part().err_into::<Error>())))
}

impl FromHead for ExportFormat {
    fn read(request: &HttpRequest) -> Result<Self, Failure> {
        Ok(Self::of_answer(request))
    }
}

struct Export {
    repository: Repository,
    plants: Box<dyn PlantSnapshot>,
    context: Rc<RequestContext>,
    memory: Data<AnswerMemory>,
    /// The room of the first part.
    room: Option<Room>,
    format: ExportFormat,
    /// The next page; `None` at the end.
    next: Option<PageRequest>,
}

impl Export {
    /// The next part of the body. It is empty where a search has examined as many plants as a page may cost, and found none;
    /// an empty part is not sent, because an empty chunk would end the body (RFC 9112, section 7.1). An error cuts the body
    /// off, which the client notices.
    async fn part(mut self) -> Result<Option<(Bytes, Self)>, Failure> {
        let Some(page_request) = self.next.take() else { return Ok(None) };
        // Before the room, so that a part that waits for its turn takes no memory.
        let turn = self.memory.export_turn().await;
        let plants = page_request.limit;
        let room = match self.room.take() {
            Some(room) => room,
            None => {
                let patience = ANSWER_IDLE_DEADLINE;
                self.memory.room_for(plants, PLANT_ANSWER_MAX_BYTES, patience).await?
            }
        };
        // Other requests get a turn before each part, however many exports there are.
        yield_now().await;
        // An export may take hours, and its token may be revoked during that time.
        self.context.check_still_valid()?;
        let page = self.plants.list(page_request.clone()).await?;
        let mut rows = Vec::new();
        if page_request.place == PagePlace::First {
            rows.extend_from_slice(self.format.header().as_bytes());
        }
        let written = self.format.write_rows(page.plants().map(|(plant, _)| plant), &mut rows);
        written.map_err(Failure::internal)?;
        drop(turn);
        let limit = match page.len() {
            // Nothing tells how long the plants are.
            0 => page_request.limit,
            plants => (plants * PART_BYTES / rows.len()).clamp(1, PART_MAX_PLANTS),
        };
        let place = page.next.map(PagePlace::After);
        self.next = place.map(|place| PageRequest { place, limit, ..page_request });
        if self.next.is_none() {
            // A copy may begin with this export. If a change in it were undone, no event would say so.
            self.repository.wait_until_durable().await?;
        }
        Ok(Some((room.hold(rows), self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::Arc;

    use actix_http::body::{BoxBody, MessageBody as _};
    use actix_web::FromRequest as _;
    use actix_web::test::TestRequest;
    use actix_web::web::Data;
    use futures_util::FutureExt as _;
    use plant_domain::{NewPlant, PlantFilter};
    use plant_store::{OnConflict, PlantRepository, SledConfig, SledRepository};

    use crate::extract::transfer_format::TransferFormat;

    async fn next(body: &mut BoxBody) -> Option<Bytes> {
        let part = poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await;
        part.map(|part| part.unwrap())
    }

    /// The body of an export of this many plants, and the memory of the service.
    async fn body_of(plants: usize) -> (BoxBody, Data<AnswerMemory>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let repository = SledRepository::open(&SledConfig::new(folder.path())).unwrap();
        let repository: Arc<dyn PlantRepository> = Arc::new(repository);
        let plants = (0..plants).map(|id| {
            let id = i64::try_from(id).unwrap();
            NewPlant::new(id, "Rosa", None).unwrap()
        });
        repository.import(plants.collect(), OnConflict::Error, None).await.unwrap();

        let request = TestRequest::get().to_http_request();
        RequestContext::of(&request);
        let context = ReqData::extract(&request).await.unwrap();
        let format = Head(ExportFormat::Rows(TransferFormat::NdJson));
        let memory = Data::new(AnswerMemory::default());
        let filter = Head(FilterQuery(PlantFilter::default()));
        let repository = Data::new(repository);
        let answer = export(repository, context, memory.clone(), Head(Chunked), filter, format);
        (answer.await.unwrap().into_body(), memory, folder)
    }

    #[tokio::test]
    async fn others_have_a_turn_before_each_part() {
        let (mut body, _memory, _folder) = body_of(3 * PART_MAX_PLANTS).await;
        let mut parts = 0;
        // Only the end of the body is there without a wait.
        while next(&mut body).now_or_never().is_none() {
            assert!(next(&mut body).await.is_some(), "it waits for nothing");
            parts += 1;
        }
        // The first part is small.
        assert_eq!(parts, 4, "a part came without a turn of the others before it");
    }

    #[tokio::test]
    async fn a_part_waits_while_other_exports_have_the_turns() {
        let (mut body, memory, _folder) = body_of(1).await;
        let mut turns = Vec::new();
        while let Some(Some(turn)) = memory.export_turn().now_or_never() {
            turns.push(turn);
        }
        for _ in 0..100 {
            assert!(next(&mut body).now_or_never().is_none(), "a part was made without a turn");
            yield_now().await;
        }
        turns.pop();
        assert!(next(&mut body).await.is_some());
    }
}
