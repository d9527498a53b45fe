//! What a server exports for Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use crate::answer::Answer;
use crate::client::Client;
use crate::event::newest_cursor;
use crate::follower::revision_of;
use crate::wait_until;

/// The series of one scrape, each with its labels, and its value.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The answer, in the text format of Prometheus.
    pub text: String,
    series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Scrapes a server. The client's token must allow it.
    #[track_caller]
    pub fn of(client: &Client) -> Self {
        Self::of_answer(&client.get("/metrics"))
    }

    /// The scrape in an answer.
    #[track_caller]
    pub fn of_answer(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
        let text = String::from_utf8(answer.body.clone()).expect("text");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a series and its value");
            (series.to_owned(), value.parse().expect("a number"))
        });
        let series: BTreeMap<String, f64> = series.collect();
        Self { text, series }
    }

    /// All series, written as in the text.
    pub fn series(&self) -> impl ExactSizeIterator<Item = &str> {
        self.series.keys().map(String::as_str)
    }

    /// The value of a series, written as in the text.
    #[track_caller]
    pub fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in:\n{}", self.text))
    }

    /// Whether a metric has a series.
    pub fn has(&self, metric: &str) -> bool {
        self.names().contains(metric)
    }

    /// The names of all metrics. A histogram has three.
    pub fn names(&self) -> BTreeSet<&str> {
        self.series.keys().map(|series| series.split('{').next().unwrap_or_default()).collect()
    }

    /// The type and the help that the text declares for each metric.
    pub fn declared(&self) -> BTreeMap<&str, (&str, &str)> {
        let after = |word: &'static str| {
            self.text.lines().filter_map(move |line| line.strip_prefix(word)?.split_once(' '))
        };
        let types: BTreeMap<&str, &str> = after("# TYPE ").collect();
        after("# HELP ").map(|(name, help)| (name, (types[name], help))).collect()
    }

    /// The labels of a metric, without the `le` of histogram buckets.
    pub fn labels_of(&self, metric: &str) -> BTreeSet<&str> {
        let labeled = self.series.keys().filter_map(|series| series.split_once('{'));
        let is_of_metric = |name: &str| [metric, &format!("{metric}_count")].contains(&name);
        // No value of our labels contains a comma.
        let labels = labeled.filter(|(name, _)| is_of_metric(name));
        let labels = labels.flat_map(|(_, labels)| labels.split(','));
        labels.filter_map(|label| label.split_once('=')).map(|(name, _)| name).collect()
    }

    /// The series that only grow: counters, and the counts and sums of histograms.
    pub fn counters(&self) -> impl Iterator<Item = (&str, f64)> {
        const GROWING: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];
        let grows = |series: &str| {
            let name = series.split('{').next().unwrap_or_default();
            GROWING.iter().any(|suffix| name.ends_with(suffix))
        };
        let series = self.series.iter().map(|(series, value)| (series.as_str(), *value));
        series.filter(move |(series, _)| grows(series))
    }
}

/// Waits until the archive of a server has every change.
#[track_caller]
pub fn wait_until_archived(client: &Client) {
    let newest = revision_of(&newest_cursor(client)) as f64;
    wait_until("the archive to have every change", || {
        Scrape::of(client).value("plantd_archived_revision") == newest
    });
}
