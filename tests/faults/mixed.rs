//! Checks under several policies of which some are leased and others are not.

use std::time::Duration;

use fastrand::Rng;
use portcullis_core::Decision;
use portcullis_core::store::{Check, Outcome as Decided};
use portcullis_histories::{Family, KeyId};

/// What is checked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Keys in one slot, with two leases.
    OneSlot,
    /// Keys in two slots, which a process decides by itself while the servers fail.
    Local,
    /// Keys in two slots, for callers that may go away.
    Cancelled,
}

impl Mix {
    pub(crate) const ALL: [Self; 3] = [Self::OneSlot, Self::Local, Self::Cancelled];
}

/// The keys and costs of a check, in any order. The keys of leased policies are shared by all processes. Each caller has a key of the
/// others, which is denied often.
pub(crate) fn checks(mix: Mix, rotation: u32, random: &mut Rng) -> Vec<(KeyId, u64)> {
    let own = u8::try_from(random.u64(..CALLERS)).unwrap_or_default();
    let (leased, exact): (&[Family], _) = match mix {
        Mix::OneSlot => (&[Family::MixedBucket, Family::MixedCount], Family::MixedExact),
        Mix::Local => (&[Family::MixedLocal], Family::MixedLocalExact),
        Mix::Cancelled => (&[Family::CancelledBucket], Family::CancelledExact),
    };
    let mut families: Vec<(Family, u8)> = leased.iter().map(|family| (*family, SHARED)).collect();
    if families.len() > 1 && random.u64(..3) == 0 {
        let index = random.usize(..2);
        families.remove(index);
    }
    if random.u64(..8) > 0 {
        families.push((exact, own));
    }
    let rotated = random.usize(..families.len());
    families.rotate_left(rotated);
    let mut check = |(family, caller): (Family, u8)| {
        (KeyId { rotation, family, caller }, 1 + random.u64(..family.max_cost()))
    };
    families.into_iter().map(&mut check).collect()
}

/// For how long a caller waits for an answer; `None` if it does not go away.
pub(crate) fn patience(mix: Mix, random: &mut Rng) -> Option<Duration> {
    let goes_away = mix == Mix::Cancelled && random.u64(..6) == 0;
    goes_away.then(|| Duration::from_micros(random.u64(..3_000)))
}

/// Whether a check was paid from a lease although others of the decision were not: its instant is an estimate of this process, and the
/// instants of the others are the server's.
pub(crate) fn is_spent(outcome: &Decided, index: usize) -> bool {
    let is_answered = |decision: &&Decision| decision.is_metered() && !decision.is_degraded();
    let answers = || outcome.checks().iter().zip(outcome.decisions());
    let leased = answers().nth(index).filter(|(check, _)| check.policy.max_lease().is_some());
    let exact = answers().find(|(check, _)| check.policy.max_lease().is_none());
    let of = |answer: Option<(&Check, &Decision)>| {
        answer.map(|(_, decision)| decision).filter(is_answered).map(Decision::at)
    };
    of(leased).zip(of(exact)).is_some_and(|(leased, exact)| leased != exact)
}

/// The caller of the keys that all processes share: a number of no other load.
const SHARED: u8 = 99;
const CALLERS: u64 = 10;
