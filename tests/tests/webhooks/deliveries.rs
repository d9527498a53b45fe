//! What a server sends to the receivers of its webhooks.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use plantd_tests::{
    Counts, Delivery, Format, Launch, NewPlant, Scrape, TestServer, all_events, newest_cursor,
    wait_for, wait_until,
};
use serde_json::json;

use crate::hook::{
    Hook, Reply, answer, close, data, events_of, hang, status, text, wait_for_state, webhook,
};

/// A server that has a plant, so that a test can wait for the beginning of a webhook.
fn server(launch: Launch) -> TestServer {
    let server = TestServer::start_with(launch);
    create(&server, 0);
    server
}

#[track_caller]
fn create(server: &TestServer, id: i64) {
    server.client().create(id, "Rosa", None).assert_plant("Rosa", None);
}

/// Makes changes, and waits for each to arrive.
#[track_caller]
fn create_one_by_one(server: &TestServer, ids: impl IntoIterator<Item = i64>, receiver: &Hook) {
    for id in ids {
        create(server, id);
        receiver.wait_for_all(&server.client());
    }
}

fn ok() -> Reply {
    answer("200 OK")
}

/// An answer that takes more than 15 s, though no byte is late.
fn drip() -> Reply {
    Arc::new(|stream| {
        let answer = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(160));
        answer.bytes().try_for_each(|byte| {
            thread::sleep(Duration::from_millis(100));
            stream.write_all(&[byte])
        })
    })
}

#[test]
fn each_change_of_the_wanted_kinds_arrives_once_and_in_order_with_the_plant_if_it_is_current() {
    let server = server(Launch::new());
    let client = server.client();
    let all = Hook::begin(&server, "all", &[]);
    let some = Hook::begin(&server, "some", &["--kinds", "created,updated", "--plants"]);
    let body = |rest: &str| format!(r#"{{"method":{rest}}}"#);
    let changes = [
        r#""POST","path":"/plants","body":{"id":1,"name":"Rosa"}"#,
        r#""POST","path":"/plants","body":{"id":2,"name":"Rosa"}"#,
        r#""DELETE","path":"/plants/1""#,
        r#""PATCH","path":"/plants/2","body":{"tag":"shade"}"#,
    ];
    assert_eq!(client.batch(&changes.map(body)).status, 200);
    create_one_by_one(&server, [3], &all);
    let mut wanted = all_events(&client, &some.query);
    wanted.retain(|event| event.kind.name() != "deleted");
    // The first two plants have changed since, and a later event has the second one.
    wanted[..2].iter_mut().for_each(|event| event.plant = None);
    assert!(wanted[2..].iter().all(|event| event.plant.is_some()));
    let arrived = || events_of(some.deliveries());
    wait_until("all events", || arrived().len() >= wanted.len());
    assert_eq!(arrived(), wanted);
}

#[test]
fn a_webhook_of_an_empty_store_begins_with_its_first_change() {
    let server = TestServer::start();
    let hook = Hook::create(server.data(), "shop", &[]);
    wait_for("it to begin", || status(&server.client(), "shop")?["lag_seconds"].as_u64());
    create_one_by_one(&server, [1], &hook);
}

#[test]
fn many_changes_arrive_in_few_bodies() {
    const PLANTS: i64 = 5_000;
    let server = server(Launch::new());
    let hooks = [&[][..], &["--plants"]].map(|options| {
        Hook::begin(&server, if options.is_empty() { "ids" } else { "plants" }, options)
    });
    let longest = "\u{10ffff}".repeat(255);
    let plants: Vec<_> = (1..=PLANTS)
        .map(|id| match id % 10 {
            0 => NewPlant::new(id, &longest, Some(&longest)),
            _ => NewPlant::new(id, "\"", None),
        })
        .collect();
    let imported = server.client().import(Format::Ndjson, "", Format::Ndjson.body(&plants));
    imported.assert_report(Counts { created: PLANTS.unsigned_abs(), ..Counts::default() });
    for hook in hooks {
        let deliveries = hook.wait_for_all(&server.client());
        let lengths: Vec<_> = deliveries.iter().map(|it| it.body.len()).collect();
        let fewest = lengths.iter().sum::<usize>() / 20_000;
        assert!(lengths.len() <= fewest + fewest / 4 + 5, "{lengths:?}");
    }
}

#[test]
fn a_delivery_that_fails_is_repeated_as_it_was_while_others_go_on() {
    let server = server(Launch::new());
    let client = server.client();
    let begin = |name| Hook::begin(&server, name, &[]);
    let good = begin("good");
    let target = TcpListener::bind("127.0.0.1:0").expect("a free port");
    target.set_nonblocking(true).expect("a socket");
    let to = target.local_addr().expect("a listener has an address");
    let redirect = |status| answer(&format!("{status}\r\nLocation: http://{to}/"));
    let later = |time: &str| answer(&format!("503 Soon\r\nRetry-After: {time}"));
    let date = Timestamp::now() + SignedDuration::from_secs(20);
    let shown = DateTimePrinter::new().timestamp_to_rfc9110_string(&date).expect("a date");
    let rows = [
        ("status", answer("500 Internal Server Error"), "answered 500 Internal"),
        ("seconds", later("8"), "answered 503"),
        ("date", later(&shown), "answered 503"),
        ("found", redirect("302 Found"), "answered 302 Found"),
        ("temporary", redirect("307 Temporary Redirect"), "answered 307 Temporary"),
        ("garbage", text("garbage\r\n\r\n"), "protocol"),
        ("closed", close(), "disconnected"),
        ("hangs", hang(), "no answer within 15 s"),
        ("drips", drip(), "no answer within 15 s"),
    ];
    let rows = rows.map(|(name, reply, error)| (begin(name), reply, error));
    rows.iter().for_each(|(hook, reply, _)| hook.reply(reply.clone()));
    create_one_by_one(&server, [1], &good);
    rows.iter().for_each(|(hook, ..)| drop(hook.wait_for(1)));
    // Answers that have begun are not changed.
    rows.iter().for_each(|(hook, ..)| hook.reply(ok()));
    create_one_by_one(&server, [2, 3], &good);
    assert!(status(&client, "hangs").expect("a webhook")["last_error"].is_null());
    for (hook, _, error) in &rows {
        let deliveries = hook.wait_for_all(&client);
        let told = status(&client, hook.name).expect("a webhook")["last_error"].to_string();
        assert!(told.contains(error), "{}: {told}", hook.name);
        assert_eq!(deliveries[0].id(), deliveries[1].id(), "{}", hook.name);
        let not_before = match hook.name {
            "seconds" => hook.time_of(0) + SignedDuration::from_secs(8),
            // Its fraction of a second is left out.
            "date" => date - SignedDuration::from_secs(1),
            _ => hook.time_of(0),
        };
        assert!(hook.time_of(1) > not_before, "{}: {deliveries:?}", hook.name);
    }
    let followed = target.accept().expect_err("no redirect is followed");
    assert_eq!(followed.kind(), ErrorKind::WouldBlock);
}

#[test]
fn an_answer_of_100_mb_is_taken_without_being_read() {
    let server = server(Launch::new());
    let hook = Hook::begin(&server, "shop", &[]);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    hook.reply(Arc::new(move |stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")?;
        (0..10_000).try_for_each(|_| {
            count.fetch_add(10_000, Ordering::Relaxed);
            stream.write_all(&[b'x'; 10_000])
        })
    }));
    create_one_by_one(&server, 1..=2, &hook);
    assert_eq!(hook.deliveries().len(), 2);
    // What the buffers of a connection hold is far less.
    assert!(sent.load(Ordering::Relaxed) < 50_000_000, "{sent:?} bytes were sent");
}

