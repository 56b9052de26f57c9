//! The promises about charges and refunds together. They hold, are tight, and are broken by refunds that ignore time.

use std::time::Duration;

use portcullis_core::algorithm::State;
use portcullis_core::store::{Position, Refund, Run};
use portcullis_core::{Anchor, Refill, Retry, Strategy as Limiting, Timestamp};
use portcullis_testing::calendars;
use portcullis_testing::oracle::{Admission, Event, Model};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::promises::{START, clients, per};

/// The charges that are refunded together: the event and the run of each.
type Held = Vec<(usize, Run)>;

/// One key, whose charges are refunded at any time.
struct Client {
    model: Model,
    strategy: Limiting,
    state: Option<State>,
    now: Timestamp,
    events: Vec<Event>,
    held: Vec<Held>,
    /// Whether a refund frees all of its units, as if none were replenished.
    ignores_time: bool,
}

impl Client {
    fn new(model: Model) -> Self {
        let (strategy, now) = (model.strategy().unwrap(), Timestamp::from_micros(START));
        let (events, held) = (Vec::new(), Vec::new());
        Self { model, strategy, state: None, now, events, held, ignores_time: false }
    }

    fn wait(&mut self, micros: u64) {
        self.now = self.now.saturating_add(Duration::from_micros(micros));
    }

    /// Whether it was admitted.
    fn ask(&mut self, units: u64) -> bool {
        let evaluation = self.strategy.evaluate(self.state.as_ref(), self.now, units);
        if evaluation.admitted && units > 0 {
            self.strategy.charge(&mut self.state, self.now, units);
            self.hold(Event::Admitted { at: self.now, units }, units);
        }
        evaluation.admitted
    }

    fn force(&mut self, units: u64) {
        let charged = self.strategy.force_charge(&mut self.state, self.now, units).charged;
        if charged > 0 {
            self.hold(Event::Forced { at: self.now, units: charged }, charged);
        }
    }

    fn hold(&mut self, event: Event, units: u64) {
        let mut position = self.strategy.position(self.state.as_ref(), self.now);
        if self.ignores_time {
            position = Position { micros: u64::MAX, remainder: 0 };
        }
        self.held.push(vec![(self.events.len(), Run { units, position })]);
        self.events.push(event);
    }

    /// Joins two groups of held charges.
    fn join(&mut self, one: Index, other: Index) {
        if self.held.len() > 1 {
            let mut held = self.held.swap_remove(one.index(self.held.len()));
            held.append(&mut self.held.swap_remove(other.index(self.held.len())));
            self.held.push(held);
        }
    }

    fn refund(&mut self, which: usize, most: u64) {
        let mut held = self.held.remove(which);
        held.sort_by_key(|(_, run)| run.position);
        let runs: Vec<Run> = held.iter().map(|(_, run)| *run).collect();
        self.strategy.refund(&mut self.state, self.now, Refund::of(&runs).at_most(most));
        let mut left = most;
        for (charge, run) in held.iter_mut().rev() {
            let units = run.units.min(left);
            left -= units;
            run.units -= units;
            self.events.push(Event::Refunded { at: self.now, charge: *charge, units });
        }
        held.retain(|(_, run)| run.units > 0);
        if !held.is_empty() {
            self.held.push(held);
        }
    }
}

/// Charges one unit per second for five minutes, and then refunds all of them at one instant.
fn refund_all_at_once(model: Model, ignores_time: bool) -> Client {
    let mut client = Client { ignores_time, ..Client::new(model) };
    for _ in 0..300 {
        assert!(client.ask(1));
        client.wait(1_000_000);
    }
    for _ in 0..300 {
        client.ask(1);
        client.refund(0, u64::MAX);
    }
    client.ask(1);
    client
}

fn one_at_a_time() -> [Model; 4] {
    let quota = per(1, 1_000_000).burst(1);
    [
        Model::gcra(quota),
        Model::leaky_bucket(quota),
        Model::token_bucket(quota, Refill::Greedy),
        Model::token_bucket(quota, Refill::Interval),
    ]
}

/// The number of requests admitted at the last instant.
fn admitted_at_last(client: &Client) -> usize {
    let last = |event: &&Event| matches!(event, Event::Admitted { at, .. } if *at == client.now);
    client.events.iter().filter(last).count()
}

