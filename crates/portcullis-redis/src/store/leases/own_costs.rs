//! What a standby decides while a call asks for leases.

use std::sync::Arc;

use portcullis_core::store::{Check, Checks, Outcome, Standby};
use portcullis_core::{Receipt, StoreError};

use super::super::answers::together;

/// A standby for checks that include units for leases. It decides them without these units: they are charged at the store or not
/// at all. So if a part of the store fails, the answers of the others stand, as for a decision without leases.
pub(super) struct OwnCosts {
    standby: Arc<dyn Standby>,
    /// The checks of the request.
    own: Checks,
}

impl Standby for OwnCosts {
    fn record(&self, answer: &Outcome) {
        self.standby.record(answer);
    }

    fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError> {
        // At the cost of the request; a peek stays a peek.
        let own = checks.iter().map(|check| {
            let is_same = |own: &&Check| own.key == check.key && own.policy.name() == check.policy.name();
            let cost = self.own.iter().find(is_same).map_or(check.cost, |own| own.cost.min(check.cost));
            Check { cost, ..check.clone() }
        });
        self.standby.decide(together(own).expect("a decision has a check"), failure)
    }

    fn refund(&self, receipt: Receipt) {
        self.standby.refund(receipt);
    }
}

impl OwnCosts {
    pub(super) fn of(standby: Arc<dyn Standby>, own: Checks) -> Arc<dyn Standby> {
        Arc::new(Self { standby, own })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Mutex;

    use portcullis_core::{Policy, Quota, StoreErrorKind, Timestamp};

    use super::*;
    use crate::store::tests::key;

    const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(1_000)).lease(100);

    /// Admits everything, and keeps the costs.
    #[derive(Default)]
    struct Admits(Mutex<Vec<u64>>);

    impl Standby for Admits {
        fn record(&self, _: &Outcome) {}

        fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError> {
            self.0.lock().unwrap().extend(checks.iter().map(|check| check.cost));
            Ok(Outcome::from_fallback(checks, None, Timestamp::EPOCH, failure, NonZeroU64::MIN))
        }

        fn refund(&self, _: Receipt) {}
    }

    #[test]
    fn standby_charges_no_units_for_a_lease() {
        let admits = Arc::new(Admits::default());
        let (ada, grace) = (key(&["ada"]), key(&["grace"]));
        let both = |cost, other| Checks::one(HOURLY, ada, cost).and(HOURLY, grace, other).unwrap();
        let own_costs = OwnCosts { standby: Arc::<Admits>::clone(&admits), own: both(1, 2) };
        let failure = || StoreError::new(StoreErrorKind::Unavailable, "no connection");
        for asked in [both(51, 2), Checks::one(HOURLY, grace, 52), both(0, 0)] {
            assert!(own_costs.decide(asked, failure()).unwrap().is_allowed());
        }
        assert_eq!(*admits.0.lock().unwrap(), [1, 2, 2, 0, 0]);
    }
}