#[test]
fn a_receiver_that_is_gone_gets_nothing_until_its_webhook_is_resumed_even_after_a_restart() {
    let mut server = server(Launch::new());
    let [gone, other] = ["gone", "other"].map(|name| Hook::begin(&server, name, &[]));
    gone.reply(answer("410 Gone\r\nRetry-After: 1"));
    create(&server, 1);
    wait_for_state(&server.client(), "gone", "gone");
    server.terminate();
    server.restart();
    wait_for_state(&server.client(), "gone", "gone");
    create_one_by_one(&server, [2], &other);
    wait_until("the pause of a failure to end", || {
        let gone = status(&server.client(), "gone").expect("a webhook");
        gone["lag_seconds"].as_u64() > Some(2)
    });
    assert_eq!(gone.deliveries().len(), 1);
    gone.reply(ok());
    webhook(server.data(), &["resume", "gone"]).run(0);
    let deliveries = gone.wait_for_all(&server.client());
    assert_eq!(deliveries[0].id(), deliveries[1].id());
    wait_for_state(&server.client(), "gone", "sending");
}

#[test]
fn pause_resume_rotate_and_remove_take_effect_in_a_running_server() {
    let server = server(Launch::new());
    let client = server.client();
    let [hook, other] = ["hook", "other"].map(|name| Hook::begin(&server, name, &[]));
    webhook(server.data(), &["pause", "hook"]).run(0);
    wait_for_state(&client, "hook", "paused");
    hook.reply(answer("503 Soon\r\nRetry-After: 86400"));
    create_one_by_one(&server, 1..=3, &other);
    for state in ["failing", "sending"] {
        webhook(server.data(), &["resume", "hook"]).run(0);
        wait_for_state(&client, "hook", state);
        hook.reply(ok());
    }
    assert_eq!(hook.wait_for_all(&client).len(), 2, "something came during the pause");

    let new = webhook(server.data(), &["rotate", "hook"]).run(0).stdout();
    let mut ids = 4..;
    let delivery = wait_for("a delivery with two signatures", || {
        create(&server, ids.next()?);
        hook.wait_for_all(&client).pop().filter(|last| last.signatures().len() == 2)
    });
    let signed_by = delivery.signatures().into_iter().map(|signature| {
        [new.trim_end(), &hook.secret].map(|secret| delivery.is_signed(signature, secret))
    });
    assert_eq!(signed_by.collect::<Vec<_>>(), [[true, false], [false, true]]);

    webhook(server.data(), &["remove", "hook"]).run(0);
    wait_until("it to be removed", || status(&client, "hook").is_none());
    let before = hook.deliveries().len();
    create_one_by_one(&server, -2..0, &other);
    assert_eq!(hook.deliveries().len(), before);
}

