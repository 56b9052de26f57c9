//! The limits of Envoy's files, for those who operate the service.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use portcullis::Policy;
use portcullis::rules::envoy::Limit;
use portcullis_engine::{Mode, PoliciesInUse};
use portcullis_log::file_log::LimitTexts;

/// The limits that were registered last, with the failure mode of the service.
#[derive(Debug, Default)]
pub(crate) struct LimitsInUse {
    policies: ArcSwap<Vec<(Policy, Mode)>>,
    /// The limits as they were logged; `None` before the first.
    logged: Mutex<Option<LimitTexts>>,
}

impl LimitsInUse {
    /// Replaces the limits, and logs each in one line, or each that differs from those before, up to a number of lines. `with_mode` adds the failure mode of the service to a policy.
    pub(crate) fn replace(&self, limits: &[Limit], shadow: bool, with_mode: impl Fn(&Policy) -> Policy) {
        let mode_of =
            |limit: &Limit| if shadow || limit.shadow_mode() { Mode::Shadow } else { Mode::Enforce };
        let with_state =
            limits.iter().filter_map(|limit| Some((with_mode(limit.policy().ok()?), mode_of(limit))));
        self.policies.store(Arc::new(with_state.collect()));
        let text = |limit: &Limit| match limit.policy() {
            Ok(policy) => {
                let (name, strategy, mode) = (policy.name(), policy.strategy(), mode_of(limit));
                let failure = with_mode(policy).failure_mode();
                format!("{name}: {strategy}, {mode}, if the store fails: {failure}")
            }
            Err(none) => none.to_string(),
        };
        let whole = |limit: &Limit| {
            let quota_mode = if limit.quota_mode() { ", quota mode" } else { "" };
            (limit.key().to_string(), text(limit) + quota_mode)
        };
        let texts: LimitTexts = limits.iter().map(whole).collect();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &*logged {
            texts.log_changes(before, "a limit of Envoy's files");
            *logged = Some(texts);
            return;
        }
        *logged = Some(texts);
        for limit in limits.iter().take(MAX_LINES) {
            let (applies_to, policy) = (limit.key(), text(limit));
            let quota_mode = limit.quota_mode().then_some(true);
            tracing::info!(applies_to, policy, quota_mode, "a limit of Envoy's files limits requests");
        }
        if let more @ 1.. = limits.len().saturating_sub(MAX_LINES) {
            tracing::info!(more, "more limits of Envoy's files limit requests: they are not logged");
        }
    }
}

impl PoliciesInUse for LimitsInUse {
    fn visit(&self, visit: &mut dyn FnMut(&Policy, Mode, Option<&str>)) {
        for (policy, mode) in self.policies.load().iter() {
            visit(policy, *mode, None);
        }
    }
}

/// As many as for native rules.
const MAX_LINES: usize = 100;