#[test]
fn refunds_that_ignore_time_break_the_promise() {
    for model in one_at_a_time() {
        let client = refund_all_at_once(model, true);
        assert_eq!(admitted_at_last(&client), 301);
        let violation = model.net_promise(&client.events).unwrap_err();
        assert!(violation.charged > 1, "{violation}");

        let client = refund_all_at_once(model, false);
        assert_eq!(admitted_at_last(&client), 1);
        let peaks = model.net_promise(&client.events).unwrap();
        assert_eq!((peaks.ahead, peaks.in_period), (1, 2));
    }
}

/// A refund frees units below a later charge. A charge of these units overlaps with the later one, and both can be refunded.
/// The admitted units then exceed burst and rate, by at most the refunds of earlier charges.
#[test]
fn refunds_of_earlier_charges_add_to_the_burst() {
    let model = Model::gcra(per(1, 1_000_000).burst(2));
    let mut client = Client::new(model);
    assert!(client.ask(1) && client.ask(1));
    client.refund(0, 1);
    client.wait(1_000_000);
    assert!(client.ask(1));
    client.refund(0, 1);
    assert!(client.ask(1) && client.ask(1) && !client.ask(1));
    assert_eq!(model.net_promise(&client.events).unwrap().ahead, 2);
    assert_eq!(admitted_at_last(&client), 3);
    // Without the refunds, three units at one instant exceed the promise.
    let without: Vec<Event> =
        client.events.iter().filter(|event| !matches!(event, Event::Refunded { .. })).copied().collect();
    assert!(model.net_promise(&without).is_err());
}

#[test]
fn net_promise_reports_one_unit_too_many() {
    let admit = |micros, units| Event::Admitted { at: Timestamp::from_micros(micros), units };
    let force = |micros, units| Event::Forced { at: Timestamp::from_micros(micros), units };
    let refund =
        |micros, charge, units| Event::Refunded { at: Timestamp::from_micros(micros), charge, units };

    // One unit per ten microseconds, three at once.
    let model = Model::gcra(per(1, 10).burst(3));
    assert!(model.net_promise(&[admit(0, 3), refund(0, 0, 3), admit(0, 3)]).is_ok());
    assert!(model.net_promise(&[admit(0, 3), refund(0, 0, 2), admit(0, 3)]).is_err());
    assert!(model.net_promise(&[admit(0, 1), admit(29, 2), refund(29, 0, 1), admit(29, 2)]).is_ok());
    assert!(model.net_promise(&[admit(0, 1), admit(30, 2), refund(30, 0, 1), admit(30, 2)]).is_err());
    // A forced charge lasts up to twice as long, and is not an admission.
    assert!(model.net_promise(&[admit(0, 3), force(0, 3)]).is_ok());
    assert!(model.net_promise(&[force(0, 1), admit(59, 2), refund(59, 0, 1), admit(59, 2)]).is_ok());
    assert!(model.net_promise(&[force(0, 1), admit(60, 2), refund(60, 0, 1), admit(60, 2)]).is_err());
    assert!(model.net_promise(&[admit(0, 2), force(0, 1), refund(0, 1, 1), admit(0, 2)]).is_err());

    let model = Model::token_bucket(per(2, 10).burst(2), Refill::Interval);
    assert!(model.net_promise(&[admit(9, 1), admit(9, 1), refund(9, 0, 1), admit(9, 1)]).is_ok());
    assert!(model.net_promise(&[admit(9, 1), admit(10, 1), refund(10, 0, 1), admit(10, 2)]).is_err());

    let model = Model::fixed_window(per(2, 10), Anchor::Epoch);
    assert!(model.net_promise(&[admit(0, 2), refund(9, 0, 1), admit(9, 1)]).is_ok());
    assert!(model.net_promise(&[admit(0, 2), admit(10, 2), refund(10, 0, 2), admit(11, 1)]).is_err());
    let model = Model::fixed_window(per(2, 10), Anchor::FirstRequest);
    assert!(
        model.net_promise(&[admit(0, 2), refund(5, 0, 2), admit(6, 1), admit(11, 1), admit(16, 2)]).is_ok()
    );
    assert!(model.net_promise(&[admit(0, 2), refund(5, 0, 1), admit(6, 1), admit(9, 1)]).is_err());

    let month = 31 * 86_400_000_000;
    let model = Model::calendar_window(2, &calendars()[0]).unwrap();
    assert!(model.net_promise(&[admit(0, 2), refund(9, 0, 1), admit(month - 1, 1)]).is_ok());
    let late = [admit(0, 2), admit(month, 2), refund(month, 0, 2), admit(month, 1)];
    assert!(model.net_promise(&late).is_err());

    let model = Model::sliding_window(per(2, 12), 3);
    assert!(model.net_promise(&[admit(3, 2), refund(5, 0, 1), admit(11, 1)]).is_ok());
    assert!(model.net_promise(&[admit(3, 2), refund(5, 0, 1), admit(11, 2)]).is_err());
    let model = Model::sliding_log(per(2, 10));
    assert!(model.net_promise(&[admit(3, 2), refund(5, 0, 1), admit(12, 1)]).is_ok());
    assert!(model.net_promise(&[admit(3, 2), refund(5, 0, 1), admit(12, 2)]).is_err());
}

