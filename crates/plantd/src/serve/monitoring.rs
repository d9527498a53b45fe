//! The server of metrics and health checks for a scraper, beside the server of plants.

use actix_web::rt;
use actix_web::rt::task::JoinHandle;
use anyhow::Context as _;
use plant_http::{ListeningSocket, PlantService, ServeError};
use tokio::sync::oneshot;

use crate::serve::server_address::ServerAddress;

/// The running server.
pub(super) struct Monitoring {
    end: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Monitoring {
    pub(super) fn start(
        (socket, address): (ListeningSocket, ServerAddress),
        service: PlantService,
    ) -> Self {
        log::info!("metrics at {address}/metrics");
        let (end, ended) = oneshot::channel();
        let stop = async {
            let _ = ended.await;
        };
        Self { end, served: rt::spawn(plant_http::serve_monitoring(socket, service, stop)) }
    }

    /// Ends the server, after the other one: the drain can be watched.
    pub(super) async fn end(self) {
        // Fails if the server has ended by itself.
        let _ = self.end.send(());
        let served = self.served.await.context("the server of the metrics panicked");
        if let Err(error) = served.and_then(|served| Ok(served?)) {
            log::warn!("{error:#}");
        }
    }
}
