//! Parsers of option values, for the command line and the environment alike.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Parses a whole number in this range.
pub(crate) fn whole_number<Number: FromStr + PartialOrd + Display>(
    range: RangeInclusive<Number>,
) -> impl Fn(&str) -> Result<Number, String> + Clone
where
    RangeInclusive<Number>: Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("give a whole number from {least} to {most}"))
    }
}

/// Parses a duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "give a duration with its unit, such as 10s, 12h or 90d".to_owned())
}
