//! Events: as a page, as a page that waits for the next event (long poll), and as a stream.

mod event_text;
mod follower;
pub(crate) mod followers;
mod stream;

use std::rc::Rc;

use actix_http::Method;
use actix_http::header;
use actix_web::HttpResponse;
use actix_web::web::{Data, ReqData};
use plant_store::EventsAfter;
use tokio::time::Instant;

use crate::errors::Failure;
use crate::extract::client_presence::ClientPresence;
use crate::extract::event_request::{EventRequest, EventStart};
use crate::extract::head::Head;
use crate::handlers::Repository;
use crate::handlers::events::follower::{Follower, Waited};
use crate::handlers::events::followers::Followers;
use crate::handlers::events::stream::event_stream;
use crate::middleware::context::RequestContext;
use crate::server::drain::Draining;

/// The header with the cursor from which to follow what happens after an answer.
pub const EVENTS_AFTER_HEADER: &str = "x-events-after";

/// `GET /events`.
pub(crate) async fn events(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    followers: Data<Followers>,
    draining: Data<Draining>,
    Head(request): Head<EventRequest>,
    Head(client): Head<ClientPresence>,
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
    };
    if request.is_stream {
        return event_stream(follower, after, followers, &method, request.knows_chunks).await;
    }
    let EventRequest { query, .. } = request;
    let mut page = follower.repository.events(after, query.limit).await?;
    if page.events.is_empty() && !query.wait.is_zero() && method == Method::GET {
        let _place = followers.join()?;
        let end = Instant::now() + query.wait;
        if let Waited::Events(news) = follower.wait(page.next, query.limit, end).await? {
            page = news;
        }
    }
    let (events, next) = (page.events, query.next(page.next));
    let link = RequestContext::next_link(&follower.context.events_path(), &next);
    Ok(HttpResponse::Ok()
        .insert_header((header::LINK, link))
        .insert_header((header::VARY, "accept"))
        .json(follower.shown(events).await?))
}
