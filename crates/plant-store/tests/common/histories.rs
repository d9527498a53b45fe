//! Reads of histories, and waiting for what forgets them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use plant_domain::PlantId;
use plant_store::{HistoryPage, HistoryRequest, PlantRepository};

/// The whole history of a plant, on one page.
pub(crate) async fn history_of(repository: &impl PlantRepository, id: i64) -> HistoryPage {
    let request = HistoryRequest { id: PlantId::from(id), before: None, limit: 1_000 };
    repository.history(request).await.expect("something is known of the plant")
}

/// Waits until merges have left fewer tables than one merge takes.
pub(crate) async fn wait_for_merges(directory: &Path) {
    let tables = || fs::read_dir(directory.join("tables")).expect("a folder").count();
    let merges = async {
        while tables() >= 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), merges).await.expect("merges end");
}
