//! Log lines with fields. A log in text shows the text of a line, which ends with the fields as ` name=value`; a log in JSON
//! takes the fields themselves.

use std::fmt;

use log::kv::{Source, Value};
use log::{Level, Record};

/// A field, if the line has it.
pub(crate) type Field<'a> = Option<(&'static str, Value<'a>)>;

/// Shows fields as ` name=value`.
pub(crate) struct AsText<'a>(pub(crate) &'a [Field<'a>]);

impl fmt::Display for AsText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = self.0.iter().flatten();
        fields.try_for_each(|(name, value)| write!(formatter, " {name}={value}"))
    }
}

/// Logs a line. Its text must contain every field.
pub(crate) fn log(level: Level, target: &str, text: fmt::Arguments<'_>, fields: &dyn Source) {
    if level <= log::max_level() {
        let mut line = Record::builder();
        line.level(level).target(target).args(text).key_values(&fields);
        log::logger().log(&line.build());
    }
}
