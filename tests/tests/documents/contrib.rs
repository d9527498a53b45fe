//! The dashboard and the alerts in `contrib` ask for what servers export, and get an answer.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use plantd_tests::{
    Authority, Client, Document, Launch, Scrape, TestServer, program, repository, run_tool,
    temporary_folder,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_postgres::{fresh_schema_name, shared};

const RULES: &str = "contrib/prometheus/plantd.rules.yml";
const TEST_OF_RULES: &str = "contrib/prometheus/plantd.rules.test.yml";
const DASHBOARD: &str = "contrib/grafana/plantd.json";

/// How many scrapes a query looks at.
const SCRAPES: usize = 5;

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).expect("it is in the repository")
}

fn promtool(words: &[&str]) -> Command {
    let mut command = Command::new("promtool");
    command.args(words).current_dir(repository(""));
    command
}

/// A busy server on each store: together they export every metric.
pub(crate) struct Servers {
    on_disk: TestServer,
    on_postgres: TestServer,
    authority: Authority,
    /// The certificate, and the archive of the server on disk.
    _folder: TempDir,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let folder = temporary_folder();
        let authority = Authority::new();
        authority.issue().write(folder.path());
        let launch = Launch::new().tls(folder.path());
        let archive = folder.path().join("archive");
        let webhooks = folder.path().join("webhooks.json");
        let create = ["webhook", "create", "--name", "shop", "--url", "http://127.0.0.1:9"];
        run_tool(Command::new(program()).args(create).arg("--webhooks").arg(&webhooks));
        let launch = launch.environment("PLANTD_WEBHOOKS", webhooks);
        let servers = Self {
            on_disk: TestServer::start_with(launch.clone().environment("PLANTD_ARCHIVE", archive)),
            on_postgres: TestServer::start_with(
                launch.postgres(shared().url(), &fresh_schema_name()),
            ),
            authority,
            _folder: folder,
        };
        servers.clients().iter().for_each(|(_, client)| keep_busy(client));
        servers
    }

    /// Clients of the servers, each with the name of the store.
    pub(crate) fn clients(&self) -> [(&str, Client); 2] {
        [("disk", &self.on_disk), ("postgres", &self.on_postgres)]
            .map(|(store, server)| (store, server.tls_client(&self.authority)))
    }
}

/// A few requests, of which one fails.
fn keep_busy(client: &Client) {
    for id in 1..=5 {
        assert_eq!(client.put(id, r#"{"name":"Rosa"}"#).status / 100, 2);
    }
    assert_eq!(client.batch(&[r#"{"method":"DELETE","path":"/plants/5"}"#]).status, 200);
    client.read(5).assert_error(404, 3002);
}

/// The names of metrics in an expression.
fn names_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("plantd_") || word.starts_with("process_")).collect()
}

/// The labels with their values in an expression: `name="value"`.
fn labels_in(text: &str) -> impl Iterator<Item = &str> {
    const LABELS: [&str; 4] = ["status_class", "reason", "kind", "outcome"];
    let labels = text.split(['{', ',', '}', ' ']).filter(|word| word.ends_with('"'));
    labels.filter(|word| LABELS.iter().any(|label| word.starts_with(&format!("{label}=\""))))
}

/// The queries of the dashboard, each with the title of its panel.
fn queries(dashboard: &Value) -> Vec<(&str, &str)> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title");
        panel["targets"].as_array().into_iter().flatten().map(move |target| (title, target))
    });
    targets.map(|(title, target)| (title, target["expr"].as_str().expect("a query"))).collect()
}

#[test]
fn every_alert_fires_for_its_trouble_and_none_for_a_server_that_is_well() {
    run_tool(&mut promtool(&["check", "rules", RULES]));
    run_tool(&mut promtool(&["test", "rules", TEST_OF_RULES]));
    // The case with every trouble names the alerts that it expects.
    let rules = read(RULES);
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let test = read(TEST_OF_RULES);
    let alerts: BTreeSet<&str> = alerts.collect();
    for alert in &alerts {
        assert!(test.contains(&format!("alertname=\"{alert}\"")), "no case for {alert}");
    }
    let table = Document::read("docs/operations.md").part("Monitor").table();
    let explained = table.iter().flat_map(|row| row[0].split(", "));
    let explained: BTreeSet<&str> = explained.map(|name| name.trim_matches('`')).collect();
    assert_eq!(explained, alerts);
}

#[test]
fn every_metric_in_an_alert_or_a_panel_is_exported_by_a_server() {
    let servers = Servers::start();
    let scrapes = servers.clients().map(|(_, client)| Scrape::of(&client));
    let exported: BTreeSet<&str> = scrapes.iter().flat_map(Scrape::names).collect();
    for path in [RULES, DASHBOARD] {
        let text = read(path);
        let unknown: Vec<_> = names_in(&text).difference(&exported).copied().collect();
        assert!(unknown.is_empty(), "{path} has {unknown:?}, which no server exports");
        assert!(!names_in(&text).is_empty(), "no metric is found in {path}");
        // The queries in JSON have their quotes escaped.
        for label in labels_in(&text.replace('\\', "")) {
            let has_label = |scrape: &Scrape| scrape.text.contains(label);
            assert!(scrapes.iter().any(has_label), "{path} has {label}, which no server exports");
        }
    }
}

#[test]
fn the_query_of_every_panel_returns_data_of_real_servers() {
    let servers = Servers::start();
    let clients = servers.clients();
    let scrapes: Vec<[Scrape; 2]> = (0..SCRAPES)
        .map(|_| {
            clients.each_ref().map(|(_, client)| {
                keep_busy(client);
                Scrape::of(client)
            })
        })
        .collect();
    let mut series = Vec::new();
    for (index, (instance, _)) in clients.iter().enumerate() {
        for name in scrapes[0][index].series() {
            let values = scrapes.iter().map(|scrape| scrape[index].value(name).to_string());
            let values: Vec<String> = values.collect();
            let instance = format!("instance=\"{instance}\"");
            let labeled = match name.strip_suffix('}') {
                Some(labeled) => format!("{labeled},{instance}}}"),
                None => format!("{name}{{{instance}}}"),
            };
            series.push(json!({"series": labeled, "values": values.join(" ")}));
        }
    }
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("JSON");
    let has_data = |(title, query): (&str, &str)| {
        let query = query.replace("$__rate_interval", "1m").replace("$instance", ".+");
        assert!(!query.contains('$'), "{title}: {query} has a variable that is not replaced");
        // One number or more that is one.
        let expr = format!("count(({query}) > -Inf) > bool 0");
        json!({"expr": expr, "eval_time": "1m", "exp_samples": [{"labels": "{}", "value": 1}]})
    };
    let tests: Vec<Value> = queries(&dashboard).into_iter().map(has_data).collect();
    assert!(!tests.is_empty(), "no query is found in {DASHBOARD}");
    let test = json!({
        "evaluation_interval": "15s",
        "tests": [{"interval": "15s", "input_series": series, "promql_expr_test": tests}],
    });
    let folder = temporary_folder();
    let path = folder.path().join("panels.json");
    fs::write(&path, test.to_string()).expect("it is written");
    run_tool(promtool(&["test", "rules"]).arg(&path));
}
