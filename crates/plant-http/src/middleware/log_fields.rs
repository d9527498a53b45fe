//! Log lines with fields. A log in text shows the text of a line, which ends with the fields as ` name=value`; a log in JSON
//! takes the fields themselves.
//!
//! Each request has a line, so lines are written without the machinery of `std::fmt`, which takes several times as long.

use log::kv::{Error, Key, Source, ToValue, Value, VisitSource};
use log::{Level, Record};

use crate::decimal::push_integer;

/// A field, if the line has it.
pub(crate) type Field<'a> = Option<(&'static str, FieldValue<'a>)>;

#[derive(Clone, Copy)]
pub(crate) enum FieldValue<'a> {
    Text(&'a str),
    Integer(i64),
    Count(u64),
    /// `null` in JSON.
    Unknown,
}

impl ToValue for FieldValue<'_> {
    fn to_value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::from(*text),
            Self::Integer(integer) => Value::from(*integer),
            Self::Count(count) => Value::from(*count),
            Self::Unknown => Value::null(),
        }
    }
}

struct Fields<'a> {
    first: &'a [Field<'a>],
    last: &'a [&'a [Field<'a>]],
}

impl Source for Fields<'_> {
    fn visit<'fields>(&'fields self, visitor: &mut dyn VisitSource<'fields>) -> Result<(), Error> {
        let mut fields = self.first.iter().chain(self.last.iter().copied().flatten()).flatten();
        fields.try_for_each(|(name, value)| visitor.visit_pair(Key::from(*name), value.to_value()))
    }
}

/// Logs a line. `text` is its beginning, and has the values of the fields in `first`; those in `last` are appended to it.
pub(crate) fn log(
    level: Level,
    target: &str,
    mut text: String,
    first: &[Field<'_>],
    last: &[&[Field<'_>]],
) {
    if level > log::max_level() {
        return;
    }
    for (name, value) in last.iter().copied().flatten().flatten() {
        text.push(' ');
        text.push_str(name);
        text.push('=');
        match value {
            FieldValue::Text(value) => text.push_str(value),
            FieldValue::Integer(value) => push_integer(&mut text, *value),
            FieldValue::Count(value) => push_integer(&mut text, *value),
            FieldValue::Unknown => text.push('-'),
        }
    }
    let mut line = Record::builder();
    let fields = Fields { first, last };
    line.level(level).target(target).key_values(&fields);
    log::logger().log(&line.args(format_args!("{text}")).build());
}
