//! A failure mode in half of its bytes: a policy is moved with each decision.

use core::num::NonZeroU32;
use core::time::Duration;

use super::FailureMode;
use crate::compact::Nanos;

/// Two bits for the variant, and its number: nanoseconds or instances.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) struct PackedMode(u64);

impl PackedMode {
    /// A time that the service stays open beyond 146 years counts as 146 years: no outage lasts longer.
    #[inline]
    pub(in crate::policy) const fn new(mode: FailureMode) -> Self {
        Self(match mode {
            FailureMode::Local { instances } => instances.get() as u64,
            FailureMode::Open => OPEN,
            FailureMode::Closed => CLOSED,
            FailureMode::OpenFor(time) => {
                let nanos = Nanos::new(time).whole();
                OPEN_FOR | if nanos < LONGEST { nanos } else { LONGEST }
            }
        })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a number of instances has 32 bits")]
    pub(in crate::policy) const fn get(self) -> FailureMode {
        match self.0 & !NUMBER {
            OPEN => FailureMode::Open,
            CLOSED => FailureMode::Closed,
            OPEN_FOR => FailureMode::OpenFor(Duration::from_nanos(self.0 & NUMBER)),
            _ => match NonZeroU32::new(self.0 as u32) {
                Some(instances) => FailureMode::Local { instances },
                None => FailureMode::DEFAULT,
            },
        }
    }
}

impl core::fmt::Debug for PackedMode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(&self.get(), f)
    }
}

const OPEN: u64 = 1 << 62;
const CLOSED: u64 = 2 << 62;
const OPEN_FOR: u64 = 3 << 62;
const NUMBER: u64 = OPEN - 1;
/// In whole microseconds, as configuration files have it.
const LONGEST: u64 = NUMBER - NUMBER % 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_kept_and_open_times_up_to_146_years() {
        let years = Duration::from_nanos(LONGEST);
        let times = [Duration::from_nanos(1), Duration::from_secs(30), years].map(FailureMode::OpenFor);
        let locals = [1, 2, u32::MAX].map(FailureMode::local);
        for mode in [FailureMode::Open, FailureMode::Closed].into_iter().chain(times).chain(locals) {
            assert_eq!(PackedMode::new(mode).get(), mode);
        }
        assert_eq!(PackedMode::new(FailureMode::OpenFor(Duration::MAX)).get(), FailureMode::OpenFor(years));
    }
}
