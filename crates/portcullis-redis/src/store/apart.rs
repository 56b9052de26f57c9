//! A decision over keys in several slots of a cluster.
//!
//! Each slot is asked by one call, all at once. If one of them denies, what the others have charged is given back. No key
//! ever admits more than its policy: a unit is charged before anybody is let through. While the decision is under way,
//! what may be given back counts as used: others can be denied that would have fitted, by as many units as such decisions
//! hold at that instant.
//!
//! If a slot fails, the others go on limiting: a denial stands, and where all that failed is open the request goes through,
//! charged where it could be. Else the decision has failed, and what was charged is given back.
//!
//! A decision runs to its end in a task of its own. If its caller has gone by then, nobody was let through, and all is given
//! back: else whoever asks and hangs up could use up, by requests that one key denies, the limits of all the others.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{
    Check, Checks, Outcome, Position, Refund, Run, Standby, Standing, StoreError, StoreErrorKind, Timestamp,
};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

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

/// Who waits for a decision, as far as anybody does.
type Caller = oneshot::Sender<Result<Outcome, StoreError>>;

struct Asked {
    known: Known,
    failure: Option<StoreError>,
}

impl RedisStore {
    /// Whether the keys of a decision live in more than one slot.
    pub(super) fn are_apart(&self, checks: &Checks) -> bool {
        let mut keys = checks.iter().map(|check| check.key);
        let Some(first) = keys.next() else { return false };
        // The same hash tag is the same slot, without a look at it.
        keys.any(|key| key.slot() != first.slot() && slot(key) != slot(first))
            && self.0.connection.is_cluster()
    }

    /// Decides within one deadline.
    ///
    /// # Cancel safety
    /// A decision whose caller goes away before it is told charges nothing.
    pub(super) async fn decide_apart(
        self,
        checks: Checks,
        standby: Option<Arc<dyn Standby>>,
    ) -> Result<Outcome, StoreError> {
        let (caller, told) = oneshot::channel();
        tokio::spawn(self.decide_for(caller, checks.clone()));
        let answer = told.await.unwrap_or_else(|_| Err(gone()));
        match standby {
            Some(standby) => standby.conclude(checks, answer),
            None => answer,
        }
    }

    async fn decide_for(self, caller: Caller, checks: Checks) {
        if caller.is_closed() {
            return;
        }
        let end = Instant::now() + self.0.connection.deadline();
        let Asked { known, failure } = self.ask_each(&checks).await;
        let all_fit = known.iter().flatten().all(|(_, standing)| standing.admitted);
        let goes_on = !all_fit || is_open_without(&checks, &known, failure.as_ref());
        let tell =
            |known: &Known| match failure.clone() {
                Some(error) if !goes_on => Err(error),
                failure => Ok(Outcome::of_servers(checks.clone(), known, failure)
                    .expect("what is not answered has failed")),
            };
        if all_fit && goes_on {
            if caller.send(tell(&known)).is_err() {
                self.give_back(&checks, known).await;
            }
            return;
        }
        let given_back = self.give_back(&checks, known.clone());
        tokio::pin!(given_back);
        let in_time = timeout_at(end, &mut given_back).await;
        // Whether anybody still listens makes no difference any more.
        drop(caller.send(tell(in_time.as_ref().unwrap_or(&known))));
        if in_time.is_err() {
            given_back.await;
        }
    }

    async fn ask_each(&self, checks: &Checks) -> Asked {
        let mut calls = JoinSet::new();
        for part in parts(checks) {
            let (store, checks) = (self.clone(), checks.clone());
            calls.spawn(async move {
                let checks = part.places.iter().filter_map(|place| checks.iter().nth(*place));
                let answer = store.0.ask(checks).await;
                (part, answer)
            });
        }
        let mut asked = Asked { known: vec![None; checks.len()], failure: None };
        for (part, answer) in calls.join_all().await {
            match answer {
                Ok(answers) => {
                    for (place, answer) in part.places.into_iter().zip(answers) {
                        asked.known[place] = Some(answer);
                    }
                }
                Err(error) => asked.failure = Some(graver(asked.failure, error)),
            }
        }
        asked
    }

    /// Takes back what was charged, and tells how the keys stand then. Where that fails the charge stays, at most until it
    /// expires.
    async fn give_back(&self, checks: &Checks, mut known: Known) -> Known {
        let mut refunds = JoinSet::new();
        for part in parts(checks) {
            let answers = || part.places.iter().filter_map(|place| known[*place]);
            if !answers().all(|(_, standing)| standing.admitted) {
                continue;
            }
            for place in part.places.iter().copied() {
                let check = checks.iter().nth(place).filter(|check| check.cost > 0);
                let Some((check, (_, standing))) = check.cloned().zip(known[place]) else { continue };
                let store = self.clone();
                refunds.spawn(async move { (place, store.0.take_back(&check, standing.position).await) });
            }
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
        position: Position,
    ) -> Result<(Timestamp, Standing), StoreError> {
        let runs = [Run { units: check.cost, position }];
        let operation = Operation::Refund(Refund::of(&runs));
        let mut reply = self.call(operation, std::iter::once(check)).await?;
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

/// Whether something was answered, and all that was not is open, or open for longer than the outage has lasted.
fn is_open_without(checks: &Checks, known: &Known, failure: Option<&StoreError>) -> bool {
    // Of an outage of which nobody knows how long it has lasted, only what is always open.
    let outage = failure.and_then(StoreError::outage).unwrap_or(Duration::MAX);
    let is_open = |check: &Check| check.policy.store_failure().is_open_after(outage);
    let mut missing = checks.iter().zip(known).filter(|(_, answer)| answer.is_none());
    known.iter().any(Option::is_some) && missing.all(|(check, _)| is_open(check))
}

/// Of two failures the one that leaves more unknown, with the longer of their outages: else it were chance, which of them
/// is heard first, whether a policy is still open.
fn graver(one: Option<StoreError>, other: StoreError) -> StoreError {
    let Some(one) = one else { return other };
    let outage = one.outage().max(other.outage());
    let keeps = one.kind().is_fate_unknown() || !other.kind().is_fate_unknown();
    let graver = if keeps { one } else { other };
    match outage {
        Some(outage) => graver.lasting(outage),
        None => graver,
    }
}

/// The task was stopped, as when the runtime ends.
fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::TimedOut, "the decision was stopped half-way")
}

#[cfg(test)]
mod tests {
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
