//! `/`, the page for people, in a real browser. The scripts are in `tests/browser/app`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use plantd_tests::{Launch, TOKEN, TestServer, Toolbox, create_token, repository, revoke_token};

/// Runs a script in a browser beside a new server. The script may order what [`carry_out`] does.
#[track_caller]
fn run(script: &str) {
    let mut server = TestServer::start();
    let tools = Toolbox::node();
    let mut node = tools.command("node");
    node.arg(repository("tests/browser/app").join(script))
        .env("NODE_PATH", tools.folder().join("node_modules"))
        .env("PLANTS_URL", format!("http://{}", server.address()))
        .env("PLANTS_TOKEN", TOKEN)
        .env("OUTPUT_FOLDER", env!("CARGO_TARGET_TMPDIR"));
    node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut node = node.spawn().expect("node starts");
    let mut answers = node.stdin.take().expect("its standard input");
    let orders = BufReader::new(node.stdout.take().expect("its standard output"));
    for order in orders.lines() {
        let answer = carry_out(&order.expect("UTF-8"), &mut server);
        writeln!(answers, "{answer}").expect("the script reads the answer");
    }
    let output = node.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Carries out an order of a script.
#[track_caller]
fn carry_out(order: &str, server: &mut TestServer) -> String {
    match order.split(' ').collect::<Vec<&str>>()[..] {
        ["stop"] => {
            server.kill();
            String::new()
        }
        ["start", address] => {
            server.restart_with(Launch::new().arguments(["--listen", address]));
            String::new()
        }
        ["create-token", name, scope] => {
            create_token(server.data(), &["--name", name, "--scope", scope])
        }
        ["revoke-token", name] => {
            revoke_token(server.data(), &[name]);
            String::new()
        }
        _ => panic!("not an order: {order}"),
    }
}

#[test]
fn a_person_browses_in_both_directions_jumps_searches_and_filters() {
    run("browse.js");
}

#[test]
fn a_person_adds_edits_deletes_and_brings_back_plants_with_any_id_and_name() {
    run("change.js");
}

#[test]
fn of_two_people_who_edit_one_plant_the_second_sees_both_versions_and_loses_nothing() {
    run("conflict.js");
}

#[test]
fn changes_appear_in_ten_tabs_and_none_is_missed_when_the_server_restarts() {
    run("live.js");
}

#[test]
fn the_page_says_what_is_wrong_and_recovers_without_losing_what_was_typed() {
    run("trouble.js");
}

#[test]
fn a_hundred_thousand_rows_are_imported_with_progress_and_exports_are_whole_or_nothing() {
    run("import_export.js");
}

#[test]
fn the_whole_page_can_be_used_by_keyboard_alone() {
    run("keyboard.js");
}

#[test]
fn every_state_is_accessible_in_light_and_dark_and_fits_a_phone() {
    run("looks.js");
}
