//! The closed lists of texts in labels.

use portcullis_core::{Decision, Retry, StoreError, StoreErrorKind};
use portcullis_tower::{Class, Reason, SettlementLoss};

/// A closed list of texts, which are the values of one label.
pub(crate) trait Labels: Copy {
    /// The name of the label.
    const LABEL: &'static str;
    const TEXTS: &'static [&'static str];
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident in $label:literal { $($variant:ident = $text:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),+ }

        impl Labels for $name {
            const LABEL: &'static str = $label;
            const TEXTS: &'static [&'static str] = &[$($text),+];

            #[inline]
            fn index(self) -> usize {
                self as usize
            }
        }
    )+};
}

labels! {
    /// Of a metric that has the policy alone.
    Unlabelled in "" { One = "" }

    /// How a request to a layer, or a check of a handler, ends.
    RequestOutcome in "outcome" {
        Admitted = "admitted",
        Limited = "limited",
        Blocked = "blocked",
        Unsettled = "unsettled",
        NeverFits = "never_fits",
        Denied = "denied",
        BadIdentity = "bad_identity",
        Unauthenticated = "unauthenticated",
        StoreFailed = "store_failed",
        Overloaded = "overloaded",
        LookupFailed = "lookup_failed",
        Shed = "shed",
        Misconfigured = "misconfigured",
        Other = "other",
    }

    /// The decision of one policy about a request.
    DecisionOutcome in "outcome" {
        Allowed = "allowed",
        Denied = "denied",
        Blocked = "blocked",
        NeverFits = "never_fits",
        FallbackAllowed = "fallback_allowed",
        FallbackDenied = "fallback_denied",
        Unmetered = "unmetered",
    }

    /// Why a shadow policy would have rejected a request.
    WouldReject in "cause" { Limited = "limited", Unidentified = "unidentified" }

    /// Why a policy did not find the key or the quota of a request as it should.
    IdentityError in "error" {
        Missing = "missing",
        Malformed = "malformed",
        LookupFailed = "lookup_failed",
        QuotaLookupFailed = "quota_lookup_failed",
        QuotaRefused = "quota_refused",
    }

    /// What happens to a permit of a request in flight.
    Permit in "event" { Acquired = "acquired", Released = "released", Lapsed = "lapsed" }

    /// What an operator should look at.
    Warning in "warning" {
        OpenForExpired = "open_for_expired",
        TooManyUnsettled = "too_many_unsettled",
        OutcomePanicked = "outcome_panicked",
        ChargedTwice = "charged_twice",
        UpgradeReleased = "upgrade_released",
        UsageLost = "usage_lost",
        OutgoingClosed = "outgoing_closed",
        OutgoingHintIgnored = "outgoing_hint_ignored",
        OutgoingNotShared = "outgoing_not_shared",
    }

    /// Why a settlement is given up.
    Loss in "cause" {
        Unknown = "unknown",
        Refused = "refused",
        GivenUp = "given_up",
        QueueFull = "queue_full",
        NoRuntime = "no_runtime",
        Other = "other",
    }

    /// Why a store has not answered. The texts are those of the kinds of errors.
    StoreFailure in "kind" {
        Unavailable = "unavailable",
        TimedOut = "timed_out",
        Overloaded = "overloaded",
        Overtaken = "overtaken",
        Forbidden = "forbidden",
        Unsupported = "unsupported",
        Failed = "failed",
        Other = "other",
    }

    /// Whether a call to the server of the store was answered.
    CallEnd in "outcome" { Answered = "answered", Failed = "failed" }

    /// What is overloaded.
    Overload in "cause" { Store = "store", Waiting = "waiting", NotReady = "not_ready" }

    /// How important a request is that finds the service overloaded.
    ShedClass in "class" { Background = "background", Default = "default", Critical = "critical" }

    /// A correction that is not made.
    Dropped in "correction" { Refund = "refund", Charge = "charge" }

    /// Whether new rules apply.
    Reload in "outcome" { Applied = "applied", Rejected = "rejected" }
}

/// Labels a value of another crate by the variant that has its name.
macro_rules! same_names {
    ($from:ident => $label:ident { $($variant:ident),+ $(,)? } $(else $other:ident)?) => {
        impl From<$from> for $label {
            fn from(value: $from) -> Self {
                match value {
                    $($from::$variant => Self::$variant,)+
                    $(_ => Self::$other,)?
                }
            }
        }
    };
}

same_names!(Reason => RequestOutcome {
    Limited, Blocked, Unsettled, NeverFits, Denied, BadIdentity, Unauthenticated, StoreFailed,
    Overloaded, LookupFailed, Shed, Misconfigured,
} else Other);
same_names!(Class => ShedClass { Background, Default, Critical });
same_names!(SettlementLoss => Loss { Unknown, Refused, GivenUp, QueueFull, NoRuntime } else Other);

impl DecisionOutcome {
    /// `None` for a policy that was not evaluated, because another one had denied the request, or limits are off.
    #[inline]
    pub(crate) fn of(decision: &Decision) -> Option<Self> {
        let is_degraded = decision.is_degraded();
        if !decision.is_metered() {
            return is_degraded.then_some(Self::Unmetered);
        }
        Some(match decision.retry() {
            None if is_degraded => Self::FallbackAllowed,
            None => Self::Allowed,
            Some(_) if decision.is_blocked() => Self::Blocked,
            Some(Retry::Never) => Self::NeverFits,
            Some(_) if is_degraded => Self::FallbackDenied,
            Some(_) => Self::Denied,
        })
    }
}

impl From<&StoreError> for StoreFailure {
    fn from(error: &StoreError) -> Self {
        Self::of(error.kind().as_str())
    }
}

impl StoreFailure {
    /// The kind with this text. Stores of third parties may have others.
    pub(crate) fn of(text: &str) -> Self {
        const KINDS: [(StoreErrorKind, StoreFailure); 7] = [
            (StoreErrorKind::Unavailable, StoreFailure::Unavailable),
            (StoreErrorKind::TimedOut, StoreFailure::TimedOut),
            (StoreErrorKind::Overloaded, StoreFailure::Overloaded),
            (StoreErrorKind::Overtaken, StoreFailure::Overtaken),
            (StoreErrorKind::Forbidden, StoreFailure::Forbidden),
            (StoreErrorKind::Unsupported, StoreFailure::Unsupported),
            (StoreErrorKind::Failed, StoreFailure::Failed),
        ];
        KINDS.iter().find(|(kind, _)| kind.as_str() == text).map_or(Self::Other, |(_, failure)| *failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_errors_have_their_own_texts() {
        for text in StoreFailure::TEXTS {
            assert_eq!(StoreFailure::TEXTS[StoreFailure::of(text).index()], *text);
        }
        assert_eq!(StoreFailure::of("something else"), StoreFailure::Other);
    }
}
