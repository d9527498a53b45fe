//! The form of a line in the log.

use std::fmt::Write as _;
use std::time::SystemTime;

use anyhow::ensure;
use clap::ValueEnum;
use jiff::Timestamp;
use log::kv::{Error, Key, Value, VisitSource, VisitValue};
use log::{Level, Record};

/// The form of the lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for people.
    #[default]
    Text,
    /// A JSON object on each line (NDJSON), for programs.
    Json,
}

/// The length of most levels; the others are one character shorter.
const LEVEL_CHARACTERS: usize = "ERROR".len();

/// The buffer in which a thread writes one line after the other, so that a line in text allocates nothing.
#[derive(Default)]
pub(crate) struct LineBuffer {
    line: String,
    /// The date and time to the second. Many lines have the same.
    date: String,
    /// The second of the date, since 1970.
    second: Option<u64>,
}

impl LineBuffer {
    pub(crate) const fn new() -> Self {
        Self { line: String::new(), date: String::new(), second: None }
    }

    /// The line of a record, with a line feed at the end. An argument that fails to write itself cuts its line short.
    pub(crate) fn line_of(&mut self, record: &Record<'_>, format: LogFormat) -> &str {
        let now = SystemTime::now();
        let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).ok();
        let second = since_1970.map(|time| time.as_secs());
        if second != self.second {
            self.second = second;
            self.date.clear();
            if let Some(date) = date_of(now) {
                let _ = write!(self.date, "{}", date.strftime("%FT%T"));
            }
        }
        self.line.clear();
        match format {
            LogFormat::Text => self.write_text(record),
            LogFormat::Json => {
                self.write_json(record, since_1970.unwrap_or_default().subsec_millis());
            }
        }
        self.line.push('\n');
        &self.line
    }

    fn write_text(&mut self, record: &Record<'_>) {
        let zone = if self.date.is_empty() { "" } else { "Z " };
        let level = record.level().as_str();
        let padding = if level.len() < LEVEL_CHARACTERS { " " } else { "" };
        for part in ["[", &self.date, zone, level, padding, " ", record.target(), "] "] {
            self.line.push_str(part);
        }
        let _ = write!(self.line, "{}", record.args());
    }

    /// The text of a line about a request consists of its fields, so they replace the message.
    fn write_json(&mut self, record: &Record<'_>, millis: u32) {
        self.line.push('{');
        if !self.date.is_empty() {
            let _ = write!(self.line, r#""time":"{}.{millis:03}Z","#, self.date);
        }
        let _ = write!(self.line, r#""level":"{}","target":"#, record.level());
        push_text(&mut self.line, record.target());
        let fields = record.key_values();
        let has_message = fields.get(Key::from("message")).is_some();
        if !has_message && !is_about_request(record.target()) {
            self.line.push_str(r#","message":"#);
            push_text(&mut self.line, &record.args().to_string());
        }
        let _ = fields.visit(&mut Members(&mut self.line));
        self.line.push('}');
    }
}

/// The prefixes of the targets of lines about single requests.
const OF_REQUESTS: [&str; 2] = ["plantd::access", "plantd::audit"];

pub(crate) fn is_about_request(target: &str) -> bool {
    OF_REQUESTS.iter().any(|prefix| target.starts_with(prefix))
}

/// The line that says that this many lines were dropped.
pub(crate) fn lost_lines(count: u64, format: LogFormat) -> String {
    let text = format_args!("{count} lines were dropped: standard error did not take them in time");
    let record = Record::builder().level(Level::Warn).target("plantd::log").args(text).build();
    LineBuffer::new().line_of(&record, format).to_owned()
}

/// The code that dates answers and checks certificates panics when the clock is out of its range.
pub(crate) fn check_clock() -> anyhow::Result<()> {
    ensure!(
        date_of(SystemTime::now()).is_some(),
        "the clock of this machine is before 1970 or after 9999; set the clock"
    );
    Ok(())
}

/// The time as a date that every library can write: one in the years 1970 to 9999.
fn date_of(time: SystemTime) -> Option<Timestamp> {
    let date = Timestamp::try_from(time).ok()?;
    (date >= Timestamp::UNIX_EPOCH).then_some(date)
}

/// Appends a JSON string.
fn push_text(line: &mut String, text: &str) {
    match serde_json::to_string(text) {
        Ok(text) => line.push_str(&text),
        // Every text can be written as JSON.
        Err(_) => line.push_str("null"),
    }
}

/// Appends fields as members of an object.
struct Members<'a>(&'a mut String);

impl<'fields> VisitSource<'fields> for Members<'_> {
    fn visit_pair(&mut self, name: Key<'fields>, value: Value<'fields>) -> Result<(), Error> {
        self.0.push(',');
        push_text(self.0, name.as_str());
        self.0.push(':');
        value.visit(self)
    }
}

impl<'value> VisitValue<'value> for Members<'_> {
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), Error> {
        push_text(self.0, &value.to_string());
        Ok(())
    }

    fn visit_null(&mut self) -> Result<(), Error> {
        self.0.push_str("null");
        Ok(())
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), Error> {
        Ok(write!(self.0, "{value}")?)
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), Error> {
        Ok(write!(self.0, "{value}")?)
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), Error> {
        Ok(write!(self.0, "{value}")?)
    }
}
