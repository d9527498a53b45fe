//! Text that is safe to print on a terminal.

/// Replaces control characters, so that text from elsewhere cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_does_not_control_the_terminal() {
        assert_eq!(
            printable("Rosa\u{1b}[2J\n\u{9b}1m \"é\""),
            "Rosa\u{fffd}[2J\u{fffd}\u{fffd}1m \"é\""
        );
    }
}
