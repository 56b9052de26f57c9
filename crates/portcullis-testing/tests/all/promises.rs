//! The promises of the algorithms about every window hold and are tight.

use std::time::Duration;

use portcullis_core::algorithm::{Snapshot, State};
use portcullis_core::{Anchor, Quota, Refill, Retry, Timestamp};
use portcullis_testing::calendars;
use portcullis_testing::oracle::{Admission, Model};
use proptest::prelude::*;

/// A client with one key and its own clock, which logs what is admitted.
struct Client {
    model: Model,
    state: Option<State>,
    now: Timestamp,
    log: Vec<Admission>,
    /// The admitted requests, each at its instant of release.
    released: Vec<Admission>,
}

impl Client {
    fn new(model: Model, start: u64) -> Self {
        let now = Timestamp::from_micros(start);
        Self { model, state: None, now, log: Vec::new(), released: Vec::new() }
    }

    fn ask(&mut self, cost: u64) -> Option<Retry> {
        let strategy = self.model.strategy().unwrap();
        let transition = strategy.decide(self.state.as_ref(), self.now, cost);
        if transition.admitted {
            self.state = transition.after;
        }
        let snapshot = strategy.snapshot(self.state.as_ref(), self.now, cost, transition.admitted);
        if transition.admitted {
            self.log.push(Admission { at: self.now, cost });
            self.released.push(Admission { at: self.now.saturating_add(snapshot.delay), cost });
        }
        snapshot.retry
    }

    fn peek(&self) -> Snapshot {
        self.model.strategy().unwrap().snapshot(self.state.as_ref(), self.now, 0, true)
    }

    fn wait(&mut self, micros: u64) {
        self.now = self.now.saturating_add(Duration::from_micros(micros));
    }

    /// Takes all available units, each as early as possible, until `micros` microseconds have passed.
    fn greedy(&mut self, cost: u64, micros: u64) {
        let end = self.now.saturating_add(Duration::from_micros(micros));
        while self.now <= end {
            if let Some(Retry::After(wait)) = self.ask(cost) {
                assert!(!wait.is_zero());
                self.now = self.now.saturating_add(wait);
            }
        }
    }
}

pub(crate) fn per(limit: u64, micros: u64) -> Quota {
    Quota::new(limit, Duration::from_micros(micros), None).unwrap()
}

/// The start of a minute, at which slots and refills begin.
pub(crate) const START: u64 = 1_767_225_600_000_000;
const MONTH: u64 = 30 * 86_400_000_000;

#[test]
fn rate_based_promises_hold_and_are_tight() {
    for (quota, burst, cost) in [
        (per(10, 1_000_000), 5, 1),
        // With a burst of 1, thirds of a second lose time to rounding to whole microseconds. A burst of 2 compensates.
        (per(4, 1_000_000), 1, 1),
        (per(3, 1_000_000), 2, 1),
        (per(3, 1_000_000), 7, 1),
        (per(30_000, 1_000_000), 10, 1),
        (per(10_000_000, 1_000_000), 1_000_000, 100_000),
        (per(1, MONTH), 2, 1),
    ] {
        let quota = quota.burst(burst);
        for model in
            [Model::gcra(quota), Model::token_bucket(quota, Refill::Greedy), Model::leaky_bucket(quota)]
        {
            let mut client = Client::new(model, START);
            let period = u64::try_from(quota.period().as_micros()).unwrap();
            client.greedy(cost, 3 * period);
            let peaks = model.promise(&client.log).unwrap();
            assert_eq!(peaks.ahead, burst, "{quota}");
            assert_eq!(peaks.in_period, burst + quota.limit(), "{quota}");
        }
    }
}

