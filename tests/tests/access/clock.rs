//! Clocks that are wrong, or are set while the server runs.

use plantd_tests::{
    CONFIGURATION, Clock, Launch, TestServer, create_token, replacement_body, temporary_folder,
    token_command, wait_until,
};

/// Times outside the range of dates: before 1970, the last day of 9999, a thousand years later, and the far future.
const NO_DATES: [i64; 4] = [-1_000_000, 253_402_290_000, 284_989_000_000, 1_000_000_000_000_000];

#[test]
fn a_server_keeps_running_with_any_clock_and_a_token_that_has_expired_stays_refused() {
    let clock = Clock::new();
    let mut server = TestServer::start_with(clock.launch(Launch::new()));
    let expiring = create_token(server.data(), &["--name", "expiring", "--expires", "1h"]);
    let lasting = create_token(server.data(), &["--name", "lasting"]);
    let [expiring, lasting] = [expiring, lasting].map(|token| server.client().with_token(&token));
    wait_until("the server to take both tokens", || lasting.read(0).status == 404);
    expiring.read(0).assert_error(404, 3002);
    for (id, time) in (1..).zip(NO_DATES) {
        clock.set(time);
        let lines = || server.stderr().lines().filter(|line| line.contains("/plants")).count();
        let before = lines();
        for _ in 0..8 {
            // Each request has its own connection, so that every worker gets one.
            let status = server.client().put(id, &replacement_body("Rosa", None)).status;
            assert!([200, 201].contains(&status), "{time}: {status}: {}", server.stderr());
        }
        wait_until("the log lines", || lines() >= before + 8);
    }
    // A token that has expired stays so when the clock is set back.
    for offset in [0, -7200] {
        expiring.read(1).assert_error(401, 2002);
        clock.set_offset(offset);
        lasting.read(1).assert_new_plant(1, "Rosa", None);
    }
    expiring.read(1).assert_error(401, 2002);
    clock.set_offset(0);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.stderr());
    let last = server.stderr().lines().last().map(str::to_owned).unwrap_or_default();
    assert!(last.starts_with("[20"), "the log has no dates: {last}");
}

#[test]
fn a_start_is_refused_while_the_clock_shows_no_date() {
    let clock = Clock::new();
    let folder = temporary_folder();
    let data = folder.path().join("data");
    for time in NO_DATES {
        clock.set(time);
        for launch in [
            Launch::new().data(&data),
            token_command(&data, &["create", "--scope", "read", "--name", "x"]),
        ] {
            clock.launch(launch).assert_refused(CONFIGURATION, &["set the clock"]);
            assert!(!data.exists());
        }
    }
}
