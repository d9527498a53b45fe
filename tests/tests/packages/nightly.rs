//! The nightly backup without systemd. `debian.rs` runs its unit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plantd_tests::{
    Authority, Launch, Process, TOKEN, TestServer, names_in, program, repository, run_tool,
    temporary_folder,
};
use tempfile::TempDir;

/// A folder for backups, and another with the token.
struct Night {
    backups: TempDir,
    credentials: TempDir,
}

impl Night {
    fn new() -> Self {
        let night = Self { backups: temporary_folder(), credentials: temporary_folder() };
        fs::write(night.credentials.path().join("token"), TOKEN).expect("a file can be written");
        night
    }

    fn path(&self, name: &str) -> PathBuf {
        self.backups.path().join(name)
    }

    /// Writes a file that was last changed this many days ago.
    fn write_old(&self, name: &str, days: u64) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, "old").expect("a file can be written");
        let date = format!("{days} days ago");
        let touched = Command::new("touch").args(["--date", &date]).arg(&path).status();
        assert!(touched.expect("touch runs").success());
        path
    }

    /// Runs the backup, with these variables of `plantd.env`.
    #[track_caller]
    fn run(&self, variables: &[(&str, &str)], exit_code: i32) -> Process {
        let mut command = Command::new(repository("contrib/debian/nightly-backup"));
        let folder = program().parent().and_then(Path::to_str).expect("UTF-8");
        command.env_clear().env("PATH", format!("{folder}:/usr/bin:/bin"));
        command.env("CREDENTIALS_DIRECTORY", self.credentials.path());
        command.envs(variables.iter().copied()).current_dir(self.backups.path());
        let mut process = Process::spawn(&mut command);
        process.assert_exit_code(exit_code);
        process
    }
}

#[test]
fn the_nightly_backup_finds_the_server_on_any_port_on_a_socket_and_by_a_name_of_its_certificate() {
    let folder = temporary_folder();
    let authority = Authority::new();
    authority.issue().write(folder.path());
    let roots = folder.path().join("authority.pem");
    fs::write(&roots, authority.pem()).expect("a file can be written");
    let roots = roots.to_str().expect("UTF-8");
    let socket = format!("unix:{}", folder.path().join("plantd.sock").display());

    let backed_up = |variables: &[(&str, &str)]| {
        let night = Night::new();
        let process = night.run(variables, 0);
        assert!(process.stdout().contains("everything agrees: 0 plants"), "{}", process.stdout());
        let names = names_in(night.backups.path());
        assert!(names.len() == 1 && names[0].ends_with("Z.backup"), "{names:?}");
    };
    let server = TestServer::start();
    backed_up(&[("PLANTD_LISTEN", &server.address().to_string()), ("PLANTD_TLS_CERT", "")]);
    // A server that listens on all addresses is asked on one.
    let everywhere = TestServer::start_with(Launch::new().arguments(["--listen", "0.0.0.0:0"]));
    backed_up(&[("PLANTD_LISTEN", &everywhere.address().to_string())]);
    let _on_socket = TestServer::start_with(Launch::new().environment("PLANTD_LISTEN", &socket));
    backed_up(&[("PLANTD_LISTEN", &socket)]);

    let with_tls = TestServer::start_with(Launch::new().tls(folder.path()));
    let address = with_tls.address();
    let (listen, named) = (address.to_string(), format!("https://localhost:{}", address.port()));
    let tls = [
        ("PLANTD_LISTEN", listen.as_str()),
        ("PLANTD_TLS_CERT", "/etc/plantd/fullchain.pem"),
        ("SSL_CERT_FILE", roots),
    ];
    backed_up(&tls);
    backed_up(&[&tls[..], &[("PLANTD_BACKUP_URL", &named)]].concat());
}

#[test]
fn the_nightly_backup_verifies_its_file_and_only_then_deletes_those_older_than_a_week() {
    let server = TestServer::start();
    let listen = server.address().to_string();
    let night = Night::new();
    let old = night.write_old("plants-2020-01-01T00-00-00Z.backup", 7);
    let younger = night.write_old("plants-2020-01-02T00-00-00Z.backup", 6);
    // A damaged backup, the last by its name.
    let last = night.write_old("plants-9999.backup", 1);
    let other = night.write_old("notes", 99);
    let left = night.write_old("plants-2020-01-01T00-00-00Z.backup.x1Y2z3.unfinished", 1);
    let running = night.write_old("plants-2020-01-01T00-00-00Z.backup.a1B2c3.unfinished", 0);
    fs::create_dir(night.path("elsewhere")).expect("a folder can be made");
    let below = night.write_old("elsewhere/plants-2020.backup", 99);

    // Another program, which refuses the backup, replaces the one that verifies it.
    let broken = temporary_folder();
    let source = broken.path().join("source");
    let script =
        format!("#!/bin/sh\n[ \"$1\" != verify ] || exit 1\nexec {} \"$@\"\n", program().display());
    fs::write(&source, script).expect("a file can be written");
    // Another test may fork at this moment, and its process would inherit a file that this process has open for
    // writing. Such a file cannot be executed.
    run_tool(Command::new("install").arg(source).arg(broken.path().join("plantd")));
    let path = format!("{}:/usr/bin:/bin", broken.path().display());
    night.run(&[("PLANTD_LISTEN", &listen), ("PATH", &path)], 1);
    assert!(!left.exists(), "what a killed backup has left stays");
    assert!(old.exists(), "an old backup goes before there is a new one");

    let process = night.run(&[("PLANTD_LISTEN", &listen)], 0);
    assert!(process.stdout().contains("whole up to"), "{}", process.stdout());
    assert!(!old.exists(), "an old backup stays");
    for path in [younger, last, other, below, running] {
        assert!(path.exists(), "{} is gone", path.display());
    }
    night.run(&[("PLANTD_LISTEN", "127.0.0.1:1")], 74);
}
