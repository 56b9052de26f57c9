//! Audit events: the actor and the outcome of each change.

use portcullis_core::PolicyName;
use portcullis_log::codes;
use tracing::{info, warn};

use crate::access::Actor;

/// An event of a change, which is written once it is known how the change has ended. If its request is abandoned meanwhile, the event
/// states that this is not known.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) actor: Actor,
    pub(crate) action: &'static str,
    /// `None` for a change under all policies.
    pub(crate) policy: Option<PolicyName>,
    /// The fingerprint of the key, if the change is about one; `withheld` where answers withhold it.
    pub(crate) fingerprint: Option<String>,
    /// What was set, such as a quota.
    pub(crate) detail: String,
    is_written: bool,
}

/// How a change has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    Done,
    Failed,
    Unknown,
}

impl Audit {
    pub(crate) fn new(actor: Actor, action: &'static str, policy: Option<&PolicyName>) -> Self {
        Self {
            actor,
            action,
            policy: policy.cloned(),
            fingerprint: None,
            detail: String::new(),
            is_written: false,
        }
    }

    pub(crate) fn ended(mut self, ended: Ended) {
        self.write(ended);
    }

    fn write(&mut self, ended: Ended) {
        self.is_written = true;
        let Self { actor, action, policy, fingerprint, detail, .. } = self;
        // As a text, which subscribers quote: a name cannot look like another field.
        let (actor, fingerprint) = (actor.name(), fingerprint.as_deref());
        let policy = policy.as_ref().map(tracing::field::display);
        match ended {
            Ended::Done => {
                info!(target: TARGET, actor, action, policy, fingerprint, detail, outcome = "done", "a limit was changed");
            }
            Ended::Failed => {
                warn!(
                    target: TARGET,
                    code = %codes::LIMIT_NOT_CHANGED,
                    actor, action, policy, fingerprint, detail, outcome = "failed",
                    "a limit was not changed"
                );
            }
            Ended::Unknown => {
                warn!(
                    target: TARGET,
                    code = %codes::LIMIT_CHANGE_UNKNOWN,
                    actor, action, policy, fingerprint, detail, outcome = "unknown",
                    "a limit may have been changed"
                );
            }
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        if !self.is_written {
            self.write(Ended::Unknown);
        }
    }
}

/// The target of the events in `tracing`.
pub(crate) const TARGET: &str = "portcullis::audit";
