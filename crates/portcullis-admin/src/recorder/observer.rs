//! Which events are recorded as what.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::{Decision, Key, PolicyName, Retry};
use portcullis_tower::{Event, EventKind, Observer, Reason};

use super::{Denial, Recorder, add, now_ms};

/// Hands the events of a registry to a recorder.
#[derive(Debug)]
pub(crate) struct RecorderObserver(pub(crate) Arc<Recorder>);

impl Observer for RecorderObserver {
    fn on_event(&self, event: &Event<'_>) {
        let recorder = &*self.0;
        match event.kind {
            EventKind::Admitted { .. } => {
                for (policy, fingerprint) in event.fingerprints() {
                    recorder.admitted(policy, fingerprint.key());
                }
            }
            EventKind::Rejected { reason, decisions } => rejected(recorder, event, reason, decisions),
            EventKind::ShadowWouldReject { decision } => {
                let policy = decision.policy();
                recorder.count(policy, key_of(event, policy), |counts| add(&mut counts.would_reject, 1));
            }
            EventKind::Exempt { policy } => {
                recorder.count(policy, None, |counts| add(&mut counts.exempt, 1));
            }
            EventKind::Charged { decision, units } => charged(recorder, event, decision, units),
            EventKind::ChargedMore { decisions, units } => {
                for decision in decisions {
                    charged(recorder, event, decision, units);
                }
            }
            EventKind::LockedOut { policy, block } => {
                if let Some(key) = key_of(event, policy) {
                    recorder.locked_out(policy, key, block.length(), now_ms());
                }
            }
            EventKind::StoreFailed { .. } => recorder.store_failed(now_ms()),
            _ => {}
        }
    }

    fn wants_fingerprints(&self) -> bool {
        true
    }

    fn wants_charges(&self) -> bool {
        true
    }
}

fn charged(recorder: &Recorder, event: &Event<'_>, decision: &Decision, units: u64) {
    let policy = decision.policy();
    recorder.count(policy, key_of(event, policy), |counts| add(&mut counts.charged_units, units));
}

/// The policies that deny the request are its cause; the first one of the layer if none has decided.
fn rejected(recorder: &Recorder, event: &Event<'_>, reason: Reason, decisions: &[Decision]) {
    let now = now_ms();
    let denials = || decisions.iter().filter(|decision| !decision.is_allowed());
    let decisive = Decision::decisive(denials()).map(Decision::policy);
    let undecided = event.policies.names().next().filter(|_| decisive.is_none());
    for decision in denials() {
        recorder.rejected(decision.policy(), key_of(event, decision.policy()), denial(decision), now);
    }
    if let Some(policy) = undecided {
        recorder.rejected(policy, key_of(event, policy), None, now);
    }
    for (policy, fingerprint) in event.fingerprints() {
        let is_cause = denials().any(|decision| decision.policy() == policy) || undecided == Some(policy);
        if !is_cause {
            recorder.rejected_elsewhere(policy, fingerprint.key());
        }
    }
    let shown = decisive.or(undecided);
    recorder.rejection(shown, shown.and_then(|policy| key_of(event, policy)), reason, now);
}

fn key_of(event: &Event<'_>, policy: &PolicyName) -> Option<Key> {
    event.fingerprints().find(|(found, _)| *found == policy).map(|(_, fingerprint)| fingerprint.key())
}

/// Until when a key is over its limit. A cost that never fits is no sign for the next request.
fn denial(decision: &Decision) -> Option<Denial> {
    let wait = match decision.retry()? {
        Retry::After(wait) => wait,
        Retry::Unknown => IN_FLIGHT,
        Retry::Never => return None,
    };
    Some(Denial { wait, is_locked_out: decision.is_blocked() })
}

/// How long a key counts as over its limit if it is not known when one of its requests ends.
const IN_FLIGHT: Duration = Duration::from_secs(1);
