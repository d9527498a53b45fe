//! The PostgreSQL that the benches run on, and plantd on it.

use std::fmt::{self, Display, Formatter};
use std::process::Command;

use anyhow::{Context as _, anyhow, ensure};
use serde::Serialize;
use test_postgres::Cluster;

use crate::bench::contender::Contender;
use crate::bench::transfer::run_for_output;

/// As PostgreSQL has them by itself; clusters for tests have others.
const DEFAULTS: [(&str, &str); 2] = [("max_connections", "100"), ("shared_buffers", "128MB")];

/// What a rate can depend on, beside the version.
const SETTINGS: [&str; 7] = [
    "shared_buffers",
    "fsync",
    "synchronous_commit",
    "wal_sync_method",
    "full_page_writes",
    "max_wal_size",
    "max_connections",
];

/// What is in memory alone, and would make every commit a cheap one.
const FILESYSTEMS_IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// A server on a new folder, which is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    cluster: Cluster,
    settings: Settings,
}

/// How a server is set.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Settings {
    version: String,
    filesystem: String,
    settings: Vec<(&'static str, String)>,
}

impl Server {
    /// Starts it with the settings that PostgreSQL has by itself.
    pub(super) fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start_with(&DEFAULTS);
        let filesystem = filesystem(&cluster)?;
        ensure!(
            !FILESYSTEMS_IN_MEMORY.contains(&&*filesystem),
            "{} is in memory ({filesystem}), and nothing that is measured there is of use: name a folder on a disk in \
             TMPDIR",
            cluster.data().display()
        );
        let show = |name: &str| query(&cluster, &format!("SHOW {name}"));
        let settings = Settings {
            version: show("server_version")?,
            filesystem,
            settings: SETTINGS
                .into_iter()
                .map(|name| Ok((name, show(name)?)))
                .collect::<anyhow::Result<_>>()?,
        };
        Ok(Self { cluster, settings })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where all find it: its Unix socket.
    pub(super) fn url(&self) -> String {
        self.cluster.url()
    }

    pub(super) fn query(&self, sql: &str) -> anyhow::Result<String> {
        query(&self.cluster, sql)
    }

    /// plantd with its plants in a schema.
    pub(super) fn contender(&self, plantd: &Contender, schema: &str) -> Contender {
        Contender { arguments: self.arguments(schema).into(), ..plantd.clone() }
    }

    /// Has plantd make its tables in a schema.
    pub(super) fn migrate(&self, plantd: &Contender, schema: &str) -> anyhow::Result<()> {
        let mut migrate = Command::new(&plantd.executable);
        migrate.arg("migrate").args(self.arguments(schema)).env_clear();
        run_for_output(&mut migrate).with_context(|| format!("cannot make {schema}")).map(drop)
    }

    /// Brings everything to the disk, so that nothing of what was before has to be brought there meanwhile.
    pub(super) fn come_to_rest(&self) -> anyhow::Result<()> {
        self.query("CHECKPOINT").map(drop)
    }

    fn arguments(&self, schema: &str) -> [String; 4] {
        ["--postgres".to_owned(), self.url(), "--postgres-schema".to_owned(), schema.to_owned()]
    }
}

fn query(cluster: &Cluster, sql: &str) -> anyhow::Result<String> {
    cluster.database().try_query(sql).map_err(|why| anyhow!("{sql}: {why}"))
}

fn filesystem(cluster: &Cluster) -> anyhow::Result<String> {
    let mut stat = Command::new("stat");
    stat.args(["--file-system", "--format=%T"]).arg(cluster.data());
    Ok(run_for_output(&mut stat)?.trim().to_owned())
}

impl Display for Settings {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { version, filesystem, settings } = self;
        write!(formatter, "PostgreSQL {version} on {filesystem}:")?;
        for (index, (name, value)) in settings.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma} `{name}` {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench::postgres) fn settings() -> Settings {
        Settings {
            version: "15.18".to_owned(),
            filesystem: "ext2/ext3".to_owned(),
            settings: vec![("fsync", "on".to_owned()), ("max_wal_size", "1GB".to_owned())],
        }
    }

    #[test]
    fn settings_are_shown_in_a_line() {
        assert_eq!(
            settings().to_string(),
            "PostgreSQL 15.18 on ext2/ext3: `fsync` on, `max_wal_size` 1GB"
        );
    }
}
