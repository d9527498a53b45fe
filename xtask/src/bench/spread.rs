//! The middle and the ends of a handful of measured values.

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The spread of `values`, if there are any.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let upper = *values.get(values.len() / 2)?;
        // The same value as `upper` if their number is odd.
        let lower = *values.get((values.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(lower, upper), min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_number_of_values_is_the_one_in_the_middle() {
        let spread = Spread::of([9.0, 1.0, 4.0]).unwrap();
        assert_eq!(spread, Spread { median: 4.0, min: 1.0, max: 9.0 });
    }

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_two_in_the_middle() {
        assert_eq!(Spread::of([8.0, 1.0, 2.0, 4.0]).unwrap().median, 3.0);
    }

    #[test]
    fn one_value_is_median_and_both_ends() {
        let spread = Spread::of([7.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (7.0, 7.0, 7.0));
    }

    #[test]
    fn no_values_have_no_spread() {
        assert_eq!(Spread::of([]), None);
    }
}
