//! The image, and the composition with Prometheus and Grafana. Without a container engine, the tests read the files,
//! and run the program in the file system that the image is made from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use plantd_tests::{Process, Toolbox, program, repository, run_tool, variables};
use serde_json::Value;

use crate::machine::copy_of_debian;

/// Each instruction of the Dockerfile, and its arguments.
fn instructions() -> Vec<(String, String)> {
    let file = fs::read_to_string(repository("Dockerfile")).expect("a file can be read");
    let lines = file.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let joined = lines.replace("\\\n", " ");
    let words = joined.lines().filter_map(|line| line.split_once(' '));
    words.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect()
}

#[track_caller]
fn assert_there(path: &Path) {
    assert!(path.exists(), "{} is missing", path.display());
}

#[track_caller]
fn only(name: &str) -> String {
    let mut found: Vec<_> = instructions().into_iter().filter(|(it, _)| it == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found.remove(0).1
}

/// Asserts that plantd reads each of these variables.
#[track_caller]
fn assert_known<'a>(names: impl Iterator<Item = &'a str>) {
    let known = variables();
    for name in names {
        assert!(known.contains(name), "plantd does not know {name}");
    }
}

fn environment() -> BTreeMap<String, String> {
    let pairs = only("ENV");
    let pairs = pairs.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_image_sets_variables_that_plantd_reads_and_is_built_by_the_oldest_rust() {
    assert_known(environment().keys().map(String::as_str));
    // The health check asks at this port.
    assert_eq!(only("EXPOSE"), "8080");
    assert!(environment()["PLANTD_LISTEN"].ends_with(":8080"));
    let rust = fs::read_to_string(repository("Cargo.toml")).expect("a file can be read");
    let (_, oldest) = rust.split_once("rust-version = \"").expect("a version");
    let (oldest, _) = oldest.split_once('"').expect("its end");
    assert!(instructions().iter().any(|(_, rest)| rest.starts_with(&format!("rust:{oldest}-"))));
}

#[test]
fn the_program_serves_as_the_user_of_the_image_on_its_volume() {
    let Some((_folder, root)) = copy_of_debian() else { return };
    let data = environment().remove("PLANTD_DATA").expect("a data folder");
    assert_eq!(only("VOLUME"), data);
    let user = only("USER");
    let (owner, group) = user.split_once(':').expect("a user and a group");
    assert!(owner != "0" && group != "0", "the image runs as root");
    let mut install = Command::new("install");
    install.args(["--directory", "--mode", "0750", "--owner", owner, "--group", group]);
    run_tool(install.arg(root.join(data.trim_start_matches('/'))));
    run_tool(Command::new("install").arg(program()).arg(root.join("usr/bin/plantd")));
    let within = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={user}")).args(["--groups="]).arg(&root);
        command.args(["env", "--ignore-environment", "PATH=/usr/bin"]);
        command.args(environment().iter().map(|(name, value)| format!("{name}={value}")));
        // The port of the image may be in use here.
        command.args(["PLANTD_LISTEN=127.0.0.1:0", "plantd"]).args(arguments).stdin(Stdio::null());
        Process::spawn(&mut command)
    };
    let mut server = within(&[]);
    let url = format!("http://{}", server.address());
    let check = only("HEALTHCHECK");
    let (_, check) = check.split_once("CMD ").expect("a command");
    assert_eq!(check, r#"["plantd", "health"]"#);
    within(&["health", "--url", &url]).assert_exit_code(0);
    server.send_terminate();
    server.assert_exit_code(0);
}

/// A YAML file: its only document, or a list of all.
#[track_caller]
fn yaml(path: &str) -> Value {
    let script = "import json, sys, yaml; all = list(yaml.safe_load_all(open(sys.argv[1]))); \
                  json.dump(all if len(all) > 1 else all[0], sys.stdout)";
    let mut python = Toolbox::python().command("python");
    let output = python
        .args(["-c", script])
        .arg(repository(path))
        .output()
        .expect("the program can be started");
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_composition_mounts_files_that_are_there_and_sets_variables_that_plantd_reads() {
    let composition = yaml("contrib/compose.yaml");
    let services = composition["services"].as_object().expect("services");
    for service in services.values() {
        for mount in service["volumes"].as_array().expect("volumes") {
            let (source, _) = mount.as_str().expect("a text").split_once(':').expect("a target");
            match source.strip_prefix("./") {
                Some(file) => assert_there(&repository("contrib").join(file)),
                None => assert!(composition["volumes"].get(source).is_some(), "{source}"),
            }
        }
    }
    let plantd = &services["plantd"];
    assert_there(
        &repository("contrib").join(plantd["build"].as_str().expect("a folder")).join("Dockerfile"),
    );
    assert!(plantd["mem_limit"].is_string(), "the memory has no limit");
    let of_plantd = plantd["environment"].as_object().expect("variables");
    assert_known(of_plantd.keys().map(String::as_str));
}

#[test]
fn the_manifest_of_kubernetes_runs_the_image_as_its_user_on_its_volume_and_waits_for_the_drain() {
    let set = &yaml("contrib/kubernetes.yaml")[1];
    let pod = &set["spec"]["template"]["spec"];
    let context = &pod["securityContext"];
    let user = format!("{}:{}", context["runAsUser"], context["runAsGroup"]);
    assert_eq!(user, only("USER"));
    assert_eq!(context["fsGroup"], context["runAsGroup"]);
    let container = &pod["containers"][0];
    assert_eq!(container["volumeMounts"][0]["mountPath"], only("VOLUME").as_str());
    assert_eq!(container["ports"][0]["containerPort"].to_string(), only("EXPOSE"));
    assert!(container["resources"]["limits"]["memory"].is_string());
    assert!(pod["terminationGracePeriodSeconds"].as_u64() >= Some(60));
    let of_container = container["env"].as_array().expect("variables").iter();
    assert_known(of_container.map(|variable| variable["name"].as_str().expect("a name")));
}

#[test]
fn prometheus_scrapes_where_the_composition_serves_metrics_and_grafana_finds_the_dashboard() {
    let plantd = &yaml("contrib/compose.yaml")["services"]["plantd"];
    let address = plantd["environment"]["PLANTD_METRICS_LISTEN"].as_str().expect("an address");
    let (_, port) = address.rsplit_once(':').expect("a port");
    let scraped = &yaml("contrib/prometheus/prometheus.yml")["scrape_configs"][0];
    assert_eq!(scraped["static_configs"][0]["targets"][0], format!("plantd:{port}"));
    let grafana = &yaml("contrib/compose.yaml")["services"]["grafana"]["volumes"];
    let provider = &yaml("contrib/grafana/provisioning/dashboards/plantd.yaml")["providers"][0];
    let folder = provider["options"]["path"].as_str().expect("a folder");
    let mounts = grafana.as_array().expect("volumes").iter().filter_map(Value::as_str);
    assert!(mounts.into_iter().any(|mount| mount.contains(&format!(":{folder}/plantd.json"))));
}
