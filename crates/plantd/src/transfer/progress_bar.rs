//! The progress of a transfer: a bar while it runs, if standard error is a terminal, and one line at its end.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// How often a bar is redrawn while no data moves.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

const BYTES_OF_TOTAL: &str = "{bar:32} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const BYTES: &str = "{spinner} {bytes}, {bytes_per_sec}";
const PLANTS_OF_TOTAL: &str = "{bar:32} {human_pos} of {human_len} plants, {rate}/s, {eta} left";
const SHARE: &str = "{bar:32} {percent} %, {eta} left";
const PLANTS: &str = "{spinner} {human_pos} plants, {rate}/s";

pub(crate) fn of_bytes(total: Option<u64>) -> ProgressBar {
    start(total, BYTES_OF_TOTAL, BYTES)
}

pub(crate) fn of_plants(total: Option<u64>) -> ProgressBar {
    start(total, PLANTS_OF_TOTAL, PLANTS)
}

/// The steps of a bar that shows a share.
const SHARE_STEPS: u64 = 1000;

pub(crate) fn of_share() -> ProgressBar {
    start(Some(SHARE_STEPS), SHARE, SHARE)
}

/// Shows a share from 0 to 1 in the bar of [`of_share`].
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of few steps is a small number"
)]
pub(crate) fn show_share(bar: &ProgressBar, share: f64) {
    bar.set_position((share * SHARE_STEPS as f64) as u64);
}

fn start(total: Option<u64>, with_total: &str, without: &str) -> ProgressBar {
    // The bar is drawn on standard error, and only if that is a terminal.
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), with_total),
        None => (ProgressBar::no_length(), without),
    };
    if !bar.is_hidden() {
        // A test checks all templates.
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = write!(out, "{:.0}", state.per_sec());
        }));
        bar.enable_steady_tick(TICK_INTERVAL);
    }
    bar
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
        for template in [BYTES_OF_TOTAL, BYTES, PLANTS_OF_TOTAL, SHARE, PLANTS] {
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
