//! `/`, the page for people, in a real browser.

use plantd_tests::TestServer;

use crate::browser;

/// Runs a script in a browser beside a new server.
#[track_caller]
fn run(script: &str) {
    browser::run(&format!("app/{script}"), &mut TestServer::start());
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
fn the_history_of_a_plant_tells_who_did_what_and_brings_back_what_the_plant_was() {
    run("history.js");
}

#[test]
fn a_person_who_may_write_sees_how_each_webhook_is_doing() {
    run("webhooks.js");
}

#[test]
fn changes_appear_in_ten_tabs_and_none_is_missed_when_the_server_restarts() {
    run("live.js");
}

#[test]
fn messages_leave_by_themselves_and_each_deletion_has_an_undo_of_its_own() {
    run("messages.js");
}

#[test]
fn the_page_says_what_is_wrong_and_recovers_without_losing_what_was_typed() {
    run("trouble.js");
}

#[test]
fn a_hundred_thousand_rows_are_imported_with_progress_and_an_import_can_be_stopped() {
    run("import.js");
}

#[test]
fn a_person_sees_what_is_in_a_file_before_it_is_sent() {
    run("import_preview.js");
}

#[test]
fn an_export_is_saved_whole_or_not_at_all() {
    run("export.js");
}

#[test]
fn the_whole_page_can_be_used_by_keyboard_alone() {
    run("keyboard.js");
}

#[test]
fn every_state_is_accessible_in_light_and_dark_and_fits_a_phone() {
    run("looks.js");
}
