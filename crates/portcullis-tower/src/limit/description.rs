//! What a limit does beside its quota and its key, for people.

use std::borrow::Cow;
use std::fmt;

use portcullis_core::overrides::LockOut;

use super::Limit;
use super::quota::QuotaSource;
use crate::{OnAbort, OnMissing};
use portcullis_engine::HeldUntil;

/// What functions do that only those know who have written them, such as the reader of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionTexts {
    pub(super) cost: Option<Box<str>>,
    charged: Option<Box<str>>,
    quotas: Option<Box<str>>,
}

impl Limit {
    /// Says what the cost is, such as `5`.
    #[doc(hidden)]
    pub fn describe_cost(mut self, text: &str) -> Self {
        self.texts.cost = Some(text.into());
        self
    }

    /// Says which responses are charged, such as `status 401`.
    #[doc(hidden)]
    pub fn describe_charged(mut self, text: &str) -> Self {
        self.texts.charged = Some(text.into());
        self
    }

    /// Says which quotas callers have, such as `tiers pro 100/s`.
    #[doc(hidden)]
    pub fn describe_quotas(mut self, text: &str) -> Self {
        self.texts.quotas = Some(text.into());
        self
    }

    /// What is set beside the algorithm, the key, the mode and the failure mode, each in some words.
    #[doc(hidden)]
    pub fn options(&self) -> Vec<Cow<'_, str>> {
        let FunctionTexts { cost, charged, quotas } = &self.texts;
        let mut options: Vec<Cow<'_, str>> = Vec::new();
        let mut add = |text: Cow<'static, str>| options.push(text);
        let by_request =
            |text: &Option<Box<str>>, otherwise: &str| text.as_deref().unwrap_or(otherwise).to_owned();
        match (self.reservation, &self.cost) {
            (Some(on_abort), _) => {
                let ended = match on_abort {
                    OnAbort::Nothing => "nothing",
                    OnAbort::Reservation => "what is reserved",
                    _ => "what was counted",
                };
                let cost = by_request(cost, "by the request");
                add(format!("reserves {cost}, and charges {ended} if the response is cut off").into());
                #[cfg(feature = "usage")]
                if let Some(reader) = &self.usage {
                    add(format!("reads the usage of responses at {reader}").into());
                }
            }
            (None, Some(_)) => add(format!("costs {}", by_request(cost, "by the request")).into()),
            (None, None) => {}
        }
        if let Some(rule) = &self.outcome {
            if rule.charge_when.is_some() {
                add(format!("charges {}", by_request(charged, "responses by a function")).into());
            }
            match (rule.charges_after, rule.max_unsettled) {
                (true, Some(most)) => {
                    add(format!("charges after the response, and lets {most} of a key be without one").into());
                }
                (true, None) => add("charges after the response".into()),
                _ => {}
            }
            if rule.refunds_unanswered {
                add("refunds requests without a response".into());
            }
        }
        match &self.quota {
            Some(QuotaSource::Function(_)) => {
                add(by_request(quotas, "quotas of callers by the request").into());
            }
            Some(QuotaSource::LookUp(_)) => add("quotas of callers by a look-up".into()),
            None => {}
        }
        if let Some(lock_out) = self.rule_of_lock_out() {
            add(LockOutText(&lock_out).to_string().into());
        }
        for text in self.policy.settings_texts() {
            add(text.into());
        }
        match self.on_missing {
            OnMissing::Shared => add("requests without an identity share one budget".into()),
            OnMissing::Exempt => add("requests without an identity are exempt".into()),
            _ => {}
        }
        if self.counts_rejections {
            add("counts rejected requests".into());
        }
        if self.held_until == HeldUntil::Headers {
            add("released at the headers".into());
        }
        if self.is_report {
            add("calls report usage".into());
        }
        if let Some(fraction) = self.warn_at {
            add(format!("warns at {fraction} of the limit").into());
        }
        if self.is_hidden {
            add("not in headers".into());
        }
        options
    }

    /// The lock-out of all layers, or the one that is declared.
    fn rule_of_lock_out(&self) -> Option<LockOut> {
        self.shared_lock_out.as_ref().map(|shared| *shared.rule()).or(self.lock_out)
    }
}

struct LockOutText<'a>(&'a LockOut);

impl fmt::Display for LockOutText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockOutText(rule) = self;
        let (denials, within, first) = (rule.denials(), rule.within_time(), rule.length());
        write!(f, "locks out for {first:?} after {denials} rejections within {within:?}")?;
        if rule.longest() > first { write!(f, ", then for up to {:?}", rule.longest()) } else { Ok(()) }
    }
}