/// An action of the client.
#[derive(Clone, Debug)]
enum Step {
    Ask(u64),
    Force(u64),
    Refund(Index, u64),
    Join(Index, Index),
    /// Refunds all held charges one after the other, with a check after each.
    Collect(u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        12 => (0_u64..20).prop_map(Step::Ask),
        1 => (1_u64..60).prop_map(Step::Force),
        4 => (any::<Index>(), prop_oneof![Just(u64::MAX), 0_u64..12]).prop_map(|(which, most)| Step::Refund(which, most)),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Step::Join(one, other)),
        1 => (1_u64..5).prop_map(Step::Collect),
    ];
    let wait = prop_oneof![2 => Just(0_u64), 3 => 0_u64..3_000, 1 => 0_u64..40_000];
    proptest::collection::vec((wait, step), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn net_promises_hold_with_any_refunds((model, period, limit) in clients(), steps in steps()) {
        let mut client = Client::new(model);
        for (thousandths, step) in steps {
            client.wait(period * thousandths / 1_000 / limit);
            match step {
                Step::Ask(units) => drop(client.ask(units)),
                Step::Force(units) => client.force(units),
                Step::Join(one, other) => client.join(one, other),
                Step::Refund(which, most) if !client.held.is_empty() => {
                    client.refund(which.index(client.held.len()), most);
                }
                Step::Refund(..) => {}
                Step::Collect(units) => {
                    for _ in 0..client.held.len() {
                        client.refund(0, u64::MAX);
                        client.ask(units);
                    }
                }
            }
        }
        client.model.net_promise(&client.events).unwrap();
    }

    /// A refund of the newest request frees its slot. A slot with later requests behind it stays empty.
    #[test]
    fn leaky_bucket_outflow_holds_when_the_newest_are_refunded(
        (limit, period, burst) in (1_u64..20, 1_u64..1_000_000, 1_u64..20),
        steps in proptest::collection::vec((0_u64..1_500, 1_u64..4, any::<Index>(), any::<bool>()), 1..200),
    ) {
        let model = Model::leaky_bucket(per(limit, period).burst(burst));
        let strategy = model.strategy().unwrap();
        let (mut state, mut now) = (None, Timestamp::from_micros(START));
        // The instant of release of each request, and its run.
        let mut waiting: Vec<(Admission, Run)> = Vec::new();
        for (thousandths, cost, which, leaves) in steps {
            now = now.saturating_add(Duration::from_micros(period * thousandths / 1_000 / limit));
            let ahead: Vec<usize> = (0..waiting.len()).filter(|index| waiting[*index].0.at > now).collect();
            if leaves && !ahead.is_empty() {
                let (_, run) = waiting.remove(ahead[which.index(ahead.len())]);
                strategy.refund(&mut state, now, Refund::of(&[run]).if_newest());
                continue;
            }
            let evaluation = strategy.evaluate(state.as_ref(), now, cost);
            strategy.apply_decision(&mut state, now, cost, evaluation, evaluation.admitted);
            let snapshot = strategy.snapshot(state.as_ref(), now, cost, evaluation.admitted);
            match snapshot.retry {
                None => {
                    let run = Run { units: cost, position: strategy.position(state.as_ref(), now) };
                    waiting.push((Admission { at: now.saturating_add(snapshot.delay), cost }, run));
                }
                Some(Retry::After(wait)) => prop_assert!(!wait.is_zero()),
                Some(Retry::Unknown) => prop_assert!(false, "the wait of a queue is known"),
                Some(Retry::Never) => prop_assert!(cost > burst),
            }
        }
        let released: Vec<Admission> = waiting.iter().map(|(admission, _)| *admission).collect();
        model.outflow(&released).unwrap();
    }
}
