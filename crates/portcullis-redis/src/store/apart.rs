//! A decision over keys in several slots of a cluster.
//!
//! Each slot is asked by one call, all at once. If one of them denies, what the others have charged is given back. No key
//! ever admits more than its policy: a unit is charged before anybody is let through. While the decision is under way,
//! what may be given back counts as used: others can be denied that would have fitted, by as many units as such decisions
//! hold at that instant.
//!
//! If a slot fails, the others go on limiting: a denial stands, and where all that failed is open the request goes through,
//! charged where it could be. Else the decision has failed, and what was charged is given back.

use portcullis_core::{
    Check, Checks, Outcome, Standing, StoreError, StoreErrorKind, StoreFailure, Timestamp,
};
use smallvec::SmallVec;
use tokio::task::JoinSet;

use super::{Inner, RedisStore};
use crate::keys::slot;
use crate::wire::Operation;

/// The checks of one slot, by their places in the decision.
struct Part {
    slot: u16,
    places: SmallVec<[usize; 2]>,
}

type Answers = SmallVec<[(Timestamp, Standing); 2]>;

/// What was answered to each check, in their order; `None` where there is no answer.
type Known = Vec<Option<(Timestamp, Standing)>>;

impl RedisStore {
    /// Whether the keys of a decision live in more than one slot.
    pub(super) fn are_apart(&self, checks: &Checks) -> bool {
        let mut keys = checks.iter().map(|check| check.key);
        let Some(first) = keys.next() else { return false };
        // The same hash tag is the same slot, without a look at it.
        keys.any(|key| key.slot() != first.slot() && slot(key) != slot(first))
            && self.0.connection.is_cluster()
    }

    pub(super) async fn decide_apart(self, checks: Checks) -> Result<Outcome, StoreError> {
        let mut asked = JoinSet::new();
        for part in parts(&checks) {
            let (store, checks) = (self.clone(), checks.clone());
            asked.spawn(async move {
                let answer =
                    store.0.ask(part.places.iter().filter_map(|place| checks.iter().nth(*place))).await;
                (part, answer)
            });
        }
        let mut known: Known = vec![None; checks.len()];
        let (mut charged, mut all_fit, mut failure) = (Vec::new(), true, None::<StoreError>);
        while let Some(answered) = asked.join_next().await {
            let (part, answer) = answered.map_err(|error| gone(&error))?;
            match answer {
                Ok(answers) => {
                    if answers.iter().all(|(_, standing)| standing.admitted) {
                        charged.extend_from_slice(&part.places);
                    } else {
                        all_fit = false;
                    }
                    for (place, answer) in part.places.into_iter().zip(answers) {
                        known[place] = Some(answer);
                    }
                }
                Err(error) => failure = Some(graver(failure, error)),
            }
        }
        let goes_on = !all_fit || is_open_without(&checks, &known);
        if !all_fit || !goes_on {
            // A task, so that it goes on when the caller goes away.
            let give_back = tokio::spawn(self.give_back(checks.clone(), charged, known));
            known = give_back.await.map_err(|error| gone(&error))?;
        }
        match failure {
            Some(error) if !goes_on => Err(error),
            failure => {
                Ok(Outcome::of_servers(checks, &known, failure).expect("what is not answered has failed"))
            }
        }
    }

    /// Takes back what was charged, and tells how the keys stand then. Where that fails the charge stays, at most until it
    /// expires.
    async fn give_back(self, checks: Checks, charged: Vec<usize>, mut known: Known) -> Known {
        let mut refunds = JoinSet::new();
        for place in charged {
            let check = checks.iter().nth(place).filter(|check| check.cost > 0);
            let Some((check, (_, standing))) = check.cloned().zip(known[place]) else { continue };
            let store = self.clone();
            refunds.spawn(async move { (place, store.0.take_back(&check, standing.charged_at).await) });
        }
        for (place, answer) in refunds.join_all().await {
            known[place] = answer.ok().or(known[place]);
        }
        known
    }
}

impl Inner {
    /// One call, for checks that share a slot.
    pub(super) async fn ask(
        &self,
        checks: impl Iterator<Item = &Check> + Clone,
    ) -> Result<Answers, StoreError> {
        let mut reply = self.call(Operation::Check, checks.clone()).await?;
        let at = reply.at()?;
        checks
            .map(|check| {
                let (admitted, kept) = self.kept(&mut reply, check, at)?;
                Ok((at, kept.standing(at, check.cost, admitted)))
            })
            .collect()
    }

    async fn take_back(
        &self,
        check: &Check,
        charged_at: Timestamp,
    ) -> Result<(Timestamp, Standing), StoreError> {
        let mut reply = self.call(Operation::Refund { charged_at }, std::iter::once(check)).await?;
        let at = reply.at()?;
        let (_, kept) = self.kept(&mut reply, check, at)?;
        Ok((at, kept.standing(at, check.cost, true)))
    }
}

fn parts(checks: &Checks) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (place, check) in checks.iter().enumerate() {
        let slot = slot(check.key);
        match parts.iter_mut().find(|part| part.slot == slot) {
            Some(part) => part.places.push(place),
            None => parts.push(Part { slot, places: SmallVec::from_slice(&[place]) }),
        }
    }
    parts
}

/// Whether something was answered, and all that was not is open.
fn is_open_without(checks: &Checks, known: &Known) -> bool {
    let mut missing = checks.iter().zip(known).filter(|(_, answer)| answer.is_none());
    known.iter().any(Option::is_some)
        && missing.all(|(check, _)| check.policy.store_failure() == StoreFailure::Open)
}

/// Of two failures the one that leaves more unknown, with the longer of their outages: else it were chance, which of them
/// is heard first, whether a policy is still open.
fn graver(one: Option<StoreError>, other: StoreError) -> StoreError {
    let Some(one) = one else { return other };
    let outage = one.outage().max(other.outage());
    let keeps = one.kind() == StoreErrorKind::TimedOut || other.kind() != StoreErrorKind::TimedOut;
    let graver = if keeps { one } else { other };
    match outage {
        Some(outage) => graver.lasting(outage),
        None => graver,
    }
}

/// A task of ours that was stopped, as when the runtime ends.
fn gone(error: &tokio::task::JoinError) -> StoreError {
    StoreError::new(StoreErrorKind::TimedOut, format!("the decision was stopped half-way: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn of_failures_in_any_order_the_unknown_fate_and_the_longest_outage_are_told() {
        let long = StoreError::new(StoreErrorKind::Unavailable, "a").lasting(Duration::from_mins(1));
        let short = StoreError::new(StoreErrorKind::TimedOut, "b").lasting(Duration::from_secs(1));
        let mute = StoreError::new(StoreErrorKind::Overloaded, "c");
        for errors in [[&long, &short, &mute], [&mute, &short, &long], [&short, &long, &mute]] {
            let told = errors.into_iter().cloned().fold(None, |one, other| Some(graver(one, other))).unwrap();
            assert_eq!(told, StoreError::new(StoreErrorKind::TimedOut, "b").lasting(Duration::from_mins(1)));
        }
    }
}
