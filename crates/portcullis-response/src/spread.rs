//! Spreads the retries of rejected clients over time.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::Key;

use portcullis_engine::{LayerOptionError, MAX_RETRY_SPREAD};

/// The longest time that is added to the wait of a rejection, in microseconds, and the number of rejections without a key of
/// their own.
#[derive(Debug)]
pub struct RetrySpread {
    micros: u64,
    turn: AtomicU64,
}

impl RetrySpread {
    /// A spread over this time.
    ///
    /// # Errors
    ///
    /// If it is longer than [`MAX_RETRY_SPREAD`].
    pub fn new(spread: Duration) -> Result<Self, LayerOptionError> {
        match u64::try_from(spread.as_micros()) {
            Ok(micros) if spread <= MAX_RETRY_SPREAD => Ok(Self { micros, turn: AtomicU64::new(0) }),
            _ => Err(LayerOptionError::RetrySpread { spread }),
        }
    }

    /// The time to add: the same for each seed, uniform over all seeds. Rejections without a seed take turns in a sequence whose
    /// members lie far from each other.
    pub fn offset(&self, seed: Option<NonZeroU64>) -> Duration {
        let seed = seed.map_or_else(|| self.turn.fetch_add(1, Relaxed).wrapping_mul(GOLDEN), NonZeroU64::get);
        let scaled = u128::from(seed) * (u128::from(self.micros) + 1);
        Duration::from_micros(u64::try_from(scaled >> 64).unwrap_or(self.micros))
    }
}

impl Clone for RetrySpread {
    /// A layer that is made from another one begins its own sequence.
    fn clone(&self) -> Self {
        Self { micros: self.micros, turn: AtomicU64::new(0) }
    }
}

/// The seed of a key. Half of the bits of its fingerprint are lost, so that an offset does not show any of them.
pub(crate) fn retry_seed(key: Key) -> NonZeroU64 {
    let fingerprint = key.fingerprint().to_be_bytes();
    let (high, low) = fingerprint.split_at(8);
    let folded = high.iter().zip(low).fold(0, |seed, (high, low)| seed << 8 | u64::from(high ^ low));
    // The last bit is below the resolution of an offset.
    NonZeroU64::MIN | folded
}

/// 2^64 divided by the golden ratio: the multiples of it, modulo 2^64, are evenly distributed.
///
/// Source: Knuth, The Art of Computer Programming, volume 3, section 6.4.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use portcullis_core::Secret;

    use super::*;

    fn key(user: u32) -> Key {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.finish().unwrap()
    }

    fn spread(micros: u64) -> RetrySpread {
        RetrySpread::new(Duration::from_micros(micros)).unwrap()
    }

    #[test]
    fn an_offset_is_from_zero_to_the_spread() {
        let (least, most) = (NonZeroU64::MIN, NonZeroU64::MAX);
        for micros in [0, 1, 59, 60_000_000, 3_600_000_000] {
            let spread = spread(micros);
            assert_eq!(spread.offset(Some(least)), Duration::ZERO);
            assert_eq!(spread.offset(Some(most)), Duration::from_micros(micros));
            for user in 0..100 {
                assert!(spread.offset(Some(retry_seed(key(user)))) <= Duration::from_micros(micros));
                assert!(spread.offset(None) <= Duration::from_micros(micros));
            }
        }
        assert_eq!(spread(MAX_RETRY_SPREAD.as_micros().try_into().unwrap()).micros, 3_600_000_000);
    }

    #[test]
    fn a_longer_spread_is_an_error() {
        for spread in [MAX_RETRY_SPREAD + Duration::from_nanos(1), Duration::MAX] {
            assert_eq!(RetrySpread::new(spread).unwrap_err(), LayerOptionError::RetrySpread { spread });
        }
        let error = RetrySpread::new(Duration::from_secs(7_200)).unwrap_err().to_string();
        assert_eq!(error, "retries cannot be spread over 7200s: use at most 3600s");
    }

    /// 10 000 keys in 10 parts: a part of a uniform distribution has 1 000, with a standard deviation of 30.
    #[test]
    fn offsets_of_keys_are_uniform_and_repeatable() {
        let spread = spread(10_000_000);
        let offset = |user| spread.offset(Some(retry_seed(key(user))));
        let mut parts = [0; 10];
        for user in 0..10_000 {
            assert_eq!(offset(user), offset(user));
            parts[usize::try_from(offset(user).as_secs()).unwrap().min(9)] += 1;
        }
        assert!(parts.iter().all(|keys| (850..=1_150).contains(keys)), "{parts:?}");
    }

    #[test]
    fn rejections_without_a_key_take_turns() {
        let spread = spread(10_000_000);
        let mut parts = [0; 10];
        for _ in 0..100 {
            parts[usize::try_from(spread.offset(None).as_secs()).unwrap().min(9)] += 1;
        }
        assert!(parts.iter().all(|turns| (8..=12).contains(turns)), "{parts:?}");
        assert_eq!(spread.clone().offset(None), Duration::ZERO, "a clone begins anew");
    }
}
