//! Decisions of which some keys may have overrides.

use portcullis_core::overrides::{Effect, Grant, Override};
use portcullis_core::store::{Check, CheckResult, Checks, Outcome};
use portcullis_core::{Policy, StoreError, StoreErrorKind, Timestamp};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::seen::NONE;
use crate::protocol::wire::{GrantNumbers, Guard, GuardReply, Operation, Reply};
use crate::store::Inner;
use crate::store::answers::{Answers, CheckGrant};
use crate::transport::{QueueKey, Transport as _};

/// The checks of a call, under the grants that this process has seen.
#[derive(Default)]
struct Guarded {
    checks: SmallVec<[Check; 2]>,
    guards: SmallVec<[Guard; 2]>,
    grants: Vec<CheckGrant>,
}

impl Inner {
    /// Like [`run_checks`](Self::run_checks), for checks of which some have policies that read overrides. The decision is made again,
    /// within the same deadline, while a key has another grant than it was made under; such a decision has charged nothing.
    pub(in crate::store) async fn run_guarded(
        &self,
        slot: u16,
        decision: &Checks,
        checks: impl Iterator<Item = &Check> + Clone,
        end: Option<Instant>,
    ) -> Result<Answers, StoreError> {
        let latest = end.unwrap_or_else(|| Instant::now() + self.connection.deadline());
        let (mut end, mut found) = (end, SmallVec::new());
        for _ in 0..MAX_CALLS {
            let guarded = self.guarded(checks.clone(), &found);
            let is_denied = || self.denials.denies(decision);
            let queue = QueueKey::new(decision.narrowest_key().map(|key| key.fingerprint()), &is_denied);
            let own = guarded.checks.iter();
            let mut reply = self.call(slot, queue, Operation::Check, own, &guarded.guards, end).await?;
            if let Some(answers) = self.answers(guarded, &mut reply, &mut found)? {
                return Ok(answers);
            }
            end = Some(latest);
        }
        Err(StoreError::new(StoreErrorKind::Overloaded, CHANGING))
    }

    /// The end of the grant of a check's key that was seen last; that of time without one. A denial is not remembered longer.
    pub(in crate::store) fn end_of_grant(&self, check: &Check) -> Timestamp {
        if !check.policy.reads_overrides() {
            return Timestamp::MAX;
        }
        match self.grants.get(&check.policy, check.key) {
            NONE => Timestamp::MAX,
            [end, ..] => Timestamp::from_micros(end),
        }
    }

    /// Returns the remembered denial of a decision, if there is one, under the grants of its keys that were seen last.
    pub(in crate::store) fn remembered_denial(&self, checks: &Checks) -> Option<Outcome> {
        self.under_grants_of(self.denials.find(checks)?, checks)
    }

    /// Like [`remembered_denial`](Self::remembered_denial), while the server of the keys answers nothing.
    pub(in crate::store) fn denial_in_outage(&self, checks: &Checks) -> Option<Outcome> {
        self.under_grants_of(self.denials.find_in_outage(checks)?, checks)
    }

    fn under_grants_of(&self, denied: Outcome, checks: &Checks) -> Option<Outcome> {
        let may_be_granted =
            !self.grants.is_empty() && checks.iter().any(|check| check.policy.reads_overrides());
        if may_be_granted { self.under_seen_grants(&denied, checks) } else { Some(denied) }
    }

    fn under_seen_grants(&self, denied: &Outcome, checks: &Checks) -> Option<Outcome> {
        let seen = |check: &Check| {
            let reads = check.policy.reads_overrides();
            if reads { under(&check.policy, self.grants.get(&check.policy, check.key)) } else { None }
        };
        let is_denied = |check: &&Check| denied.checks().iter().any(|denied| denied == *check);
        let own = checks.iter().find(is_denied)?;
        let (at, snapshot) = (denied.decision().at(), denied.results().next()?.snapshot);
        // A block comes before a grant.
        let outcome = match seen(own).filter(|_| !snapshot.is_blocked) {
            Some((policy, grant)) => {
                Outcome::remembered(Check { policy, ..own.clone() }, at, snapshot)?.with_grant(0, grant)
            }
            None => denied.clone(),
        };
        let others = checks.iter().filter(|check| !is_denied(check));
        let granted = others.filter_map(|check| seen(check).map(|(policy, _)| policy));
        Some(granted.fold(outcome, Outcome::leaving_out))
    }

