//! One file, or folder, for each noun of the interface. A handler is a straight line: extract, call the repository, answer.

pub(crate) mod backup;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod import_report;
pub(crate) mod metrics;
pub(crate) mod plants;
pub(crate) mod tags;
pub(crate) mod token;

use std::sync::Arc;

use actix_web::web::Data;
use plant_store::PlantRepository;

/// The extractor of the repository.
pub(crate) type Repository = Data<Arc<dyn PlantRepository>>;
