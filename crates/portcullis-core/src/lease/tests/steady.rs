//! How many calls a steady rate of requests takes.

use super::*;

/// A process with requests of cost 1 for one key, and its store, which answers at once.
struct Process {
    policy: Policy,
    lease: KeyLease,
    sizing: Sizing,
    state: Option<State>,
    calls: u64,
}

impl Process {
    fn new(policy: &Policy) -> Self {
        let max = policy.max_lease().map_or(0, u64::from);
        let lease = KeyLease::new(*policy.strategy(), max);
        Self { policy: policy.clone(), lease, sizing: Sizing::new(millis(0)), state: None, calls: 0 }
    }

    fn request(&mut self, now: Duration) {
        let rest = self.lease.take_expired(now);
        self.refund(rest, now);
        self.sizing.requested(1, now);
        if self.lease.spend(self.policy.strategy(), 1, now).is_some() {
            return;
        }
        let units = self.lease.ask(self.sizing.size(1, self.lease.room(), now));
        let answer = charge(&self.policy, &mut self.state, at(now), units, now);
        self.calls += 1;
        self.sizing.answered(answer.snapshot.remaining, now);
        if units > 0 {
            let rest = self.lease.granted(self.policy.strategy(), answer, now);
            self.refund(rest, now);
        }
    }

    fn refund(&mut self, rest: Option<Returned>, now: Duration) {
        let Some(rest) = rest else { return };
        self.calls += 1;
        for run in rest.runs() {
            self.policy.strategy().refund(&mut self.state, at(now), Refund::of(&[*run]));
        }
        self.lease.returned(rest.units());
    }
}

fn at(now: Duration) -> Timestamp {
    Timestamp::from_micros(3_600_000_000).saturating_add(now)
}

/// The requests per call at a steady rate, over twenty seconds after a first one.
fn saved(policy: &Policy, per_second: u64) -> u64 {
    let mut process = Process::new(policy);
    let mut calls_before = 0;
    for request in 0..21 * per_second {
        if request == per_second {
            calls_before = process.calls;
        }
        process.request(Duration::from_micros(request * 1_000_000 / per_second));
    }
    20 * per_second / (process.calls - calls_before)
}

/// The table of the page about leases.
#[test]
fn a_steady_rate_takes_a_fiftieth_of_the_calls() {
    let quota = Quota::per_minute(10_000_000);
    for policy in [
        Policy::token_bucket("bucket", quota),
        Policy::gcra("gcra", quota.burst(10_000_000)),
        Policy::fixed_window("window", quota),
        Policy::sliding_window("sliding", quota),
    ] {
        let table = [50, 100, 500, 5_000].map(|units| {
            let policy = policy.clone().lease(units);
            [100, 1_000, 10_000].map(|per_second| saved(&policy, per_second))
        });
        let expected = [[50, 51, 51], [50, 101, 101], [50, 500, 501], [50, 500, 5_000]];
        assert_eq!(table, expected, "{policy:?}");
    }
}