    /// `found` are the grants that the call before has found, which those of other keys may have replaced in the memory already.
    fn guarded<'a>(&self, checks: impl Iterator<Item = &'a Check>, found: &[GrantNumbers]) -> Guarded {
        let mut guarded = Guarded::default();
        for (index, check) in checks.enumerate() {
            let mut check = check.clone();
            if check.policy.reads_overrides() {
                let found = found.get(guarded.guards.len()).copied();
                let grant = found.unwrap_or_else(|| self.grants.get(&check.policy, check.key));
                guarded.guards.push(Guard { check: index, grant });
                if let Some((policy, grant)) = under(&check.policy, grant) {
                    check.policy = policy.clone();
                    guarded.grants.push(CheckGrant { check: index, policy, grant });
                }
            }
            guarded.checks.push(check);
        }
        guarded
    }

    /// Reads the reply to a call, and all grants that it has `found`. Returns `None` if a key has another grant, which is remembered.
    fn answers(
        &self,
        guarded: Guarded,
        reply: &mut Reply,
        all_found: &mut SmallVec<[GrantNumbers; 2]>,
    ) -> Result<Option<Answers>, StoreError> {
        let Guarded { checks, guards, grants } = guarded;
        let at = reply.at()?;
        let stored: Result<SmallVec<[_; 2]>, StoreError> =
            checks.iter().map(|check| self.read_stored(reply, check, at)).collect();
        let stored = stored?;
        let mut results: SmallVec<[(Timestamp, CheckResult); 2]> = SmallVec::new();
        for (check, (admitted, stored)) in checks.iter().zip(&stored) {
            results.push((at, stored.check_result(at, check.units(), *admitted)));
        }
        let mut is_current = true;
        all_found.clear();
        for guard in guards {
            let (found, check) = (GuardReply::read(reply)?, &checks[guard.check]);
            all_found.push(found.grant);
            if found.grant != guard.grant {
                is_current = false;
                self.grants.set(&check.policy, check.key, found.grant);
                // Under another quota the key may fit.
                self.denials.correct(&check.policy, check.key).answered();
            }
            if let Some(left) = found.blocked {
                let peeked = stored[guard.check].1.check_result(at, 0, true);
                let snapshot = peeked.snapshot.blocked(left);
                results[guard.check].1 = CheckResult { admitted: false, snapshot, ..peeked };
            }
        }
        Ok(is_current.then(|| Answers::new(results, grants)))
    }
}

/// The policy under a grant of the script's reply. `None` without a grant, or if it does not fit the policy any more.
fn under(policy: &Policy, grant: GrantNumbers) -> Option<(Policy, Grant)> {
    if grant == NONE {
        return None;
    }
    let bytes: Vec<u8> = HEAD.into_iter().chain(grant.into_iter().flat_map(u64::to_be_bytes)).collect();
    let record = Override::decode(&bytes).ok()?;
    let last = Timestamp::from_micros(record.grant()?.until().as_micros().saturating_sub(1));
    match record.effect(policy, last) {
        Effect::Granted(policy, grant) => Some((policy, grant)),
        Effect::Blocked(_) | Effect::None => None,
    }
}

/// The most calls for one decision.
const MAX_CALLS: u32 = 3;
const CHANGING: &str = "the grant of a key was another one in each of 3 calls";
/// The beginning of the encoding of an override that has only a grant.
const HEAD: [u8; 2] = [0x21, 2];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::Quota;

    use super::*;

    #[test]
    fn the_numbers_of_a_grant_are_those_of_its_encoding() {
        let policy = Policy::gcra("api", Quota::per_minute(1)).allow_overrides();
        let now = Timestamp::from_micros(1_000);
        for (quota, burst) in [(Quota::per_second(7), 0), (Quota::per_second(7).burst(9), 9)] {
            let mut record = Override::NONE;
            record.set_grant(now, Some((quota, Duration::from_micros(50))));
            let numbers = [1_050, 50, 7, 1_000_000, burst];
            let (granted, grant) = under(&policy, numbers).unwrap();
            assert_eq!(Some(grant), record.grant());
            assert_eq!(granted.strategy(), Policy::gcra("api", quota).strategy());
        }
        for (limit, quota) in [(0, Quota::per_second(0)), (1_000_000_000_000_000, Quota::UNLIMITED)] {
            let (_, grant) = under(&policy, [1_050, 50, limit, 1_000_000, 0]).unwrap();
            assert_eq!(grant.quota(), quota);
        }
        assert_eq!(under(&policy, [1_050, 50, 0, 1, 1]).map(|_| ()), None);
        assert_eq!(under(&policy, NONE).map(|_| ()), None);
    }
}