/// With a longest wait the decisions run ahead of the burst, and the requests do not.
#[test]
fn requests_that_waited_proceed_within_the_promise() {
    let quota = per(3, 1_000_000).burst(4);
    for model in [
        Model::gcra(quota),
        Model::token_bucket(quota, Refill::Greedy),
        Model::token_bucket(quota, Refill::Interval),
    ] {
        let mut client = Client::new(model.wait_at_most(Duration::from_secs(2)), START + 7);
        client.greedy(1, 5_000_000);
        assert!(model.promise(&client.log).is_err(), "the decisions are earlier");
        assert_eq!(model.promise(&client.released).unwrap().ahead, 4);
        assert!(client.released.is_sorted_by_key(|request| request.at), "in the order of the decisions");
    }
    let quota = per(3, 1_000_000);
    let mut client = Client::new(Model::leaky_bucket(quota).wait_at_most(Duration::from_secs(2)), START);
    client.greedy(1, 5_000_000);
    Model::leaky_bucket(quota).outflow(&client.released).unwrap();
    let longest = client
        .log
        .iter()
        .zip(&client.released)
        .map(|(log, released)| released.at.saturating_since(log.at))
        .max();
    assert_eq!(longest, Some(Duration::from_secs(2)));
}

/// A refill that is larger than the bucket adds only what fits.
#[test]
fn interval_refill_promise_holds_and_is_tight() {
    for (limit, burst, in_period) in [(5, 5, 10), (5, 12, 17), (5, 3, 6), (1, 1, 2)] {
        let model = Model::token_bucket(per(limit, 1_000_000).burst(burst), Refill::Interval);
        let mut client = Client::new(model, START - 1);
        client.greedy(1, 3_000_000);
        let peaks = model.promise(&client.log).unwrap();
        assert_eq!((peaks.ahead, peaks.in_period), (burst, in_period));
        // All of it within a microsecond, around a refill.
        let around: u64 = client.log.iter().filter(|at| at.at.as_micros() <= START).map(|at| at.cost).sum();
        assert_eq!(around, in_period);
    }
}

#[test]
fn calendar_window_promise_holds_and_is_tight() {
    for table in calendars() {
        let model = Model::calendar_window(5, table).unwrap();
        let mut client = Client::new(model, START);
        client.ask(1);
        let ends_after = u64::try_from(client.peek().reset_after.as_micros()).unwrap();
        client.wait(ends_after - 1);
        client.greedy(1, 4 * MONTH);
        let peaks = model.promise(&client.log).unwrap();
        assert_eq!((peaks.ahead, peaks.in_period), (5, 10), "{table:?}");
    }
}

#[test]
fn fixed_window_promise_holds_and_is_tight() {
    for anchor in [Anchor::Epoch, Anchor::Instant(Timestamp::from_micros(123_456_789)), Anchor::FirstRequest]
    {
        let model = Model::fixed_window(per(5, 10_000_000), anchor);
        let mut client = Client::new(model, START);
        // A window per key begins with a request. Each window is used at its very end.
        client.ask(1);
        let ends_after = client.peek().reset_after;
        client.wait(u64::try_from(ends_after.as_micros()).unwrap() - 1);
        client.greedy(1, 10_000_000);
        let peaks = model.promise(&client.log).unwrap();
        assert_eq!((peaks.ahead, peaks.in_period), (5, 10));
    }
}

#[test]
fn sliding_window_promise_holds_and_is_tight() {
    for slots in [1, 2, 6, 60] {
        let (limit, period) = (5, 60_000_000);
        let width = period / u64::from(slots);
        let model = Model::sliding_window(per(limit, period), slots);
        let mut client = Client::new(model, START - 1);
        client.greedy(1, period);
        let peaks = model.promise(&client.log).unwrap();
        assert_eq!((peaks.ahead, peaks.in_period), (5, 10), "{slots}");
        // The first unit beyond the limit comes as early as possible: two microseconds after the span of the promise.
        let sixth = client.log.iter().filter(|admission| admission.cost > 0).nth(5).unwrap();
        assert_eq!(sixth.at.as_micros() - (START - 1), (u64::from(slots) - 1) * width + 2);
    }
}

#[test]
fn sliding_log_promise_holds_and_is_tight() {
    for (limit, period) in [(5, 60_000_000), (1, 1), (2_000, 1_000_000), (1, MONTH)] {
        let model = Model::sliding_log(per(limit, period));
        let mut client = Client::new(model, START + 17);
        client.greedy(limit, 3 * period);
        let peaks = model.promise(&client.log).unwrap();
        // At t and at t + period, not a microsecond earlier.
        assert_eq!((peaks.ahead, peaks.in_period), (limit, 2 * limit));
    }
}

