use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use portcullis_core::store::{Checks, Store};
use portcullis_core::{Decision, Policy, Quota, Secret};
use proptest::prelude::*;

use super::*;
use crate::MemoryStore;

const HOUR: i64 = 3_600;
const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(5));

/// A machine with manual clocks, in seconds. It starts at ten in the morning.
#[derive(Clone, Default)]
struct Machine {
    since_boot: Arc<AtomicU64>,
    wall_step: Arc<AtomicI64>,
}

impl Machine {
    fn run(&self, seconds: i64) {
        self.since_boot.fetch_add(seconds.unsigned_abs(), Relaxed);
    }

    /// The boot-time clock keeps counting.
    fn suspend(&self, seconds: i64) {
        self.run(seconds);
    }

    fn step_wall_clock(&self, seconds: i64) {
        self.wall_step.fetch_add(seconds, Relaxed);
    }
}

impl Source for Machine {
    fn elapsed_micros(&self) -> u64 {
        self.since_boot.load(Relaxed) * 1_000_000
    }

    fn wall(&self) -> Timestamp {
        let start = 20_000 * 24 * HOUR + 10 * HOUR + self.wall_step.load(Relaxed);
        Timestamp::EPOCH.saturating_add(
            Duration::from_secs(start.unsigned_abs()) + Duration::from_micros(self.elapsed_micros()),
        )
    }
}

impl<S: Source + Send + Sync + 'static> Clock for Anchored<S> {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }
}

/// Charges one key in a store on the machine.
fn limiter(machine: &Machine, policy: Policy) -> impl Fn(u64) -> Decision + use<> {
    let store = MemoryStore::builder().clock(Anchored::new(machine.clone())).build();
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    let key = hasher.finish().unwrap();
    move |cost| {
        let answer = store.check(Checks::one(policy.clone(), key, cost)).into_ready().unwrap();
        answer.unwrap().into_decision()
    }
}

fn hours(count: u64) -> Duration {
    Duration::from_hours(count)
}

#[test]
fn a_window_ends_at_midnight_although_the_machine_slept() {
    let machine = Machine::default();
    let charge = limiter(&machine, DAILY);
    assert!(charge(5).is_allowed());
    assert_eq!(charge(0).reset_after(), hours(14));
    machine.run(HOUR);
    machine.suspend(13 * HOUR - 1);
    assert!(!charge(1).is_allowed(), "a second before midnight");
    machine.run(1);
    assert!(charge(1).is_allowed());
    assert_eq!(charge(0).reset_after(), hours(24));
    assert_eq!(charge(0).at(), machine.wall());
}

#[test]
fn a_step_of_the_wall_clock_moves_no_window() {
    for hour in [-48, -24, -3, 3, 24, 48] {
        let machine = Machine::default();
        let charge = limiter(&machine, DAILY);
        assert!(charge(5).is_allowed());
        machine.step_wall_clock(hour * HOUR);
        let denied = charge(1);
        assert!(!denied.is_allowed(), "by {hour} hours");
        assert_eq!(denied.reset_after(), hours(14), "as announced before the step");
        machine.run(14 * HOUR);
        assert!(charge(5).is_allowed());
        assert_eq!(charge(1).reset_after(), hours(24), "a window has its whole length");
    }
}

#[test]
fn a_clock_created_after_a_step_follows_the_new_wall_clock() {
    let machine = Machine::default();
    machine.step_wall_clock(3 * HOUR);
    let charge = limiter(&machine, DAILY);
    assert!(charge(5).is_allowed());
    assert_eq!(charge(1).reset_after(), hours(11));
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Run(i64),
    Suspend(i64),
    StepWallClock(i64),
    Charge(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..30 * HOUR).prop_map(Event::Run),
        (0..60 * HOUR).prop_map(Event::Suspend),
        (-100 * HOUR..100 * HOUR).prop_map(Event::StepWallClock),
        (0_u64..7).prop_map(Event::Charge),
        (0_u64..7).prop_map(Event::Charge),
    ];
    proptest::collection::vec(event, 1..60)
}

proptest! {
    #[test]
    fn no_step_of_the_wall_clock_changes_a_decision(events in events()) {
        let quota = Quota::per_day(5);
        let policies = [
            DAILY,
            Policy::sliding_window("window", quota),
            Policy::sliding_log("log", quota),
            Policy::gcra("gcra", quota.burst(3)),
            Policy::token_bucket("bucket", quota),
        ];
        for policy in policies {
            let (stepped, steady) = (Machine::default(), Machine::default());
            let charges = [limiter(&stepped, policy.clone()), limiter(&steady, policy)];
            let (mut day, mut admitted) = (0, 0);
            for event in &events {
                match *event {
                    Event::Run(seconds) => [&stepped, &steady].map(|machine| machine.run(seconds)),
                    Event::Suspend(seconds) => [&stepped, &steady].map(|machine| machine.suspend(seconds)),
                    Event::StepWallClock(seconds) => [stepped.step_wall_clock(seconds), ()],
                    Event::Charge(cost) => {
                        let [decision, expected] = [0, 1].map(|index| charges[index](cost));
                        prop_assert_eq!(&decision, &expected);
                        let today = decision.at().as_micros() / (24 * 3_600_000_000);
                        if today > day {
                            (day, admitted) = (today, 0);
                        }
                        if decision.policy().as_str() == "daily" && decision.is_allowed() {
                            admitted += cost;
                        }
                        prop_assert!(admitted <= 5, "{admitted} in one window");
                        [(), ()]
                    }
                };
            }
        }
    }
}

#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn the_system_clock_reads_the_boot_time_clock() {
    use rustix::time::{ClockId, clock_gettime};

    let before = clock_gettime(ClockId::Boottime);
    let found = since_boot().expect("Linux has this clock");
    let after = clock_gettime(ClockId::Boottime);
    let nanos =
        |time: rustix::time::Timespec| u64::try_from(Duration::try_from(time).unwrap().as_nanos()).unwrap();
    assert!(nanos(before) <= found && found <= nanos(after));
    let clock = SystemClock::new();
    let (first, second) = (clock.now(), clock.now());
    assert!(first <= second && second.saturating_since(SystemTime::now().into()) < Duration::from_secs(1));
}
