//! The plants of the cases: which a request may read, delete or create, and what must be left of them.

use plantd_tests::{Client, Connection, NewPlant, TestServer, raw_head};

use crate::cases::Case;

/// The plant of the requests that follow a case and must get their own answer, and the one that a victim reads.
pub(crate) const CANARY: (i64, &str) = (4711, "Serinus canaria");
pub(crate) const VICTIM: (i64, &str) = (4712, "Viola odorata");

/// The plant that hidden requests delete.
const PREY: (i64, &str) = (1, "Rosa");

/// The plant that cases may create.
const CREATED: i64 = 100;

/// A server with the plants that the cases need.
#[track_caller]
pub(crate) fn start_server() -> TestServer {
    let server = TestServer::start();
    for (id, name) in [PREY, CANARY, VICTIM] {
        server.client().create(id, name, None).assert_plant(name, None);
    }
    server
}

/// A read of a plant, as the request with this id.
pub(crate) fn read_request((plant, _): (i64, &str), id: &str) -> String {
    raw_head(&format!("GET /plants/{plant}"), &format!("X-Request-Id: {id}\r\n"))
}

/// Asserts that the next answer is the one to a [`read_request`].
#[track_caller]
pub(crate) fn receive_read(
    connection: &mut Connection,
    case: &Case,
    (plant, name): (i64, &str),
    id: &str,
) {
    let answer = connection.try_receive();
    let answer = answer.unwrap_or_else(|cause| panic!("{}: no {id}: {cause}", case.name));
    assert_eq!(answer.header("x-request-id"), Some(id), "{}: {answer:?}", case.name);
    answer.assert_new_plant(plant, name, None);
}

/// Asserts that the case has changed no more than it may, and undoes the change.
#[track_caller]
pub(crate) fn assert_untouched(client: &Client, case: &Case, may_create: bool) {
    let mut plants = client.list_all("");
    let created = plants.extract_if(.., |plant| plant.id == CREATED).next();
    let untouched = [PREY, CANARY, VICTIM].map(|(id, name)| NewPlant::new(id, name, None));
    assert_eq!(plants, untouched, "{}: something was smuggled in", case.name);
    if let Some(created) = created {
        assert_eq!(created, NewPlant::new(CREATED, "Rosa", None), "{}", case.name);
        assert!(may_create, "{}: the case created a plant", case.name);
        client.delete(CREATED).assert_no_content();
    }
}
