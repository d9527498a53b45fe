//! The tags of all plants.

use std::rc::Rc;

use actix_http::{Method, header};
use actix_web::HttpResponse;
use actix_web::web::ReqData;

use crate::errors::Failure;
use crate::extract::head::Head;
use crate::extract::media_type::JSON;
use crate::extract::query::TagQuery;
use crate::handlers::{Repository, without_content};
use crate::middleware::context::RequestContext;

/// `GET /tags`.
pub(crate) async fn list(
    repository: Repository,
    context: ReqData<Rc<RequestContext>>,
    Head(query): Head<TagQuery>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    let mut response = HttpResponse::Ok();
    if method == Method::HEAD {
        return Ok(without_content(response, JSON));
    }
    let page = repository.tags(query.page_request.clone()).await?;
    if let Some(after) = page.next {
        let next = RequestContext::next_link(&context.tags_path(), &query.next(&after));
        response.insert_header((header::LINK, next));
    }
    Ok(response.json(page.tags))
}
