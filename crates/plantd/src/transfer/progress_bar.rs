//! How far a transfer is, for people: while it goes on, where standard error is a terminal, and at its
//! end in one line.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// How often a bar is drawn anew while nothing moves.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

const BYTES_OF_TOTAL: &str = "{bar:32} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const BYTES: &str = "{spinner} {bytes}, {bytes_per_sec}";
const PLANTS_OF_TOTAL: &str = "{bar:32} {human_pos} of {human_len} plants, {rate}/s, {eta} left";
const PLANTS: &str = "{spinner} {human_pos} plants, {rate}/s";

/// Shows bytes, of so many where that is known.
pub(crate) fn of_bytes(total: Option<u64>) -> ProgressBar {
    start(total, if total.is_some() { BYTES_OF_TOTAL } else { BYTES })
}

/// Shows plants, of so many where that is known.
pub(crate) fn of_plants(total: Option<u64>) -> ProgressBar {
    start(total, if total.is_some() { PLANTS_OF_TOTAL } else { PLANTS })
}

fn start(total: Option<u64>, template: &str) -> ProgressBar {
    // It draws on standard error, and only where that is a terminal.
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    if !bar.is_hidden() {
        bar.set_style(style(template));
        bar.enable_steady_tick(TICK_INTERVAL);
    }
    bar
}

fn style(template: &str) -> ProgressStyle {
    // The templates are tested: none is wrong.
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A place on a screen that cannot be written to stays empty.
        let _ = write!(out, "{:.0}", state.per_sec());
    })
}

/// `48,994 plants in 0.9 s (54,438/s)`.
pub(crate) fn summary(plants: u64, elapsed: Duration) -> String {
    let milliseconds = elapsed.as_millis().max(1);
    let rate = u64::try_from(u128::from(plants) * 1000 / milliseconds).unwrap_or(u64::MAX);
    let noun = if plants == 1 { "plant" } else { "plants" };
    let seconds = elapsed.as_secs_f64();
    format!("{} {noun} in {seconds:.1} s ({}/s)", HumanCount(plants), HumanCount(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_right() {
        for template in [BYTES_OF_TOTAL, BYTES, PLANTS_OF_TOTAL, PLANTS] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_summary_has_the_number_the_time_and_the_rate() {
        let summary_of = |plants, ms| summary(plants, Duration::from_millis(ms));
        assert_eq!(summary_of(48_994, 900), "48,994 plants in 0.9 s (54,437/s)");
        assert_eq!(summary_of(1, 2000), "1 plant in 2.0 s (0/s)");
        assert_eq!(summary_of(0, 0), "0 plants in 0.0 s (0/s)");
        assert_eq!(summary_of(7, 0), "7 plants in 0.0 s (7,000/s)");
    }
}
