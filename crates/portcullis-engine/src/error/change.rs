//! Which changes of a policy its states can follow.

use portcullis_core::{Policy, Strategy};

use super::{LayerError, PolicyConflict};

impl PolicyConflict {
    /// Whether a policy can be replaced by another one while it is in use.
    ///
    /// The algorithm has to be the same, because another one has other states. Rate-based algorithms keep their level under any
    /// rate and burst. A window that has another length or start, or other slots, would start anew, and a log would lack
    /// the stamps of a longer period: a policy with another [structure](portcullis_core::store::Structure) has states of its own.
    /// Permits are kept under any limit and lease.
    pub(crate) fn check_change(registered: &Policy, policy: &Policy) -> Result<(), LayerError> {
        let is_followed = match (registered.strategy(), policy.strategy()) {
            (Strategy::TokenBucket(before), Strategy::TokenBucket(after)) => {
                before.refill() == after.refill()
            }
            (Strategy::Gcra(_), Strategy::Gcra(_))
            | (Strategy::LeakyBucket(_), Strategy::LeakyBucket(_))
            | (Strategy::InFlight(_), Strategy::InFlight(_)) => true,
            (Strategy::FixedWindow(before), Strategy::FixedWindow(after)) => {
                (before.period(), before.anchor()) == (after.period(), after.anchor())
            }
            (Strategy::CalendarWindow(before), Strategy::CalendarWindow(after)) => {
                before.table() == after.table()
            }
            (Strategy::SlidingWindow(before), Strategy::SlidingWindow(after)) => {
                (before.period(), before.slots()) == (after.period(), after.slots())
            }
            (Strategy::SlidingLog(before), Strategy::SlidingLog(after)) => before.period() == after.period(),
            _ => false,
        };
        // Calendars of equal windows may have different names.
        let has_same_states = registered.digest() == policy.digest();
        if is_followed && has_same_states {
            Ok(())
        } else {
            Err(LayerError::Incompatible(Self::new(registered, policy)))
        }
    }
}

pub(super) fn refused(conflict: &PolicyConflict) -> String {
    let (name, [before, after]) = (conflict.registered().name(), conflict.described());
    format!(
        "policy {name} cannot change from {before} to {after}, because the states of its keys could not follow: change only the \
         limit or the burst, or use another name"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::{Anchor, FixedWindow, Quota, Refill, SlidingWindow, TokenBucket};

    use super::*;

    fn is_followed(before: &Policy, after: &Policy) -> bool {
        PolicyConflict::check_change(before, after).is_ok()
    }

    #[test]
    fn limits_and_bursts_change_and_window_lengths_do_not() {
        let (few, many, daily) = (Quota::per_hour(5), Quota::per_hour(6), Quota::per_day(6));
        for make in [Policy::fixed_window, Policy::sliding_window, Policy::sliding_log] {
            assert!(is_followed(&make("p", few), &make("p", many)));
            assert!(!is_followed(&make("p", few), &make("p", daily)));
        }
        for make in [Policy::gcra, Policy::token_bucket, Policy::leaky_bucket] {
            assert!(is_followed(&make("p", few), &make("p", many.burst(9))));
            assert!(is_followed(&make("p", few), &make("p", daily)));
        }
    }

    #[test]
    fn other_algorithms_slots_anchors_and_refills_are_refused() {
        let quota = Quota::per(6, Duration::from_mins(6));
        let window = FixedWindow::new(quota).unwrap();
        let bucket = TokenBucket::new(quota).unwrap();
        let strategies = [
            Strategy::FixedWindow(window),
            Strategy::FixedWindow(window.anchored(Anchor::FirstRequest)),
            Strategy::SlidingWindow(SlidingWindow::new(quota).unwrap()),
            Strategy::SlidingWindow(SlidingWindow::with_slots(quota, 6).unwrap()),
            Strategy::TokenBucket(bucket),
            Strategy::TokenBucket(bucket.refilled(Refill::Interval)),
            *Policy::gcra("p", quota).strategy(),
            *Policy::leaky_bucket("p", quota).strategy(),
            *Policy::sliding_log("p", quota).strategy(),
        ];
        for (index, before) in strategies.iter().enumerate() {
            for (other, after) in strategies.iter().enumerate() {
                let policy = |strategy: &Strategy| Policy::literal("p", *strategy);
                assert_eq!(is_followed(&policy(before), &policy(after)), index == other);
            }
        }
    }

    #[test]
    fn the_message_names_both_and_the_fix() {
        let (before, after) =
            (Policy::gcra("p", Quota::per_hour(5)), Policy::sliding_log("p", Quota::per_hour(5)));
        assert_eq!(
            PolicyConflict::check_change(&before, &after).unwrap_err().to_string(),
            "policy p cannot change from gcra 5/h burst 1 to sliding_log 5/h, because the states of its keys could not \
             follow: change only the limit or the burst, or use another name"
        );
    }
}
