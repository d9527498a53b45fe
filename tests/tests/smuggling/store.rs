//! The expected plants before and after a case.

use plantd_tests::{Client, NewPlant, TestServer};

use crate::cases::Case;

/// The plant of requests that must get their own answer.
pub(crate) const CANARY: i64 = 4711;
pub(crate) const CANARY_NAME: &str = "Serinus canaria";

/// The plant that only the victim of a case reads.
pub(crate) const VICTIM: i64 = 4712;
pub(crate) const VICTIM_NAME: &str = "Viola odorata";

/// The plant that hidden requests delete.
const PREY: i64 = 1;

/// The plant that cases may create.
const CREATED: i64 = 100;

/// A server with the plants that the cases need.
#[track_caller]
pub(crate) fn start_server() -> TestServer {
    let server = TestServer::start();
    let client = server.client();
    client.create(PREY, "Rosa", None).assert_plant("Rosa", None);
    client.create(CANARY, CANARY_NAME, None).assert_plant(CANARY_NAME, None);
    client.create(VICTIM, VICTIM_NAME, None).assert_plant(VICTIM_NAME, None);
    server
}

/// Asserts that the case has changed no more than it may, and undoes the change.
#[track_caller]
pub(crate) fn assert_untouched(client: &Client, case: &Case, may_create: bool) {
    let mut plants = client.list_all("");
    let created = plants.extract_if(.., |plant| plant.id == CREATED).next();
    let untouched = [(PREY, "Rosa"), (CANARY, CANARY_NAME), (VICTIM, VICTIM_NAME)]
        .map(|(id, name)| NewPlant::new(id, name, None));
    assert_eq!(plants, untouched, "{}: something was smuggled in", case.name);
    if let Some(created) = created {
        assert_eq!(created, NewPlant::new(CREATED, "Rosa", None), "{}", case.name);
        assert!(may_create, "{}: it created a plant", case.name);
        client.delete(CREATED).assert_no_content();
    }
}
