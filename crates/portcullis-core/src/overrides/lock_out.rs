//! Blocks that begin by themselves.

use core::time::Duration;

use crate::overrides::MAX_LENGTH;

/// After how many denials a key is blocked, and for how long.
///
/// Values in the source are built by [`after`](LockOut::after) and the methods behind it, which are `const`; others by
/// [`LockOut::new`].
///
/// ```
/// use core::time::Duration;
/// use portcullis::layer::LockOut;
///
/// const SIGN_INS: LockOut = LockOut::after(20)
///     .within(Duration::from_secs(60))
///     .block_for(Duration::from_secs(600))
///     .up_to(Duration::from_secs(86_400));
/// assert_eq!(SIGN_INS.denials(), 20);
/// let same = LockOut::new(20, SIGN_INS.within_time(), SIGN_INS.length(), SIGN_INS.longest());
/// assert_eq!(same, Ok(SIGN_INS));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOut {
    denials: u32,
    within: Duration,
    length: Duration,
    /// `None` if all blocks are of one length.
    longest: Option<Duration>,
}

/// Why a lock-out is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockOutError {
    /// The number of denials is zero.
    #[error("a lock-out after 0 denials blocks every key: it must be at least 1")]
    NoDenials,
    /// A length of time is shorter than a microsecond, or not a whole number of microseconds.
    #[error("{0:?} is not a whole number of microseconds of at least 1")]
    Fractional(Duration),
    /// A length of time is longer than 2^51 microseconds.
    #[error("{0:?} is longer than 2^51 microseconds")]
    TooLong(Duration),
    /// The longest block is shorter than the first one.
    #[error("the longest block of {longest:?} is shorter than the first one of {first:?}")]
    LongestTooShort {
        /// The length of the first block.
        first: Duration,
        /// The longest block.
        longest: Duration,
    },
}

impl LockOut {
    /// Blocks a key that is denied `denials` times: by default within a minute, and for ten minutes each time.
    ///
    /// # Panics
    ///
    /// If `denials` is zero.
    #[track_caller]
    pub const fn after(denials: u32) -> Self {
        Self { denials, within: Duration::from_secs(60), length: Duration::from_secs(600), longest: None }
            .validated()
    }

    /// Sets the time within which the denials are counted, from the first of them: one minute by default.
    ///
    /// # Panics
    ///
    /// If it is zero, longer than 2^51 microseconds or not a whole number of microseconds.
    #[must_use]
    #[track_caller]
    pub const fn within(self, time: Duration) -> Self {
        Self { within: time, ..self }.validated()
    }

    /// Sets the length of a key's first block: ten minutes by default.
    ///
    /// # Panics
    ///
    /// If it is zero, longer than 2^51 microseconds, not a whole number of microseconds, or longer than the longest block.
    #[must_use]
    #[track_caller]
    pub const fn block_for(self, length: Duration) -> Self {
        Self { length, ..self }.validated()
    }

    /// Makes each further block of a key twice as long as the one before, up to this length. Without it, all blocks are as long as
    /// the first one.
    ///
    /// The number of a key's blocks so far is forgotten when this time has passed since the end of the last one.
    ///
    /// # Panics
    ///
    /// If it is longer than 2^51 microseconds, not a whole number of microseconds, or shorter than the first block.
    #[must_use]
    #[track_caller]
    pub const fn up_to(self, longest: Duration) -> Self {
        Self { longest: Some(longest), ..self }.validated()
    }

    /// A lock-out with numbers that are not constants: `denials` within the time `within` block a key for `length`, and each further
    /// block is twice as long, up to `longest`.
    ///
    /// # Errors
    ///
    /// If `denials` is zero, if a length is zero, longer than 2^51 microseconds or not a whole number of microseconds, or if `longest` is
    /// shorter than `length`.
    pub const fn new(
        denials: u32,
        within: Duration,
        length: Duration,
        longest: Duration,
    ) -> Result<Self, LockOutError> {
        let lock_out = Self { denials, within, length, longest: Some(longest) };
        match lock_out.validate() {
            Ok(()) => Ok(lock_out),
            Err(error) => Err(error),
        }
    }

    /// The number of denials that block a key, at least 1.
    pub const fn denials(&self) -> u32 {
        self.denials
    }

    /// The time within which the denials are counted.
    pub const fn within_time(&self) -> Duration {
        self.within
    }

    /// The length of a key's first block.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// The length of the longest block.
    pub const fn longest(&self) -> Duration {
        match self.longest {
            Some(longest) => longest,
            None => self.length,
        }
    }

    /// The length of the block that follows this number of earlier blocks (strikes) of a key.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::layer::LockOut;
    ///
    /// let seconds = Duration::from_secs;
    /// let lock_out = LockOut::after(3).block_for(seconds(10)).up_to(seconds(60));
    /// let lengths = [0, 1, 2, 3, u32::MAX].map(|strikes| lock_out.length_after(strikes));
    /// assert_eq!(lengths, [10, 20, 40, 60, 60].map(seconds));
    /// ```
    pub fn length_after(&self, strikes: u32) -> Duration {
        let doubled = 1_u32.checked_shl(strikes).and_then(|factor| self.length.checked_mul(factor));
        doubled.map_or(self.longest(), |length| length.min(self.longest()))
    }

    const fn validate(&self) -> Result<(), LockOutError> {
        if self.denials == 0 {
            return Err(LockOutError::NoDenials);
        }
        let (first, longest) = (self.length, self.longest());
        let lengths = [self.within, first, longest];
        let mut rest = lengths.as_slice();
        while let [length, others @ ..] = rest {
            if length.is_zero() || !length.subsec_nanos().is_multiple_of(NANOS_PER_MICRO) {
                return Err(LockOutError::Fractional(*length));
            }
            if length.as_nanos() > MAX_LENGTH.as_nanos() {
                return Err(LockOutError::TooLong(*length));
            }
            rest = others;
        }
        if longest.as_nanos() < first.as_nanos() {
            return Err(LockOutError::LongestTooShort { first, longest });
        }
        Ok(())
    }

    #[track_caller]
    const fn validated(self) -> Self {
        match self.validate() {
            Ok(()) => self,
            Err(LockOutError::NoDenials) => panic!("a lock-out after 0 denials blocks every key"),
            Err(LockOutError::Fractional(_)) => {
                panic!("lengths of a lock-out are whole microseconds, at least 1")
            }
            Err(LockOutError::TooLong(_)) => panic!("lengths of a lock-out are at most 2^51 microseconds"),
            Err(LockOutError::LongestTooShort { .. }) => {
                panic!("the longest block is shorter than the first one")
            }
        }
    }
}

const NANOS_PER_MICRO: u32 = 1_000;