/// A queue that is never empty releases units at the rate. Each instant is rounded up to a microsecond, and the rounding does
/// not accumulate.
#[test]
fn leaky_bucket_outflow_is_constant() {
    for (limit, period, burst) in
        [(10, 1_000_000, 5), (3, 1_000_000, 7), (30_000, 1_000_000, 10), (7, 1_000, 2), (1, MONTH, 3)]
    {
        let model = Model::leaky_bucket(per(limit, period).burst(burst));
        let mut client = Client::new(model, START);
        client.greedy(1, 3 * period);
        assert!(client.released.len() >= usize::try_from(3 * limit).unwrap());
        for (turn, released) in (0_u64..).zip(&client.released) {
            assert_eq!(released.at.as_micros(), START + (turn * period).div_ceil(limit));
        }
        model.outflow(&client.released).unwrap();
        assert!(model.outflow(&client.log).is_err(), "without the delays the outflow is not constant");
    }
}

#[test]
fn promise_reports_one_unit_too_many() {
    let admit = |micros, cost| Admission { at: Timestamp::from_micros(micros), cost };
    let model = Model::gcra(per(3, 1_000_000).burst(3));
    assert!(model.promise(&[admit(0, 3), admit(333_334, 1), admit(666_667, 1), admit(1_000_000, 1)]).is_ok());
    assert!(model.promise(&[admit(0, 3), admit(333_333, 1)]).is_err());
    assert!(model.promise(&[admit(0, 3), admit(333_334, 1), admit(666_666, 1)]).is_err());
    assert!(model.promise(&[admit(0, 1), admit(5, 4)]).is_err());

    let model = Model::token_bucket(per(2, 10).burst(3), Refill::Interval);
    assert!(model.promise(&[admit(9, 3), admit(10, 2), admit(20, 2)]).is_ok());
    assert!(model.promise(&[admit(9, 3), admit(10, 3)]).is_err());
    assert!(model.promise(&[admit(10, 3), admit(19, 1)]).is_err());
    let model = Model::token_bucket(per(9, 10).burst(3), Refill::Interval);
    assert!(model.promise(&[admit(9, 3), admit(10, 4)]).is_err());

    let model = Model::leaky_bucket(per(3, 1_000_000).burst(2));
    assert!(model.outflow(&[admit(5, 1), admit(333_339, 1), admit(666_672, 1), admit(1_000_005, 1)]).is_ok());
    assert!(model.outflow(&[admit(5, 1), admit(333_337, 1)]).is_err());
    assert!(model.outflow(&[admit(5, 2), admit(666_671, 1)]).is_ok());
    assert!(model.outflow(&[admit(5, 2), admit(600_000, 1)]).is_err());
    assert!(model.outflow(&[admit(2_000_000, 1), admit(5, 1)]).is_err(), "first come, first served");

    let model = Model::fixed_window(per(2, 10), Anchor::Instant(Timestamp::from_micros(3)));
    assert!(model.promise(&[admit(12, 2), admit(13, 2), admit(23, 1)]).is_ok());
    assert!(model.promise(&[admit(13, 1), admit(22, 2)]).is_err());
    // Each window begins with its first request and holds the limit.
    let model = Model::fixed_window(per(2, 10), Anchor::FirstRequest);
    assert!(model.promise(&[admit(0, 2), admit(10, 2)]).is_ok());
    assert!(model.promise(&[admit(0, 2), admit(9, 1)]).is_err());

    // In January and February 1970.
    let month = 31 * 86_400_000_000;
    let model = Model::calendar_window(2, &calendars()[0]).unwrap();
    assert!(model.promise(&[admit(0, 1), admit(month - 1, 1), admit(month, 2)]).is_ok());
    assert!(model.promise(&[admit(0, 2), admit(month - 1, 1)]).is_err());

    let model = Model::sliding_window(per(2, 12), 3);
    assert!(model.promise(&[admit(3, 2), admit(12, 1), admit(13, 1)]).is_ok());
    assert!(model.promise(&[admit(3, 2), admit(11, 1)]).is_err());
    assert!(model.promise(&[admit(3, 2), admit(12, 2), admit(15, 1)]).is_err());
    let model = Model::sliding_window(per(2, 12), 1);
    assert!(model.promise(&[admit(11, 2), admit(23, 2)]).is_ok());
    assert!(model.promise(&[admit(11, 3)]).is_err());

    let model = Model::sliding_log(per(2, 10));
    assert!(model.promise(&[admit(3, 1), admit(12, 1), admit(13, 1)]).is_ok());
    assert!(model.promise(&[admit(3, 1), admit(11, 1), admit(12, 1)]).is_err());
}

