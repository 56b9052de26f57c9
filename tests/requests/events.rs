//! What observers see, as texts.

use std::sync::{Arc, Mutex, PoisonError};

use portcullis::event::{Event, EventKind};
use portcullis::{Decision, Limiter};

/// The events of a limiter since they were taken last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    /// Observes a limiter.
    pub(crate) fn of(limiter: Limiter) -> (Limiter, Self) {
        let events = Self::default();
        let seen = events.clone();
        let limiter = limiter.observe(move |event: &Event<'_>| {
            seen.0.lock().unwrap_or_else(PoisonError::into_inner).extend(text(&event.kind));
        });
        (limiter, events)
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name of the event, and the policies that it is about.
fn text(kind: &EventKind<'_>) -> Option<String> {
    let debug = format!("{kind:?}");
    let name = debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let of = |decisions: &[Decision]| {
        let names: Vec<_> = decisions.iter().map(|decision| decision.policy().as_str()).collect();
        names.join(" ")
    };
    Some(
        match kind {
            // The rules of a file are installed when the timeline begins.
            EventKind::RulesReloaded { .. } => return None,
            EventKind::Admitted { decisions } => format!("{name} {}", of(decisions)),
            EventKind::Rejected { reason, decisions } => format!("{name} {reason:?} {}", of(decisions)),
            EventKind::SoftLimitReached { decision }
            | EventKind::ShadowWouldReject { decision }
            | EventKind::Charged { decision, .. }
            | EventKind::Refunded { decision, .. }
            | EventKind::PermitReleased { decision } => format!("{name} {}", decision.policy()),
            EventKind::Exempt { policy }
            | EventKind::IdentityMissing { policy, .. }
            | EventKind::Waited { policy, .. }
            | EventKind::DebtExceeded { policy, .. }
            | EventKind::LockedOut { policy, .. } => format!("{name} {policy}"),
            _ => name.to_owned(),
        }
        .trim_end()
        .to_owned(),
    )
}
