//! `plantd webhook`, and the file that it edits.

use std::fs;
use std::path::PathBuf;

use plantd_tests::{
    CONFIGURATION, FINDINGS, IO, Launch, Scrape, TestServer, USAGE, answer_of, mode, replace_file,
    set_mode, temporary_folder, wait_until,
};
use serde_json::json;
use tempfile::TempDir;

use crate::hook::{Hook, PATH, answer, close, data, hang, status, text, wait_for_state, webhook};

const URL: &str = "https://shop.example/plants";

fn folder() -> (TempDir, PathBuf) {
    let folder = temporary_folder();
    let file = folder.path().join("webhooks.json");
    (folder, file)
}

/// The part of a secret that is secret.
fn key(secret: &str) -> &str {
    secret.strip_prefix("whsec_").expect("a secret of Standard Webhooks").trim_end()
}

#[test]
fn create_prints_the_secret_alone_and_what_cannot_be_done_is_refused_with_advice() {
    let (folder, file) = folder();
    let data = folder.path();
    let named = ["test", "rotate", "pause", "resume", "remove"].map(|it| vec![it, "nobody"]);
    for arguments in named.iter().chain([&vec!["list"]]) {
        webhook(data, arguments).assert_refused(IO, &["there is no ", "webhooks.json"]);
    }
    let process = webhook(data, &["create", "--name", "shop", "--url", URL]).run(0);
    let secret = process.stdout();
    assert_eq!((secret.lines().count(), key(&secret).len(), mode(&file)), (1, 44, 0o600));
    assert!(!process.stderr().contains(key(&secret)), "{}", process.stderr());

    let refused = |code, arguments: &[&str], words: &str| {
        let before = fs::read(&file).expect("a file");
        let said = webhook(data, arguments).assert_refused(code, &[words]);
        assert!(!said.contains("hidden"), "{said}");
        assert_eq!(fs::read(&file).expect("a file"), before);
    };
    named.iter().for_each(|arguments| refused(USAGE, arguments, "`plantd webhook list`"));
    let long = "a".repeat(65);
    for name in ["", "a b", "é", ".a", "-a", "a/b", &long] {
        let name = format!("--name={name}");
        refused(USAGE, &["create", &name, "--url", URL], "1 to 64 ASCII letters");
    }
    let allowed = ["--allow-http", "--kinds=created,planted"];
    for (name, url, options, words) in [
        ("shop", URL, &[][..], "choose another name"),
        ("a", URL, &allowed, "created, updated, deleted"),
        ("a", "http://shop.example", &[], "add --allow-http"),
        ("a", "https://169.254.169.254", &allowed[..1], "add --allow-private"),
        ("a", "https://user:hidden@shop.example", &[], "leave them out"),
        ("a", "shop.example", &[], "the scheme is missing"),
        ("a", "https:shop.example", &[], "expected //"),
    ] {
        refused(USAGE, &[&["create", "--name", name, "--url", url], options].concat(), words);
    }
    for number in 2..=16 {
        webhook(data, &["create", "--name", &format!("shop-{number}"), "--url", URL])
            .run(0)
            .stdout();
    }
    let seventeenth = ["create", "--name", "a", "--url", URL];
    refused(CONFIGURATION, &seventeenth, "there are 16 webhooks already; remove some");
}

#[test]
fn test_prints_the_status_and_the_beginning_of_the_answer() {
    let (folder, _) = folder();
    let hook = Hook::create(folder.path(), "shop", &[]);
    let body = format!("\u{1b}[31mred\u{202e}\n{}", "z".repeat(10_000));
    let long = text(answer_of("500 Internal Server Error", "text/plain", &body));
    for (reply, code, words) in [
        (answer("204 No Content"), 0, "answered 204 No Content"),
        (long, FINDINGS, "answered 500 Internal Server Error"),
        (answer("302 Found\r\nLocation: http://127.0.0.1:9/"), FINDINGS, "answered 302 Found"),
        (close(), IO, "did not take the delivery"),
        (hang(), IO, "no answer within 15 s"),
    ] {
        hook.reply(reply);
        let process = webhook(folder.path(), &["test", "shop"]).run(code);
        let said = process.stdout() + &process.stderr();
        assert!(said.contains(words) && !said.contains(PATH), "{said}");
        let shown = 4096 - body.find('z').expect("it is there");
        assert!([0, shown].contains(&said.matches('z').count()), "{said}");
        assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said}");
        let delivery = hook.deliveries().pop().expect("a delivery");
        assert_eq!(data(&delivery, "plants.test"), json!({"webhook": "shop"}));
    }
}

