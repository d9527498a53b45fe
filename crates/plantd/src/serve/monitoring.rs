//! The server of metrics and health checks for a scraper, beside the server of plants.

use actix_web::rt;
use actix_web::rt::task::JoinHandle;
use plant_http::{ListeningSocket, PlantService};
use tokio::sync::oneshot;

/// The running server.
pub(super) struct Monitoring {
    end: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Monitoring {
    pub(super) fn start(socket: ListeningSocket, service: PlantService) -> Self {
        let (end, ended) = oneshot::channel();
        let serve = async {
            let stop = async {
                let _ = ended.await;
            };
            if let Err(cause) = plant_http::serve_monitoring(socket, service, stop).await {
                log::error!("the server of the metrics has ended: {cause}");
            }
        };
        Self { end, server: rt::spawn(serve) }
    }

    /// Ends the server. To be called after the drain of the other server, so that a scraper sees the drain.
    pub(super) async fn end(self) {
        // Fails if the server has ended by itself.
        let _ = self.end.send(());
        // The panic hook has logged a panic.
        let _ = self.server.await;
    }
}
