//! How a policy is tried out: off, in shadow, for a share of its keys, or enforced.

use std::fmt;
use std::str::FromStr;

use portcullis_core::{Key, Policy};

/// What a policy of a layer does with the requests that it would reject.
///
/// Set by `Limit::mode` where the layer is built, and by
/// `Limiter::set_mode` while it runs. A policy usually goes through them in this order: its
/// rejections are counted, then a growing share of its keys is limited, then all of them.
///
/// ```
/// use portcullis::layer::{Mode, Percent};
///
/// let tenth = Percent::new(10);
/// let steps = [Mode::ShadowPercent(tenth), Mode::Shadow, Mode::Percent(tenth), Mode::Enforce];
/// assert_eq!(steps.map(|mode| mode.to_string()), ["shadow 10 %", "shadow", "10 %", "enforce"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The policy is not checked: no request is charged under it, and nothing shows it.
    Off,
    /// The policy is in shadow for this share of its keys, and off for the others. See `Limit::shadow_for`.
    ShadowPercent(Percent),
    /// The policy decides and reports, and never rejects. See `Limit::shadow`.
    Shadow,
    /// The policy is enforced for this share of its keys, and in shadow for the others.
    Percent(Percent),
    /// The policy is enforced for all keys.
    #[default]
    Enforce,
}

impl Mode {
    /// Returns whether the policy is tried out: it decides, and requests pass that it would reject.
    pub const fn is_trial(self) -> bool {
        matches!(self, Self::ShadowPercent(_) | Self::Shadow | Self::Percent(_))
    }
}

/// A share of the keys of a policy, in steps of a tenth of a percent.
///
/// Whether a key is in it depends on the first part of the key, on the policy and on the secret of the limiter: a client stays
/// in the share from request to request and in all instances, and when the share grows. Different policies have different
/// clients in it. With [another secret](portcullis_core::Secret) other clients are.
///
/// Keys with the same first part are in the share together, such as those of a user on several routes. A key that all clients
/// share, such as that of `Global`, is in it or not as a whole.
///
/// ```
/// use portcullis::layer::Percent;
/// use portcullis::{Policy, Quota, Secret};
///
/// let search = Policy::gcra("search", Quota::per_second(10));
/// let in_share = |share: Percent| {
///     let keys = (0..1_000_u32).map(|user| {
///         let mut hasher = Secret::published().hasher();
///         hasher.writer().part("user", &user.to_be_bytes());
///         hasher.finish().expect("a part was written")
///     });
///     keys.filter(|key| share.includes(&search, *key)).count()
/// };
/// assert_eq!((in_share(Percent::ZERO), in_share(Percent::ALL)), (0, 1_000));
/// assert!((70..130).contains(&in_share(Percent::new(10))));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    permille: u16,
}

impl Percent {
    /// No key.
    pub const ZERO: Self = Self { permille: 0 };

    /// All keys.
    pub const ALL: Self = Self { permille: WHOLE };

    /// A share in whole percent, from 0 to 100.
    ///
    /// # Panics
    ///
    /// If `percent` is above 100.
    #[track_caller]
    pub const fn new(percent: u16) -> Self {
        assert!(percent <= 100, "a share of the keys has 0 to 100 percent");
        Self { permille: percent.saturating_mul(10) }
    }

    /// A share in tenths of a percent, from 0 to 1 000.
    ///
    /// # Panics
    ///
    /// If `permille` is above 1 000.
    #[track_caller]
    pub const fn permille(permille: u16) -> Self {
        assert!(permille <= WHOLE, "a share of the keys has 0 to 1000 permille");
        Self { permille }
    }

    /// The share in tenths of a percent.
    pub const fn as_permille(self) -> u16 {
        self.permille
    }

    /// Returns whether a key of this policy is in the share. It stays there when a window gets another length.
    pub fn includes(self, policy: &Policy, key: Key) -> bool {
        position(policy.override_digest(), key.slot()) < self.permille
    }
}

impl TryFrom<f64> for Percent {
    type Error = PercentError;

    /// A share from configuration or input, in percent, in steps of a tenth.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1 000")]
    fn try_from(percent: f64) -> Result<Self, PercentError> {
        if percent > 100.0 {
            return Err(PercentError::TooMuch { percent });
        }
        let permille = percent * 10.0;
        // Of decimal fractions such as 0.3, which are not exact in binary.
        let is_whole = (permille - permille.round()).abs() < 1e-9;
        if percent >= 0.0 && is_whole {
            Ok(Self { permille: permille.round() as u16 })
        } else {
            Err(PercentError::Steps { percent })
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.permille / 10, self.permille % 10) {
            (whole, 0) => write!(f, "{whole} %"),
            (whole, tenths) => write!(f, "{whole}.{tenths} %"),
        }
    }
}

