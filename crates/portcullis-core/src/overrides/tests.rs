use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::overrides::span::Span;
use crate::{LeaseError, PolicyError, PolicyPartError, PolicySettings, TokenBucket};

mod model;

const fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const API: Policy = Policy::gcra("api", Quota::per_second(1).burst(10)).allow_overrides();
const LOCK_OUT: LockOut = LockOut::after(3).within(seconds(10)).block_for(seconds(20)).up_to(seconds(60));

#[test]
fn a_block_comes_before_a_grant_and_both_end() {
    let mut record = Override::NONE;
    record.set_grant(at(0), Some((Quota::per_second(9), seconds(50))));
    record.set_block(at(0), seconds(20));
    assert_eq!(record.effect(&API, at(5)), Effect::Blocked(seconds(15)));
    assert_eq!((record.block_until(at(5)), record.block_until(at(20))), (Some(at(20)), None));
    for second in [20, 49] {
        assert!(
            matches!(record.effect(&API, at(second)), Effect::Granted(policy, _) if policy.name() == API.name())
        );
    }
    assert_eq!((record.effect(&API, at(50)), record.expires_at()), (Effect::None, at(50)));
    record.unblock();
    assert!(record.block().is_none() && record.grant().is_some());
    record.set_grant(at(1), None);
    assert!(record.is_empty() && record.expires_at() == Timestamp::EPOCH);
}

#[test]
fn a_granted_policy_keeps_all_but_the_quota() {
    let policy = Policy::token_bucket("bucket", Quota::per_minute(60))
        .on_store_failure(crate::FailureMode::local(2))
        .wait_at_most(seconds(2))
        .allow_overrides();
    let granted = policy.granted(Quota::per_minute(600)).unwrap();
    assert!(granted.reads_overrides() && granted.max_wait() == policy.max_wait());
    assert_eq!((granted.digest(), granted.failure_mode()), (policy.digest(), policy.failure_mode()));
    assert_eq!(granted.strategy().limit(), 600);
    assert!(granted.is_granted() && !policy.is_granted());
    let again = granted.granted(Quota::per_minute(60)).unwrap();
    assert_eq!(again.strategy(), policy.strategy());
    assert_eq!(
        policy.granted(Quota::per_second(1)),
        Err(GrantedQuotaError::OtherPeriod { period: seconds(60) })
    );
}

#[test]
fn a_grant_that_no_longer_fits_the_policy_has_no_effect() {
    let (minute, hour) = (Quota::per_minute(5), Quota::per_hour(5));
    let mut record = Override::NONE;
    record.set_grant(at(0), Some((minute, seconds(50))));
    let of = |quota| Policy::fixed_window("window", quota).allow_overrides();
    assert!(matches!(record.effect(&of(minute), at(1)), Effect::Granted(..)));
    assert_eq!(record.effect(&of(hour), at(1)), Effect::None);
}

#[test]
fn denials_count_within_the_time_from_the_first() {
    let mut record = Override::NONE;
    assert_eq!(record.record_denials(at(100), 2, &LOCK_OUT), None);
    assert_eq!((record.denials(at(109)), record.denials(at(110))), (2, 0));
    let mut late = record;
    assert_eq!(late.record_denials(at(110), 2, &LOCK_OUT), None, "the time has ended");
    assert_eq!(late.denials(at(110)), 2);
    let block = record.record_denials(at(109), 1, &LOCK_OUT).unwrap();
    assert_eq!((block.until(), block.length()), (at(129), seconds(20)));
    assert_eq!((record.denials(at(109)), record.strikes(at(109))), (0, 1));
}

#[test]
fn a_shorter_time_applies_to_what_is_counted() {
    let mut record = Override::NONE;
    assert_eq!(record.record_denials(at(100), 2, &LOCK_OUT), None);
    let shorter = LOCK_OUT.within(seconds(5));
    assert_eq!(record.record_denials(at(105), 1, &shorter), None);
    assert_eq!(record.denials(at(105)), 1);
}

#[test]
fn blocks_double_up_to_the_longest_until_strikes_are_forgotten() {
    let (mut record, mut now) = (Override::NONE, at(0));
    let mut lengths = Vec::new();
    for _ in 0..5 {
        let block = record.record_denials(now, u32::MAX, &LOCK_OUT).unwrap();
        lengths.push(block.length().as_secs());
        now = block.until();
    }
    assert_eq!((lengths, record.strikes(now)), (vec![20, 40, 60, 60, 60], 5));
    let forgotten = now.saturating_add(LOCK_OUT.longest());
    let just_before = Timestamp::from_micros(forgotten.as_micros() - 1);
    let mut again = record;
    assert_eq!(again.record_denials(just_before, 3, &LOCK_OUT).unwrap().length(), seconds(60));
    assert_eq!(record.record_denials(forgotten, 3, &LOCK_OUT).unwrap().length(), seconds(20));
}

