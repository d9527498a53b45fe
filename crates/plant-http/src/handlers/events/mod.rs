//! Events: as a page, as a page that waits for the next event (long poll), and as a stream.

mod event_text;
mod follower;
pub(crate) mod followers;
pub(crate) mod shown_event;
mod stream;

use std::rc::Rc;

use actix_http::Method;
use actix_http::header;
use actix_web::web::{Data, ReqData};
use actix_web::{HttpResponse, HttpResponseBuilder};
use plant_store::EventsAfter;
use tokio::time::Instant;

use crate::answers::AnswerMemory;
use crate::errors::Failure;
use crate::extract::event_request::{EVENT_STREAM, EventRequest, EventStart};
use crate::extract::head::Head;
use crate::extract::media_type::JSON;
use crate::handlers::events::follower::{Follower, Waited};
use crate::handlers::events::followers::Followers;
use crate::handlers::events::stream::{event_stream, stream_head};
use crate::handlers::{Repository, without_content};
use crate::middleware::context::RequestContext;
use crate::server::deadlines::ROOM_DEADLINE;
use crate::server::drain::Draining;
use crate::server::http1::ClientConnection;

/// The header with the cursor from which to follow what happens after an answer.
pub const EVENTS_AFTER_HEADER: &str = "x-events-after";

/// `GET /events`.
pub(crate) async fn events(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    (followers, draining, memory): (Data<Followers>, Data<Draining>, Data<AnswerMemory>),
    Head(request): Head<EventRequest>,
    Head(client): Head<ClientConnection>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    let after = match request.start {
        None => EventsAfter::Oldest,
        Some(EventStart::Now) => EventsAfter::Cursor(repository.newest_event().await?),
        Some(EventStart::After(cursor)) => EventsAfter::Cursor(cursor),
    };
    let follower = Follower {
        repository,
        context: context.into_inner(),
        draining,
        client,
        with_plants: request.query.with_plants,
        memory,
    };
    let EventRequest { query, is_stream, knows_chunks, .. } = request;
    if method == Method::HEAD {
        // One event tells whether those after the cursor are all there.
        follower.repository.events(after, 1).await?;
        let (head, media_type) =
            if is_stream { (stream_head(), EVENT_STREAM) } else { (page_head(), JSON) };
        return Ok(without_content(head, media_type));
    }
    if is_stream {
        return event_stream(follower, after, followers, knows_chunks).await;
    }
    let mut page = follower.repository.events(after, query.limit).await?;
    if page.events.is_empty() && !query.wait.is_zero() {
        let _place = followers.join()?;
        let end = Instant::now() + query.wait;
        if let Waited::Events(news) = follower.wait(page.next, query.limit, end).await? {
            page = news;
        }
    }
    let (events, next) = (page.events, query.next(page.next));
    let link = RequestContext::next_link(&follower.context.events_path(), &next);
    let room = follower.room_for(events.len(), ROOM_DEADLINE).await?;
    let body = room.hold_json(&follower.shown(events).await?)?;
    Ok(page_head().content_type(JSON).insert_header((header::LINK, link)).body(body))
}

/// The head of every answer with a page.
fn page_head() -> HttpResponseBuilder {
    let mut head = HttpResponse::Ok();
    head.insert_header((header::VARY, "accept"));
    head
}