impl fmt::Debug for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Mode {
    /// The keys for which a policy in this mode is enforced.
    #[must_use]
    pub const fn share(self) -> Percent {
        match self {
            Self::Off | Self::ShadowPercent(_) | Self::Shadow => Percent::ZERO,
            Self::Percent(share) => share,
            Self::Enforce => Percent::ALL,
        }
    }

    /// The keys for which a policy in this mode decides. It is off for the others.
    #[must_use]
    pub const fn checked_share(self) -> Percent {
        match self {
            Self::Off => Percent::ZERO,
            Self::ShadowPercent(share) => share,
            Self::Shadow | Self::Percent(_) | Self::Enforce => Percent::ALL,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::ShadowPercent(share) => write!(f, "shadow {share}"),
            Self::Shadow => f.write_str("shadow"),
            Self::Percent(share) => fmt::Display::fmt(share, f),
            Self::Enforce => f.write_str("enforce"),
        }
    }
}

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        match text {
            "off" => Ok(Self::Off),
            "shadow" => Ok(Self::Shadow),
            "enforce" => Ok(Self::Enforce),
            _ => {
                let share = text.strip_suffix('%').ok_or_else(|| ParseModeError::Unknown(text.to_owned()))?;
                let in_shadow = share.strip_prefix("shadow ");
                permille(in_shadow.unwrap_or(share).trim_end())
                    .filter(|permille| *permille <= WHOLE)
                    .map(|permille| Percent { permille })
                    .map(if in_shadow.is_some() { Self::ShadowPercent } else { Self::Percent })
                    .ok_or_else(|| ParseModeError::Share(text.to_owned()))
            }
        }
    }
}

/// The tenths of a percent of a number with at most one decimal.
fn permille(percent: &str) -> Option<u16> {
    let (whole, tenths) = percent.split_once('.').unwrap_or((percent, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(tenths) || tenths.len() > 1 {
        return None;
    }
    whole.parse::<u16>().ok()?.checked_mul(10)?.checked_add(tenths.parse().ok()?)
}

/// Why a text is no mode.
///
/// ```
/// use portcullis::layer::{Mode, Percent};
///
/// assert_eq!("12.5 %".parse(), Ok(Mode::Percent(Percent::permille(125))));
/// assert_eq!("shadow 10 %".parse(), Ok(Mode::ShadowPercent(Percent::new(10))));
/// let error = "101%".parse::<Mode>().unwrap_err();
/// assert_eq!(error.to_string(), "101% is no share of the keys: use 0% to 100%, in steps of 0.1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseModeError {
    /// It is neither a mode nor a share.
    #[error("{0} is no mode: use `off`, `shadow`, `enforce` or a share such as `10%` or `shadow 10%`")]
    Unknown(String),
    /// The share is not from 0 to 100 percent in steps of a tenth.
    #[error("{0} is no share of the keys: use 0% to 100%, in steps of 0.1")]
    Share(String),
}

/// Why a number is not a share of the keys.
///
/// ```
/// use portcullis::layer::Percent;
///
/// assert_eq!(Percent::try_from(12.5), Ok(Percent::permille(125)));
/// let error = Percent::try_from(150.0).unwrap_err();
/// assert_eq!(error.to_string(), "150 percent is more than all keys: use 0 to 100");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PercentError {
    /// More than 100 percent.
    #[error("{percent} percent is more than all keys: use 0 to 100")]
    TooMuch {
        /// The number.
        percent: f64,
    },
    /// Less than nothing, no number, or not in steps of a tenth.
    #[error("{percent} percent is no share of the keys: use 0 to 100, in steps of 0.1")]
    Steps {
        /// The number.
        percent: f64,
    },
}

/// Where a key lies among all keys of a policy, from 0 to 999. It is uniform over the keys, because slots are fingerprints, and
/// independent for each policy: a plain exclusive or with the digest would give two policies the same clients or the opposite ones.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the halves of a number, and a product below 1 000 times 2^64"
)]
const fn position(policy: u128, slot: u128) -> u16 {
    let (low, high) = ((policy ^ slot) as u64, ((policy ^ slot) >> 64) as u64);
    let hash = mixed(low ^ mixed(high));
    ((hash as u128 * WHOLE as u128) >> 64) as u16
}

/// Spreads a change of any bit over all bits.
///
/// Source: the finalizer of `SplitMix64`; Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
const fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

const WHOLE: u16 = 1_000;

#[cfg(test)]
mod tests;