/// Models of every algorithm. With slots, the period is a multiple of their number.
pub(crate) fn models(limit: u64, period: u64) -> impl Strategy<Value = Model> {
    let quota = per(limit, period);
    let rate_based = (1_u64..50).prop_flat_map(move |burst| {
        proptest::sample::select(vec![
            Model::gcra(quota.burst(burst)),
            Model::leaky_bucket(quota.burst(burst)),
            Model::token_bucket(quota.burst(burst), Refill::Greedy),
            Model::token_bucket(quota.burst(burst), Refill::Interval),
        ])
    });
    let windows = prop_oneof![
        Just(Anchor::Epoch),
        Just(Anchor::FirstRequest),
        (0_u64..1 << 50).prop_map(|at| Anchor::Instant(Timestamp::from_micros(at))),
    ];
    let slots = proptest::sample::select(&[1_u32, 2, 6, 60][..]).prop_map(move |slots| {
        Model::sliding_window(per(limit, period.next_multiple_of(slots.into())), slots)
    });
    prop_oneof![
        4 => rate_based,
        2 => windows.prop_map(move |anchor| Model::fixed_window(quota, anchor)),
        1 => (0..calendars().len())
            .prop_map(move |index| Model::calendar_window(limit, &calendars()[index]).unwrap()),
        3 => slots,
        1 => Just(Model::sliding_log(quota)),
    ]
}

pub(crate) fn clients() -> impl Strategy<Value = (Model, u64, u64)> {
    (1_u64..50, 1_u64..10_000_000)
        .prop_flat_map(|(limit, period)| (models(limit, period), Just(period), Just(limit)))
}

/// Models, each with a distance between requests that is longer than period / limit.
fn spaced_clients() -> impl Strategy<Value = (Model, u64)> {
    (1_u64..1_000, 1_u64..10_000_000).prop_flat_map(|(limit, period)| {
        let (quota, sixty) = (per(limit, period), period.next_multiple_of(60));
        proptest::sample::select(vec![
            (Model::gcra(quota), period),
            (Model::leaky_bucket(quota.burst(1)), period),
            (Model::token_bucket(quota.burst(1), Refill::Greedy), period),
            (Model::token_bucket(quota, Refill::Interval), period),
            (Model::fixed_window(quota, Anchor::Epoch), period),
            (Model::fixed_window(quota, Anchor::FirstRequest), period),
            (Model::sliding_window(quota, 1), period),
            (Model::sliding_window(per(limit, sixty), 6), sixty),
            (Model::sliding_window(per(limit, sixty), 60), sixty),
            (Model::sliding_log(quota), period),
        ])
        .prop_map(move |(model, period)| (model, 1 + period / limit))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn promises_hold_for_every_client(
        (model, period, limit) in clients(),
        asks in proptest::collection::vec((0_u64..20, 0_u64..2_000, any::<bool>()), 1..200),
    ) {
        let mut client = Client::new(model, START);
        for (cost, thousandths, patient) in asks {
            client.wait(period * thousandths / 1_000 / limit);
            let denied = client.ask(cost);
            if let Some(Retry::After(wait)) = denied && patient {
                client.wait(u64::try_from(wait.as_micros()).unwrap());
                prop_assert_eq!(client.ask(cost), None);
            }
        }
        model.promise(&client.log).unwrap();
        if model.strategy().unwrap().tag() == "leaky_bucket" {
            model.outflow(&client.released).unwrap();
        }
    }

    /// Requests are farther apart than period / limit, possibly by less than a microsecond.
    #[test]
    fn evenly_spaced_requests_are_never_denied(
        (model, distance) in spaced_clients(),
        start in 0_u64..20_000_000,
        gaps in proptest::collection::vec(0_u64..3, 1..300),
    ) {
        let mut client = Client::new(model, START + start);
        for gap in gaps {
            prop_assert_eq!(client.ask(1), None);
            client.wait(distance + gap);
        }
    }
}
