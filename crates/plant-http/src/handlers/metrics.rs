//! The metrics, in the text format of Prometheus.

use std::time::Duration;

use actix_http::{Method, header};
use actix_web::HttpResponse;
use actix_web::web::{self, Data};
use plant_store::metrics::{MetricFamily, gauge};
use plant_store::{EventsAfter, PlantRepository};
use prometheus::{TEXT_FORMAT, TextEncoder};
use tokio::time::timeout;

use crate::errors::Failure;
use crate::extract::head::Head;
use crate::extract::query::NoQuery;
use crate::handlers::events::followers::Followers;
use crate::handlers::health::check_ready;
use crate::handlers::{Repository, without_content};
use crate::metrics::Metrics;
use crate::server::drain::Draining;

/// How long the repository may take for each number. What takes longer is left out: a scraper waits 10 s by default, and a
/// gap in a graph is better than no graph.
const REPOSITORY_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /metrics`.
pub(crate) async fn read(
    repository: Repository,
    draining: Data<Draining>,
    followers: Data<Followers>,
    metrics: Data<Metrics>,
    _: Head<NoQuery>,
    method: Method,
) -> Result<HttpResponse, Failure> {
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CACHE_CONTROL, "no-store"));
    if method == Method::HEAD {
        return Ok(without_content(response, TEXT_FORMAT));
    }
    let mut families = current_state(repository.as_ref().as_ref(), &draining).await;
    families.extend(followers.metrics());
    families.extend(repository.metrics());
    // Reading the metrics of the process blocks: they are in files.
    families.extend(web::block(move || metrics.collect()).await.map_err(Failure::internal)?);
    families.sort_by(|one, other| one.name().cmp(other.name()));
    let text = TextEncoder::new().encode_to_string(&families).map_err(Failure::internal)?;
    Ok(response.content_type(TEXT_FORMAT).body(text))
}

/// What is true of any repository at this moment.
async fn current_state(repository: &dyn PlantRepository, draining: &Draining) -> Vec<MetricFamily> {
    let (ready, plants, oldest, newest) = tokio::join!(
        timeout(REPOSITORY_TIMEOUT, check_ready(repository, draining)),
        timeout(REPOSITORY_TIMEOUT, repository.count(None)),
        timeout(REPOSITORY_TIMEOUT, repository.events(EventsAfter::Oldest, 1)),
        timeout(REPOSITORY_TIMEOUT, repository.newest_event()),
    );
    let is_ready = matches!(ready, Ok(Ok(())));
    let mut families = vec![gauge(
        "plantd_ready",
        "1 while /readyz answers 200 within 2 s, else 0.",
        f64::from(u8::from(is_ready)),
    )];
    if let Ok(Ok(plants)) = plants {
        families.push(gauge("plantd_plants", "How many plants there are.", plants as f64));
    }
    if let Ok(Ok(page)) = oldest
        && let Some(oldest) = page.events.first()
    {
        let since_1970 = oldest.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        families.extend([
            gauge(
                "plantd_oldest_event_timestamp_seconds",
                "When the oldest event that is kept happened, in seconds since 1970.",
                since_1970.as_secs_f64(),
            ),
            gauge(
                "plantd_oldest_event_revision",
                "The revision of the oldest event that is kept. On PostgreSQL, revisions have gaps.",
                oldest.revision().get() as f64,
            ),
        ]);
    }
    if let Ok(Ok(newest)) = newest {
        families.push(gauge(
            "plantd_newest_event_revision",
            "The revision of the newest event. On PostgreSQL, revisions have gaps.",
            newest.revision.get() as f64,
        ));
    }
    families
}
