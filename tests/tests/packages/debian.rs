//! The Debian package, installed in a booted Debian system: systemd runs the service in the sandbox of its unit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plantd_tests::{Document, cargo, program, repository, run_tool, temporary_folder, wait_until};

use crate::machine::Machine;

/// The address of the service after its installation.
const URL: &str = "http://127.0.0.1:8080";

/// Makes the package of the program under test.
#[track_caller]
fn package(version: &str, folder: &Path) -> PathBuf {
    let path = folder.join(format!("plantd_{version}.deb"));
    let mut deb = cargo();
    deb.args(["xtask", "deb", "--version", version]).arg("--output").arg(&path);
    run_tool(deb.arg(program()));
    path
}

#[test]
fn lintian_finds_nothing_in_the_package() {
    // The version in contrib/debian/changelog: lintian compares the two.
    let version = concat!(env!("CARGO_PKG_VERSION"), "-1");
    let folder = temporary_folder();
    let mut lintian = Command::new("lintian");
    lintian
        .args(["--allow-root", "--fail-on", "error,warning"])
        .arg(package(version, folder.path()));
    run_tool(&mut lintian);
    let mut changelog = Command::new("dpkg-parsechangelog");
    changelog.args(["--show-field", "Version", "--file"]);
    let newest = changelog
        .arg(repository("contrib/debian/changelog"))
        .output()
        .expect("dpkg-parsechangelog can be started");
    assert_eq!(String::from_utf8_lossy(&newest.stdout).trim_end(), version);
}

