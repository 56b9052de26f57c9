//! Who asks for what: the same keys and policies in every process and in the checker.

use std::time::Duration;

use portcullis_core::{Key, Policy, Quota, Secret};

/// Which policy, by what it is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// A meter with a burst, asked for far more than it has.
    Spaced,
    /// A bucket of tokens, asked for one to three at a time.
    Bucket,
    /// Short windows.
    Window,
    /// Every unit with its time.
    Log,
    /// A window that nobody fills and that does not end: what the server has counted.
    Count,
    /// A meter without a burst, asked by one client that keeps below its rate.
    Slow,
}

impl Family {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 6] = [Self::Spaced, Self::Bucket, Self::Window, Self::Log, Self::Count, Self::Slow];

    /// Those of which there is less than is asked for.
    pub const BUSY: [Self; 4] = [Self::Spaced, Self::Bucket, Self::Window, Self::Log];

    /// What is asked of the store.
    pub fn policy(self) -> Policy {
        let quota = self.quota();
        match self {
            Self::Spaced => Policy::gcra("spaced", quota),
            Self::Bucket => Policy::token_bucket("bucket", quota),
            Self::Window => Policy::fixed_window("window", quota),
            Self::Log => Policy::sliding_log("log", quota),
            Self::Count => Policy::fixed_window("count", quota),
            Self::Slow => Policy::gcra("slow", quota),
        }
    }

    /// How much in how long. The interval of a meter is whole microseconds, so that what it reports is its state.
    pub fn quota(self) -> Quota {
        match self {
            Self::Spaced => Quota::per_second(4).burst(5),
            Self::Bucket => Quota::per_second(8).burst(12),
            Self::Window => WINDOW,
            Self::Log => LOG,
            Self::Count => COUNT,
            Self::Slow => Quota::per_second(20),
        }
    }

    /// The most units that are asked for at once.
    pub fn most_asked(self) -> u64 {
        match self {
            Self::Bucket => 3,
            Self::Log => 12,
            _ => 1,
        }
    }

    /// The emission interval of a meter in microseconds, if it is one.
    pub fn interval(self) -> Option<u64> {
        let is_meter = matches!(self, Self::Spaced | Self::Bucket | Self::Slow);
        is_meter.then(|| self.period() / u64::from(self.quota().limit()))
    }

    /// The period in microseconds.
    pub fn period(self) -> u64 {
        u64::try_from(self.quota().period().as_micros()).unwrap_or(u64::MAX)
    }

    /// The most at one instant.
    pub fn most(self) -> u64 {
        self.policy().strategy().limit().into()
    }
}

/// A key under a policy. Keys change from time to time, so that each has a history that can be told to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    /// How often the keys have changed.
    pub rotation: u32,
    /// The policy.
    pub family: Family,
    /// Which caller, below 256.
    pub caller: u8,
}

impl KeyId {
    /// As a number.
    pub fn code(self) -> u32 {
        let family = Family::ALL.iter().position(|family| *family == self.family).unwrap_or_default();
        let family = u32::try_from(family).unwrap_or_default();
        (self.rotation << 12) | (family << 8) | u32::from(self.caller)
    }

    /// The spot of a number; `None` if there is no such family.
    pub fn from_code(code: u32) -> Option<Self> {
        let family = *Family::ALL.get(usize::try_from((code >> 8) & 0xf).ok()?)?;
        let caller = u8::try_from(code & 0xff).ok()?;
        Some(Self { rotation: code >> 12, family, caller })
    }

    /// Who is charged: of one caller and rotation the same under every policy.
    #[expect(clippy::missing_panics_doc, reason = "the text is short")]
    pub fn key(self) -> Key {
        let mut hasher = Secret::published().hasher();
        let text = format!("{}/{}", self.rotation, self.caller);
        hasher.writer().part("caller", text.as_bytes());
        hasher.finish().expect("the text is short")
    }
}

const WINDOW: Quota = quota(10, Duration::from_secs(2));
/// More than the 64 up to which the whole log is written at once.
const LOG: Quota = quota(80, Duration::from_secs(3));
const COUNT: Quota = quota(1_000_000, Duration::from_hours(20 * 365 * 24));

const fn quota(limit: u32, period: Duration) -> Quota {
    match Quota::new(limit, period) {
        Ok(quota) => quota,
        Err(_) => panic!("a quota is out of bounds"),
    }
}

/// After how long everybody takes other keys.
pub const ROTATION_MICROS: u64 = 15_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_spot() {
        for family in Family::ALL {
            let spot = KeyId { rotation: 41, family, caller: 7 };
            assert_eq!(KeyId::from_code(spot.code()), Some(spot));
        }
        assert_eq!(KeyId::from_code(0xf00), None);
    }

    #[test]
    fn intervals_are_whole_microseconds() {
        for family in Family::ALL {
            if let Some(interval) = family.interval() {
                assert_eq!(interval * u64::from(family.quota().limit()), family.period());
            }
        }
    }
}