#[test]
fn events_that_the_log_has_lost_are_reported_once_and_later_ones_follow() {
    let server = server(Launch::new().keep_only_events("10"));
    let client = server.client();
    let hook = Hook::begin(&server, "shop", &[]);
    create_one_by_one(&server, [1], &hook);
    let after = newest_cursor(&client);
    hook.reply(answer("500 Internal Server Error"));
    create(&server, 2);
    hook.wait_for(2);
    // The pause gives a slow store time to forget.
    webhook(server.data(), &["pause", "shop"]).run(0);
    (3..=40).for_each(|id| create(&server, id));
    let events = format!("/events?after={after}");
    wait_until("events to be forgotten", || client.get(&events).status == 410);
    let to = newest_cursor(&client);
    hook.reply(ok());
    webhook(server.data(), &["resume", "shop"]).run(0);
    let is_loss = |delivery: &Delivery| delivery.content().0 == "plants.lost";
    let place = wait_for("a loss", || hook.deliveries().iter().position(is_loss));
    create(&server, 41);
    let later = hook.wait_for(place + 2).split_off(place);
    assert_eq!(data(&later[0], "plants.lost"), json!({"after": after, "to": to}));
    assert_eq!(events_of(later[1..].to_vec()), all_events(&client, &format!("after={to}")));
}

#[test]
fn a_kill_repeats_what_was_in_flight_and_nothing_else() {
    let mut server = server(Launch::new());
    let hook = Hook::begin(&server, "shop", &[]);
    let wait_until_saved = |server: &TestServer, state: &str| {
        wait_until(state, || server.command(&["webhook", "list"]).run(0).stdout().contains(state));
    };
    hook.reply(answer("500 Internal Server Error\r\nRetry-After: 1"));
    create(&server, 1);
    wait_until_saved(&server, "failing");
    hook.reply(ok());
    wait_until_saved(&server, "sending");
    let taken = hook.deliveries().len();
    server.kill();
    server.restart();
    hook.reply(hang());
    create(&server, 2);
    hook.wait_for(taken + 1);
    create(&server, 3);
    server.kill();
    hook.reply(ok());
    server.restart();
    let deliveries = hook.wait_for_all(&server.client()).split_off(taken);
    assert_eq!(deliveries[0].id(), deliveries[1].id());
    assert_eq!(events_of(deliveries.clone())[0].id, 2, "{deliveries:?}");
}

fn has_sent(server: &TestServer) -> bool {
    let series = "plantd_webhook_deliveries_total{outcome=\"delivered\",webhook=\"shop\"}";
    Scrape::of(&server.client()).value(series) > 0.0
}

#[test]
fn one_of_two_servers_sends_and_after_its_kill_the_other_goes_on_with_the_same_deliveries() {
    let schema = test_postgres::fresh_schema_name();
    let launch = Launch::new().postgres(test_postgres::shared().url(), &schema);
    let mut servers = [launch.clone(), launch].map(TestServer::start_with);
    create(&servers[0], 0);
    let hook = Hook::begin(&servers[0], "shop", &[]);
    let [from, to] = servers.each_ref().map(|server| server.data().join("webhooks.json"));
    fs::copy(from, to).expect("it can be copied");
    wait_for_state(&servers[1].client(), "shop", "sending");
    for id in 1..=20 {
        create(&servers[usize::from(id % 2 == 0)], id);
    }
    let taken = hook.wait_for_all(&servers[0].client());
    assert!(taken.windows(2).all(|pair| pair[0].id() != pair[1].id()), "{taken:?}");
    assert_eq!(servers.each_ref().map(has_sent), [true, false]);

    let [sending, other] = &mut servers;
    hook.reply(hang());
    create(other, 21);
    hook.wait_for(taken.len() + 1);
    create(other, 22);
    sending.kill();
    hook.reply(answer("200 OK"));
    let repeated = hook.wait_for_all(&other.client()).split_off(taken.len());
    assert_eq!(repeated[0].id(), repeated[1].id());
    assert!(has_sent(other));
}
