//! Path and query parameters.

use actix_web::HttpRequest;
use plant_domain::PlantId;

use crate::failure::{ErrorNumber, Failure};

/// The id in the path.
pub(crate) fn plant_id(request: &HttpRequest) -> Result<PlantId, Failure> {
    request
        .match_info()
        .query("id")
        .parse()
        .map_err(|refusal| Failure::new(ErrorNumber::WrongParameter, format!("id: {refusal}")))
}

/// Refuses every query parameter, for operations that define none (specification, section "Create
/// plant", rule 3): a parameter that is ignored in silence is a misunderstanding that nobody sees.
pub(crate) fn no_query(request: &HttpRequest) -> Result<(), Failure> {
    if request.query_string().is_empty() {
        Ok(())
    } else {
        Err(Failure::new(
            ErrorNumber::WrongParameter,
            "this operation takes no query parameters; leave out what follows the `?`",
        ))
    }
}