/// Installs the package in this file, and creates the plant with the id 1. Returns the token of the first start.
#[track_caller]
fn install(machine: &Machine, package: &Path) -> String {
    fs::copy(package, machine.root().join("first.deb")).expect("a file can be copied");
    machine.run("dpkg --install /first.deb");
    let token = machine.run("cat /var/lib/plantd/first-run-token");
    let authorization = format!("Authorization: Bearer {token}");
    let json = ["-H", "Content-Type: application/json", "-d", r#"{"id":1,"name":"Rosa"}"#];
    let create = ["-fsS", "-H", &authorization, &format!("{URL}/plants")];
    machine.run_in_network("curl", &[&create[..], &json].concat());
    token
}

/// The plant with the id 1, read over HTTP.
#[track_caller]
fn plant(machine: &Machine, url: &str, token: &str) -> String {
    let authorization = format!("Authorization: Bearer {token}");
    machine.run_in_network("curl", &["-fsS", "-H", &authorization, &format!("{url}/plants/1")])
}

#[test]
fn a_plant_outlives_upgrade_and_removal_of_the_package_until_the_package_is_purged() {
    let folder = temporary_folder();
    let [first, second] = ["0.0.1-1", "0.0.2-1"].map(|version| package(version, folder.path()));
    let Some(machine) = Machine::boot() else { return };
    let token = install(&machine, &first);
    assert_eq!(
        machine.run("systemctl is-active plantd; systemctl is-enabled plantd"),
        "active\nenabled"
    );
    assert_eq!(machine.run("systemd-analyze verify --man=no plantd.service 2>&1"), "");
    assert_eq!(machine.run("stat --format '%U %a' /var/lib/plantd"), "plantd 750");
    assert_eq!(machine.run("stat --format '%U %a' /etc/plantd/plantd.env"), "root 640");
    assert!(machine.run("getent passwd plantd").ends_with("/usr/sbin/nologin"));

    // systemd restarts the service after a crash, but not after a wrong configuration.
    machine.run("systemctl kill --signal KILL plantd");
    wait_until("systemd to start the server again", || {
        machine.run("systemctl show --property NRestarts --value plantd") == "1"
    });
    machine
        .run("echo PLANTD_DRAIN_DELAY=wrong >> /etc/plantd/plantd.env; ! systemctl restart plantd");
    let state = machine.run("systemctl show --property SubState,ExecMainStatus,NRestarts plantd");
    assert_eq!(state, "NRestarts=0\nExecMainStatus=78\nSubState=failed");

    // An upgrade keeps the administrator's environment file, and ports below 1024 are allowed.
    let url = "http://127.0.0.1:80";
    machine.run("sed -i 's/^PLANTD.*/PLANTD_LISTEN=127.0.0.1:80/' /etc/plantd/plantd.env");
    machine.run("systemctl restart plantd");
    assert_eq!(plant(&machine, url, &token), r#"{"id":1,"name":"Rosa"}"#);

    let process = machine.run("systemctl show --property MainPID --value plantd");
    fs::copy(second, machine.root().join("second.deb")).expect("a file can be copied");
    machine.run("dpkg --install /second.deb");
    assert_eq!(machine.run("dpkg-query --show --showformat '${Version}' plantd"), "0.0.2-1");
    assert_ne!(machine.run("systemctl show --property MainPID --value plantd"), process);
    assert_eq!(plant(&machine, url, &token), r#"{"id":1,"name":"Rosa"}"#);

    machine.run("dpkg --remove plantd");
    machine.run("! systemctl is-active plantd && ! test -e /usr/bin/plantd");
    machine.run("test -d /var/lib/plantd/plants && grep -q 127.0.0.1:80 /etc/plantd/plantd.env");

    // A purge succeeds even with another disk, a folder and a file mounted below, and removes nothing of them.
    machine.run(
        "set -e; mkdir -p /elsewhere /var/lib/plantd/deep/disk /var/lib/plantd/folder /etc/plantd/folder
        touch /elsewhere/kept /file-kept /var/lib/plantd/deep/file
        mount -t tmpfs none /var/lib/plantd/deep/disk; touch /var/lib/plantd/deep/disk/kept
        mount --bind /elsewhere /var/lib/plantd/folder; mount --bind /elsewhere /etc/plantd/folder
        mount --bind /file-kept /var/lib/plantd/deep/file",
    );
    machine.run("dpkg --purge plantd </dev/null");
    assert_eq!(
        machine.run("find /var/lib/plantd /etc/plantd ! -type d | sort"),
        "/etc/plantd/folder/kept\n/var/lib/plantd/deep/disk/kept\n/var/lib/plantd/deep/file\n\
         /var/lib/plantd/folder/kept"
    );
    machine.run(
        "set -e; umount /var/lib/plantd/deep/* /var/lib/plantd/folder /etc/plantd/folder
        rm -r /elsewhere /file-kept /var/lib/plantd/deep/file
        rmdir /var/lib/plantd/deep/disk /var/lib/plantd/deep /var/lib/plantd/folder /var/lib/plantd
        rmdir /etc/plantd/folder /etc/plantd",
    );
    assert_eq!(machine.run("find / -xdev -name '*plantd*'"), "");
    // The user stays, so that no file elsewhere comes to belong to another user.
    assert!(machine.run("getent passwd plantd").ends_with("/usr/sbin/nologin"));
}

#[test]
fn the_timer_backs_up_every_night_as_the_document_shows_and_the_backup_can_be_restored() {
    let folder = temporary_folder();
    let package = package("0.0.1-1", folder.path());
    let Some(machine) = Machine::boot() else { return };
    install(&machine, &package);
    assert_eq!(machine.run("systemctl is-enabled plantd-backup.timer || true"), "disabled");

    let document = Document::read("docs/operations.md");
    let transcript = document.part("Back up every night").blocks("console").join("\n");
    let settings = machine.root().join("etc/plantd").display().to_string();
    for command in transcript.lines().filter_map(|line| line.strip_prefix("$ ")) {
        // The system has no curl.
        if command.starts_with("curl ") {
            let command = command.replace("/etc/plantd", &settings);
            machine.run_in_network("sh", &["-c", &command]);
        } else {
            machine.run(command);
        }
    }
    assert_eq!(machine.run("systemctl is-active plantd-backup.timer"), "active");
    let elapses = "systemctl show --property NextElapseUSecRealtime --value plantd-backup.timer";
    assert!(machine.run(elapses).contains(":"), "the timer does not elapse");
    assert_eq!(machine.run("stat --format '%U %a' /var/backups/plantd/*"), "plantd 600");

    // The same unit reaches the server on a Unix socket.
    machine.run(
        "set -e; echo PLANTD_LISTEN=unix:/run/plantd/plantd.sock >> /etc/plantd/plantd.env
        systemctl restart plantd; rm /var/backups/plantd/*; systemctl start plantd-backup.service
        plantd health --url unix:/run/plantd/plantd.sock",
    );
    assert_eq!(machine.run("stat --format '%U %a' /var/backups/plantd/*"), "plantd 600");

    // Old backups are removed, but only after a new one was verified.
    machine.run("cd /var/backups/plantd; touch --date '9 days ago' plants-old.backup");
    machine.run("rm /etc/plantd/backup-token; ! systemctl start plantd-backup.service");
    machine.run("test -e /var/backups/plantd/plants-old.backup");
    machine.run("plantd restore --data /restored /var/backups/plantd/plants-2*.backup");
    assert_eq!(machine.run("plantd export --data /restored"), r#"{"id":1,"name":"Rosa"}"#);
}
