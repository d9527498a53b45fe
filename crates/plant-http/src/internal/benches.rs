//! What benchmarks measure of the insides.

use plant_domain::NewPlant;

use crate::extract::json;

/// The plant in the body of a create, where there is a valid one.
#[must_use]
pub fn read_new_plant(body: &[u8]) -> Option<NewPlant> {
    json::read(body).ok()
}
