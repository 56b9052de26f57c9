//! Finds policies that limit nothing: those that count no request, and those that are tried out for long.
//!
//! There is no task: a request whose decision has passed the time of the next audit makes it. All times are of the store's clock, and begin
//! with the first audit that finds a policy, or its mode.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::{PolicyName, Timestamp};

use super::{Entries, Entry, PolicyTable};
use crate::Mode;

/// Whether a policy has counted a request. Clones are marks of the same policy.
#[derive(Default)]
pub(crate) struct UsageMark {
    /// Where a request reads it: the layer's own copy.
    is_marked: AtomicBool,
    of_policy: Arc<AtomicBool>,
}

/// When to remind of a policy.
pub(super) struct Audits {
    unused_after: u64,
    tried_out_after: u64,
    last: Option<u64>,
}

/// What the audits have found of one policy. Instants are in microseconds.
#[derive(Default)]
pub(super) struct PolicyAudit {
    since: Option<u64>,
    is_unused_told: bool,
    trial: Option<Trial>,
}

/// A policy in shadow, or enforced for a share of its keys.
struct Trial {
    mode: Mode,
    since: u64,
    is_told: bool,
}

/// What an audit has found.
#[derive(Debug, Default)]
pub(crate) struct Reminders {
    found: Vec<Reminder>,
}

#[derive(Debug)]
enum Reminder {
    Unused { policy: PolicyName, layers: usize, after: Duration },
    TriedOut { policy: PolicyName, mode: Mode, after: Duration },
}

impl UsageMark {
    /// Marks the policy. After the first time it is one load.
    #[inline]
    pub(crate) fn mark(&self) {
        if !self.is_marked.load(Relaxed) {
            self.mark_first();
        }
    }

    #[cold]
    fn mark_first(&self) {
        self.is_marked.store(true, Relaxed);
        self.of_policy.store(true, Relaxed);
    }

    fn is_used(&self) -> bool {
        self.of_policy.load(Relaxed)
    }
}

impl Clone for UsageMark {
    fn clone(&self) -> Self {
        let is_marked = AtomicBool::new(self.is_marked.load(Relaxed));
        Self { is_marked, of_policy: Arc::clone(&self.of_policy) }
    }
}

impl PolicyTable {
    /// Whether a decision at this instant has passed the time of the next audit.
    #[inline]
    pub(crate) fn is_audit_due(&self, at: Timestamp) -> bool {
        at.as_micros() >= self.generation.next_audit.load(Relaxed)
    }

    /// Sets when to remind of policies, from the next audit on.
    pub(crate) fn set_audits(&self, unused_after: Duration, tried_out_after: Duration) {
        let mut entries = self.lock();
        entries.audits.unused_after = micros(unused_after);
        entries.audits.tried_out_after = micros(tried_out_after);
        self.audit_soon(&entries);
    }

    /// Lets the next request make an audit, because there is something new.
    pub(crate) fn audit_again(&self) {
        self.audit_soon(&self.lock());
    }

    /// The same under the lock. Audits are at least a second apart, so that policies that come and go cost little.
    pub(super) fn audit_soon(&self, entries: &Entries) {
        let soonest = entries.audits.last.map_or(0, |last| last.saturating_add(MIN_INTERVAL));
        self.generation.next_audit.fetch_min(soonest, Relaxed);
    }

    /// Makes an audit at this instant, unless another request has made it. `trials` are the modes of policies that a layer tries out.
    pub(crate) fn audit(&self, at: Timestamp, trials: &HashMap<PolicyName, Mode>) -> Reminders {
        let (now, mut entries) = (at.as_micros(), self.lock());
        let mut reminders = Reminders::default();
        if !self.is_audit_due(at) {
            return reminders;
        }
        let Entries { policies, audits, .. } = &mut *entries;
        let due = policies.iter_mut().map(|(name, entry)| {
            let unused = entry.audit_usage(name, now, audits.unused_after, &mut reminders);
            let trial = entry.audit_trial(name, now, audits.tried_out_after, trials, &mut reminders);
            unused.min(trial)
        });
        let next = due.min().unwrap_or(u64::MAX).max(now.saturating_add(MIN_INTERVAL));
        audits.last = Some(now);
        self.generation.next_audit.store(next, Relaxed);
        reminders
    }
}

