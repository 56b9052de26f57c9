//! What the algorithms promise about every window: kept, and reached.

use std::time::Duration;

use portcullis_core::{Anchor, Quota, Retry, State, Timestamp};
use portcullis_testing::oracle::{Admission, Model};
use proptest::prelude::*;

/// One key that asks for `cost` after each of `waits`, and waits as told wherever it is denied.
struct Client {
    model: Model,
    state: Option<State>,
    now: Timestamp,
    log: Vec<Admission>,
}

impl Client {
    fn new(model: Model, start: u64) -> Self {
        Self { model, state: None, now: Timestamp::from_micros(start), log: Vec::new() }
    }

    fn ask(&mut self, cost: u32) -> Option<Retry> {
        let strategy = self.model.strategy().unwrap();
        let transition = strategy.decide(self.state.as_ref(), self.now, cost);
        if transition.admitted {
            self.state = transition.after;
            self.log.push(Admission { at: self.now, cost });
        }
        strategy.report(self.state.as_ref(), self.now, cost, transition.admitted).retry
    }

    fn wait(&mut self, micros: u64) {
        self.now = self.now.saturating_add(Duration::from_micros(micros));
    }

    /// Takes whatever it can get, as early as it can, until so many microseconds have passed.
    fn greedy(&mut self, cost: u32, micros: u64) {
        let end = self.now.saturating_add(Duration::from_micros(micros));
        while self.now <= end {
            if let Some(Retry::After(wait)) = self.ask(cost) {
                assert!(!wait.is_zero());
                self.now = self.now.saturating_add(wait);
            }
        }
    }
}

fn per(limit: u32, micros: u64) -> Quota {
    Quota::new(limit, Duration::from_micros(micros)).unwrap()
}

#[test]
fn gcra_keeps_its_promise_and_reaches_it() {
    for (quota, burst, cost) in [
        (per(10, 1_000_000), 5, 1),
        // Alone, thirds of a second lose to the whole microseconds of the clock; a second unit of burst makes up for it.
        (per(4, 1_000_000), 1, 1),
        (per(3, 1_000_000), 2, 1),
        (per(3, 1_000_000), 7, 1),
        (per(30_000, 1_000_000), 10, 1),
        (per(10_000_000, 1_000_000), 1_000_000, 100_000),
        (per(1, 30 * 86_400_000_000), 2, 1),
    ] {
        let model = Model::gcra(quota.burst(burst));
        let mut client = Client::new(model, 1_767_225_600_000_000);
        let period = u64::try_from(quota.period().as_micros()).unwrap();
        client.greedy(cost, 3 * period);
        let reached = model.promise(&client.log).unwrap();
        assert_eq!(reached.ahead, u64::from(burst), "{quota}");
        assert_eq!(reached.in_period, u64::from(burst) + u64::from(quota.limit()), "{quota}");
    }
}

#[test]
fn the_fixed_window_keeps_its_promise_and_reaches_it() {
    for anchor in [Anchor::Epoch, Anchor::Instant(Timestamp::from_micros(123_456_789)), Anchor::FirstRequest]
    {
        let model = Model::fixed_window(per(5, 10_000_000), anchor);
        let mut client = Client::new(model, 1_767_225_600_000_000);
        // A key's own window has to be opened first; the others are used at their very end.
        client.ask(1);
        let strategy = model.strategy().unwrap();
        let ends_after = strategy.report(client.state.as_ref(), client.now, 0, true).reset_after;
        client.wait(u64::try_from(ends_after.as_micros()).unwrap() - 1);
        client.greedy(1, 10_000_000);
        let reached = model.promise(&client.log).unwrap();
        assert_eq!((reached.ahead, reached.in_period), (5, 10));
    }
}

#[test]
fn the_checker_sees_one_unit_too_many() {
    let model = Model::gcra(per(3, 1_000_000).burst(3));
    let admit = |micros, cost| Admission { at: Timestamp::from_micros(micros), cost };
    assert!(model.promise(&[admit(0, 3), admit(333_334, 1), admit(666_667, 1), admit(1_000_000, 1)]).is_ok());
    assert!(model.promise(&[admit(0, 3), admit(333_333, 1)]).is_err());
    assert!(model.promise(&[admit(0, 3), admit(333_334, 1), admit(666_666, 1)]).is_err());
    assert!(model.promise(&[admit(0, 1), admit(5, 4)]).is_err());

    let model = Model::fixed_window(per(2, 10), Anchor::Instant(Timestamp::from_micros(3)));
    assert!(model.promise(&[admit(12, 2), admit(13, 2), admit(23, 1)]).is_ok());
    assert!(model.promise(&[admit(13, 1), admit(22, 2)]).is_err());
    // Windows that no one would have made: the limit holds in each, but three meet in one period.
    let model = Model::fixed_window(per(2, 10), Anchor::FirstRequest);
    assert!(model.promise(&[admit(0, 2), admit(10, 2)]).is_ok());
    assert!(model.promise(&[admit(0, 2), admit(9, 1)]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn promises_hold_for_every_client(
        limit in 1_u32..50,
        burst in 1_u32..50,
        period in 1_u64..10_000_000,
        anchor in prop_oneof![
            Just(None),
            Just(Some(Anchor::Epoch)),
            Just(Some(Anchor::FirstRequest)),
            (0_u64..1 << 50).prop_map(|at| Some(Anchor::Instant(Timestamp::from_micros(at)))),
        ],
        asks in proptest::collection::vec((0_u32..20, 0_u64..2_000, any::<bool>()), 1..200),
    ) {
        let quota = per(limit, period);
        let model = match anchor {
            None => Model::gcra(quota.burst(burst)),
            Some(anchor) => Model::fixed_window(quota, anchor),
        };
        let mut client = Client::new(model, 1_767_225_600_000_000);
        for (cost, thousandths, patient) in asks {
            client.wait(period * thousandths / 1_000 / u64::from(limit));
            let denied = client.ask(cost);
            if let Some(Retry::After(wait)) = denied && patient {
                client.wait(u64::try_from(wait.as_micros()).unwrap());
                prop_assert_eq!(client.ask(cost), None);
            }
        }
        prop_assert!(model.promise(&client.log).is_ok());
    }

    #[test]
    fn a_client_that_keeps_its_distance_is_never_denied(
        limit in 1_u32..1_000,
        period in 1_u64..10_000_000,
        gaps in proptest::collection::vec(0_u64..3, 1..300),
        windows: bool,
    ) {
        let quota = per(limit, period);
        let model = if windows { Model::fixed_window(quota, Anchor::Epoch) } else { Model::gcra(quota) };
        let mut client = Client::new(model, 1_767_225_600_000_000);
        for gap in gaps {
            prop_assert_eq!(client.ask(1), None);
            client.wait(period.div_ceil(u64::from(limit)) + gap);
        }
    }
}
