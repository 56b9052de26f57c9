//! A part of a limit, compared in integers.

use portcullis_engine::LayerOptionError;

/// A fraction between 0 and 1, both excluded, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(u32);

impl Fraction {
    /// Rounds to the nearest billionth, and never to 0 or 1.
    ///
    /// # Errors
    ///
    /// If it is not between 0 and 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a billion")]
    pub fn new(fraction: f64) -> Result<Self, LayerOptionError> {
        if fraction > 0.0 && fraction < 1.0 {
            let billionths = (fraction * f64::from(BILLION)).round() as u32;
            Ok(Self(billionths.clamp(1, BILLION - 1)))
        } else {
            Err(LayerOptionError::WarnAt { fraction })
        }
    }

    /// Whether `part` is at least this fraction of `whole`.
    pub fn is_reached(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(BILLION) >= u128::from(whole) * u128::from(self.0)
    }
}

const BILLION: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_reached_at_its_part_of_the_whole() {
        for (fraction, whole, least) in [
            (0.8, 10, 8),
            (0.8, 9, 8),
            (0.7, 10, 7),
            (0.1, 30, 3),
            (1.0 / 3.0, 3, 1),
            (0.999_999_999_999, 1_000_000, 1_000_000),
            (1e-300, 999_999_999_999_999, 1_000_000),
            (f64::MIN_POSITIVE, 10, 1),
            (0.5, u64::MAX, u64::MAX.div_ceil(2)),
        ] {
            let fraction = Fraction::new(fraction).unwrap();
            assert!(fraction.is_reached(least, whole), "{fraction:?} of {whole}");
            assert!(!fraction.is_reached(least - 1, whole), "{fraction:?} of {whole}");
        }
    }

    #[test]
    fn a_fraction_outside_of_0_and_1_is_an_error() {
        for fraction in [0.0, -0.0, 1.0, -0.1, 80.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = Fraction::new(fraction).unwrap_err().to_string();
            let expected = format!(
                "a policy cannot warn at {fraction} of its limit: use a fraction above 0 and below 1, such as 0.8"
            );
            assert_eq!(error, expected);
        }
    }
}
