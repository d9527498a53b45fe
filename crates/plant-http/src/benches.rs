//! What benchmarks measure of the insides (feature `benches`).

use plant_domain::UncheckedNewPlant;

use crate::extract::wire;

/// The plant in the body of a create, where it has the right form.
#[must_use]
pub fn read_new_plant(body: &[u8]) -> Option<UncheckedNewPlant> {
    wire::read_new_plant(body).ok()
}