#[test]
fn a_clock_set_back_makes_no_part_longer_than_it_is() {
    let mut record = Override::NONE;
    record.record_denials(at(1_000), 3, &LOCK_OUT);
    record.set_grant(at(1_000), Some((Quota::per_second(9), seconds(50))));
    assert_eq!(record.block_until(at(5)), Some(at(25)));
    assert!(!record.repair(at(1_000)), "nothing has changed");
    assert!(record.repair(at(5)) && !record.repair(at(5)));
    assert_eq!(record.block().unwrap().until(), at(25));
    assert_eq!(record.grant().unwrap().until(), at(55));
    assert_eq!(record.expires_at(), at(5 + 20 + 60));
}

#[test]
fn lock_outs_out_of_range_are_errors() {
    let minute = seconds(60);
    let new = LockOut::new;
    assert_eq!(new(0, minute, minute, minute), Err(LockOutError::NoDenials));
    let nanos = Duration::from_nanos(1);
    assert_eq!(new(1, nanos, minute, minute), Err(LockOutError::Fractional(nanos)));
    assert_eq!(new(1, minute, Duration::ZERO, minute), Err(LockOutError::Fractional(Duration::ZERO)));
    assert_eq!(new(1, minute, minute, Duration::MAX), Err(LockOutError::Fractional(Duration::MAX)));
    let long = MAX_LENGTH + seconds(1);
    assert_eq!(new(1, minute, minute, long), Err(LockOutError::TooLong(long)));
    let shorter = LockOutError::LongestTooShort { first: minute, longest: seconds(59) };
    assert_eq!(new(1, minute, minute, seconds(59)), Err(shorter));
    assert_eq!(LockOut::after(1).block_for(seconds(5)).longest(), seconds(5));
}

#[test]
#[should_panic(expected = "shorter than the first one")]
fn a_literal_with_a_longest_block_that_is_shorter_panics() {
    let _ = LockOut::after(1).up_to(seconds(1));
}

#[test]
fn the_largest_lock_out_saturates() {
    let largest = LockOut::new(u32::MAX, MAX_LENGTH, MAX_LENGTH, MAX_LENGTH).unwrap();
    let mut record = Override::NONE;
    assert_eq!(record.record_denials(Timestamp::MAX, u32::MAX - 1, &largest), None);
    record.record_denials(at(1), u32::MAX, &largest).unwrap();
    assert_eq!(Override::decode(&record.encode()), Ok(record));
}

#[test]
fn a_policy_reads_overrides_or_has_a_lease() {
    let settings = PolicySettings { max_lease: Some(10), allow_overrides: true, ..PolicySettings::default() };
    let bucket = TokenBucket::new(Quota::per_second(100));
    let errors = Policy::try_new("leased", bucket, settings).unwrap_err();
    assert!(matches!(
        errors.iter().as_slice(),
        [PolicyError::Part { policy, error: PolicyPartError::Lease(LeaseError::Overrides) }] if policy.as_str() == "leased"
    ));
    let waits = Policy::gcra("waits", Quota::per_second(1)).allow_overrides().wait_at_most(seconds(1));
    assert!(waits.reads_overrides() && waits.max_wait() == Some(seconds(1)) && waits.max_lease().is_none());
    assert!(waits.share_among(core::num::NonZeroU32::MIN).unwrap().reads_overrides());
    assert_ne!(Policy::gcra("api", Quota::per_second(1).burst(10)), API);
}

#[test]
fn bytes_that_are_no_override_are_errors() {
    use DecodeOverrideError::{Length, Number, Parts, Version};
    let mut record = Override::NONE;
    assert_eq!(Override::decode(&record.encode()), Ok(record));
    record.set_block(at(1), seconds(2));
    record.set_grant(at(1), Some((Quota::per_second(5).burst(7), seconds(2))));
    let good = record.encode();
    let changed = |index: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[index] = byte;
        Override::decode(&bytes)
    };
    assert_eq!(Override::decode(&[]), Err(Length(0)));
    assert_eq!(Override::decode(&good[..1]), Err(Length(1)));
    assert_eq!(changed(0, 0x22), Err(Version(0x22)));
    assert_eq!(changed(1, 0x13), Err(Parts(0x13)));
    assert_eq!(changed(1, 0x01), Err(Length(58)));
    assert_eq!(changed(1, 0x07), Err(Length(58)));
    for length in 0..good.len() {
        assert!(Override::decode(&good[..length]).is_err());
    }
    assert!(matches!(changed(2, 0xff), Err(Number(_))), "an end beyond 2^53");
    assert!(matches!(changed(10, 0xff), Err(Number(_))), "a length beyond 2^51");
    // The limit, the period and the burst of the grant.
    for index in [34, 42, 50] {
        assert!(matches!(changed(index, 0xff), Err(Number(_))));
    }
    assert_eq!(changed(41, 0), Err(Number(7)), "a burst of zero units");
}

#[test]
fn a_span_is_shortest_of_what_it_states() {
    let span = Span::new(at(10), seconds(5));
    assert_eq!((span.start(), span.until, span.length()), (at(10), at(15), seconds(5)));
    assert_eq!(
        [span.left(at(12)), span.left(at(15)), span.left(at(0))],
        [Some(seconds(3)), None, Some(seconds(5))]
    );
}
