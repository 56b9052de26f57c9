use core::time::Duration;

use super::*;
use crate::algorithm::{Algorithm, Tat};
use crate::{Retry, Timestamp};

const MINUTE: u64 = 60_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn interval(limit: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(Quota::per_minute(limit).burst(burst)).unwrap().refilled(Refill::Interval)
}

#[test]
fn refilled_sets_the_refill_and_the_grain() {
    let greedy = TokenBucket::new(Quota::per_minute(4)).unwrap();
    assert_eq!((greedy.refill(), greedy.meter().grain(), greedy.meter().burst()), (Refill::Greedy, 1, 4));
    let interval = greedy.refilled(Refill::Interval);
    assert_eq!((interval.refill(), interval.meter().grain()), (Refill::Interval, MINUTE));
    assert_eq!(interval.refilled(Refill::Greedy), greedy);
    assert_eq!((interval.meter().capacity(), interval.meter().burst()), (greedy.meter().capacity(), 4));
}

#[test]
fn tokens_are_refilled_at_every_multiple_of_the_period() {
    let bucket = interval(4, 6);
    let state = bucket.decide(None, at(90_000_000), 6).after;
    for (micros, remaining, next, reset) in [
        (90_000_000, 0, 30_000_000, 90_000_000),
        (2 * MINUTE - 1, 0, 1, MINUTE + 1),
        (2 * MINUTE, 4, MINUTE, MINUTE),
        (3 * MINUTE - 1, 4, 1, 1),
        (3 * MINUTE, 6, 0, 0),
    ] {
        let snapshot = bucket.snapshot(state.as_ref(), at(micros), 0, true);
        assert_eq!(snapshot.remaining, remaining, "{micros}");
        assert_eq!(snapshot.next_after, Duration::from_micros(next), "{micros}");
        assert_eq!(snapshot.reset_after, Duration::from_micros(reset), "{micros}");
    }
    let denied = bucket.snapshot(state.as_ref(), at(91_000_000), 5, false);
    assert_eq!(denied.retry, Some(Retry::After(Duration::from_secs(89))));
    // The last of six tokens is due in the middle of the third minute, and is refilled at its end.
    assert_eq!(state, Some(Tat { micros: MINUTE + 90_000_000, remainder: 0 }));
    assert_eq!(bucket.expires_at(&state.unwrap()), 3 * MINUTE);
}