impl Entry {
    /// Returns when to look again.
    fn audit_usage(&mut self, name: &PolicyName, now: u64, after: u64, found: &mut Reminders) -> u64 {
        let due = self.audit.since.get_or_insert(now).saturating_add(after);
        // A policy that is switched off counts no request.
        if self.audit.is_unused_told || self.usage.is_used() || self.mode == Some(Mode::Off) {
            return u64::MAX;
        }
        if now < due {
            return due;
        }
        self.audit.is_unused_told = true;
        let after = Duration::from_micros(after);
        found.found.push(Reminder::Unused { policy: name.clone(), layers: self.layers, after });
        u64::MAX
    }

    /// Returns when to look again.
    fn audit_trial(
        &mut self,
        name: &PolicyName,
        now: u64,
        after: u64,
        trials: &HashMap<PolicyName, Mode>,
        found: &mut Reminders,
    ) -> u64 {
        let mode = self.mode.or_else(|| trials.get(name).copied()).filter(|mode| is_trial(*mode));
        let Some(mode) = mode else {
            self.audit.trial = None;
            return u64::MAX;
        };
        let same = self.audit.trial.take().filter(|trial| trial.mode == mode);
        let trial = self.audit.trial.insert(same.unwrap_or(Trial { mode, since: now, is_told: false }));
        let due = trial.since.saturating_add(after);
        if trial.is_told {
            return u64::MAX;
        }
        if now < due {
            return due;
        }
        trial.is_told = true;
        let after = Duration::from_micros(after);
        found.found.push(Reminder::TriedOut { policy: name.clone(), mode, after });
        u64::MAX
    }
}

impl Reminders {
    /// Logs a line for each policy, up to a number.
    pub(crate) fn log(&self) {
        for reminder in self.found.iter().take(MAX_LINES) {
            tracing::warn!("{reminder}");
        }
        if let more @ 1.. = self.found.len().saturating_sub(MAX_LINES) {
            tracing::warn!(
                more,
                "more policies of the rate limiter limit nothing, or are tried out for long"
            );
        }
    }
}

impl fmt::Display for Reminder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused { policy, layers: 0, after } => write!(
                f,
                "the policy {policy} of the rate limiter is registered since {after:?}, and no layer has it: is a `.layer(..)` missing?"
            ),
            Self::Unused { policy, after, .. } => write!(
                f,
                "the policy {policy} of the rate limiter has counted no request since {after:?}: is its layer on the right routes, \
                 and does it find a key?"
            ),
            Self::TriedOut { policy, mode, after } => write!(
                f,
                "the policy {policy} of the rate limiter is tried out ({mode}) since {after:?}: enforce it, or remove it"
            ),
        }
    }
}

impl Default for Audits {
    fn default() -> Self {
        Self { unused_after: micros(UNUSED_AFTER), tried_out_after: micros(TRIED_OUT_AFTER), last: None }
    }
}

/// Whether some requests pass that the policy would reject.
pub(crate) fn is_trial(mode: Mode) -> bool {
    matches!(mode, Mode::Shadow | Mode::Percent(_))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Long enough for a route that is called rarely, and short enough to be read after a deployment.
const UNUSED_AFTER: Duration = Duration::from_secs(3_600);

/// A figure for two weeks contains each day of the week twice.
const TRIED_OUT_AFTER: Duration = Duration::from_secs(14 * 86_400);

/// Between two audits.
const MIN_INTERVAL: u64 = 1_000_000;

/// Lines of one audit.
const MAX_LINES: usize = 100;
