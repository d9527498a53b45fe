//! The tags of all plants.

use std::rc::Rc;

use actix_http::{Method, header};
use actix_web::HttpResponse;
use actix_web::web::{Data, ReqData};

use crate::answers::AnswerMemory;
use crate::errors::Failure;
use crate::extract::head::Head;
use crate::extract::media_type::JSON;
use crate::extract::query::TagQuery;
use crate::handlers::{Repository, without_content};
use crate::limits::PLANT_ANSWER_MAX_BYTES;
use crate::middleware::context::RequestContext;
use crate::server::deadlines::ROOM_DEADLINE;

/// `GET /tags`.
pub(crate) async fn list(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    memory: Data<AnswerMemory>,
    Head(query): Head<TagQuery>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    let mut response = HttpResponse::Ok();
    if method == Method::HEAD {
        return Ok(without_content(response, JSON));
    }
    // A tag with its number is less than a plant.
    let most = query.page_request.limit;
    let room = memory.room_for(most, PLANT_ANSWER_MAX_BYTES, ROOM_DEADLINE).await?;
    let page = repository.tags(query.page_request.clone()).await?;
    if let Some(after) = page.next {
        let next = RequestContext::next_link(&context.tags_path(), &query.next(&after));
        response.insert_header((header::LINK, next));
    }
    Ok(response.content_type(JSON).body(room.hold_json(&page.tags)?))
}
