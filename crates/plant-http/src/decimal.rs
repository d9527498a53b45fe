//! Integers in decimal form, for texts that each request has: several times faster than `std::fmt`.

/// Appends an integer.
pub(crate) fn push_integer(text: &mut String, integer: impl itoa::Integer) {
    text.push_str(itoa::Buffer::new().format(integer));
}
