//! The metrics of the program around the service.

use prometheus::process_collector::ProcessCollector;
use prometheus::{Gauge, GaugeVec, Opts, Registry};

use crate::logger;

/// Adds the metrics of this process, and the expiry of the certificate, if there is a certificate.
pub(super) fn register(registry: &Registry, expires: Option<Gauge>) -> anyhow::Result<()> {
    registry.register(Box::new(ProcessCollector::for_self()))?;
    registry.register(Box::new(logger::dropped_lines()))?;
    let build = Opts::new("plantd_build_info", "Always 1; the version is in the label.");
    let build = GaugeVec::new(build, &["version"])?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
    registry.register(Box::new(build))?;
    if let Some(expires) = expires {
        registry.register(Box::new(expires))?;
    }
    Ok(())
}