#[test]
fn the_list_the_server_and_its_metrics_tell_how_each_webhook_is_doing_and_no_secret() {
    let server = TestServer::start();
    let client = server.client();
    client.create(0, "Rosa", None).assert_plant("Rosa", None);
    let hooks = ["good", "bad", "gone", "held"]
        .map(|name| Hook::begin(&server, name, &["--kinds=created"]));
    hooks[1].reply(answer("500 Internal Server Error"));
    hooks[2].reply(answer("410 Gone"));
    webhook(server.data(), &["pause", "held"]).run(0);
    wait_for_state(&client, "held", "paused");
    client.create(1, "Rosa", None).assert_plant("Rosa", None);
    hooks[0].wait_for_all(&client);
    wait_for_state(&client, "gone", "gone");
    wait_until("a lag", || status(&client, "bad").expect("it is there")["lag_seconds"] != 0);
    let list = || server.command(&["webhook", "list"]).run(0).stdout();
    wait_until("the failures to be saved", || list().matches(" the receiver ").count() == 2);
    let (listed, scrape) = (list(), Scrape::of(&client));
    for (hook, (state, is_late, error)) in hooks.iter().zip([
        ("sending", Some(false), ""),
        ("failing", Some(true), "the receiver answered 500 Internal Server Error"),
        ("gone", Some(true), "the receiver answered 410 Gone"),
        ("paused", None, ""),
    ]) {
        let (name, origin) = (hook.name, format!("http://{}", hook.address));
        let line = listed.lines().find(|line| line.starts_with(name)).expect("a line");
        let words: Vec<_> = line.split_whitespace().collect();
        let lag = (words[3] != "-").then_some(words[3] != "0s");
        assert_eq!((words[1], lag, words[4]), (state, is_late, &*origin), "{line}");
        assert!(words[2].starts_with("20") && line.contains(error), "{line}");
        let told = status(&client, name).expect("a webhook");
        assert_eq!(told["last_error"]["message"].as_str().unwrap_or_default(), error);
        assert_eq!((&told["state"], &told["origin"]), (&state.into(), &origin.into()));
        assert_eq!(told["kinds"], json!(["created"]));
        let lag = format!("plantd_webhook_lag_seconds{{webhook=\"{name}\"}}");
        let lag = scrape.series().any(|it| it == lag).then(|| scrape.value(&lag) > 0.0);
        assert_eq!(lag, is_late, "{name}");
    }
    for (name, outcome) in [("good", "delivered"), ("bad", "refused"), ("gone", "gone")] {
        let labels = format!("{{outcome=\"{outcome}\",webhook=\"{name}\"}}");
        assert!(scrape.value(&format!("plantd_webhook_deliveries_total{labels}")) > 0.0, "{name}");
    }
    let help = webhook(server.data(), &["create", "--help"]).run(0).stdout();
    let body = String::from_utf8(client.get("/webhooks").body).expect("text");
    for shown in [help, listed, scrape.text, body, server.stderr()] {
        assert!(!shown.contains(PATH), "{shown}");
        assert!(!hooks.iter().any(|hook| shown.contains(key(&hook.secret))), "{shown}");
    }
}

#[test]
fn a_file_that_cannot_be_used_ends_a_start_and_changes_nothing_in_a_running_server() {
    let server = TestServer::start();
    let client = server.client();
    let create = |id| client.create(id, "Rosa", None).assert_plant("Rosa", None);
    create(0);
    let hook = Hook::begin(&server, "shop", &[]);
    let in_force = server.data().join("webhooks.json");
    let whole = fs::read_to_string(&in_force).expect("a file");
    let one = &whole[whole.find('[').expect("a list") + 1..whole.rfind(']').expect("a list")];
    let many = |count| format!("{{\"webhooks\":[{}]}}", vec![one; count].join(","));
    let key = key(&hook.secret);
    for (id, (content, mode, words)) in (1..).zip([
        (whole.replace("null", ""), 0o600, "it is broken at line "),
        (whole.replace(key, &format!("é{key}")), 0o600, "24 to 64 bytes in base64"),
        (whole.replace("http:", "ftp:"), 0o600, "use https"),
        (many(2), 0o600, "several webhooks with the name or the id of shop"),
        (many(17), 0o600, "it has 17 webhooks, more than 16"),
        (whole.clone(), 0o640, "run: chmod 600 "),
    ]) {
        let (folder, file) = folder();
        for path in [&file, &in_force] {
            replace_file(path, &content);
            set_mode(path, mode);
        }
        for launch in [Launch::new().data(folder.path()), webhook(folder.path(), &["list"])] {
            let said = launch.assert_refused(CONFIGURATION, &["webhooks.json", words]);
            assert!(!said.contains(key) && !said.contains(PATH), "{said}");
        }
        wait_until(words, || server.stderr().contains(words));
        create(id);
        hook.wait_for_all(&client);
    }
    fs::remove_file(&in_force).expect("it is there");
    wait_until("its loss to be told", || server.stderr().contains("webhooks.json is gone"));
    create(-1);
    hook.wait_for_all(&client);
    assert!(!server.stderr().contains(key) && !server.stderr().contains(PATH));
}
