//! The tags of all plants.

use std::rc::Rc;

use actix_http::header;
use actix_web::HttpResponse;
use actix_web::web::ReqData;

use crate::errors::Failure;
use crate::extract::head::Head;
use crate::extract::query::TagQuery;
use crate::handlers::Repository;
use crate::middleware::context::RequestContext;

/// `GET /tags`.
pub(crate) async fn list(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    Head(query): Head<TagQuery>,
) -> Result<HttpResponse, Failure> {
    let page = repository.tags(query.page_request.clone()).await?;

    let mut response = HttpResponse::Ok();
    if let Some(after) = page.next {
        let (tags, next) = (context.tags_path(), query.next(&after));
        response.insert_header((header::LINK, format!("<{tags}?{next}>; rel=\"next\"")));
    }
    Ok(response.json(page.tags))
}
