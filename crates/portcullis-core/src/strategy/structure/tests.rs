use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::*;
use crate::{
    CalendarWindow, Concurrency, FailureMode, Gcra, LeakyBucket, Policy, PolicySettings, Quota, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket, WindowTable,
};

static STARTS: [Timestamp; 2] = [Timestamp::from_micros(100), Timestamp::from_micros(200)];
/// Like [`STARTS`], but from other time zone data.
static LATER: [Timestamp; 3] =
    [Timestamp::from_micros(100), Timestamp::from_micros(300), Timestamp::from_micros(400)];
static MONTHS: WindowTable = table("months in Europe/Berlin", &STARTS);
static SAME_MONTHS: WindowTable = table("months in Europe/Berlin", &LATER);
static WEEKS: WindowTable = table("weeks in Europe/Berlin", &STARTS);

const fn table(name: &'static str, starts: &'static [Timestamp]) -> WindowTable {
    match WindowTable::new(name, 1, starts) {
        Ok(table) => table,
        Err(_) => panic!("the starts ascend"),
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

fn window(quota: Quota, anchor: Anchor) -> Strategy {
    Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor))
}

fn slots(quota: Quota, slots: u32) -> Strategy {
    Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).unwrap())
}

fn months(limit: u64, table: &'static WindowTable) -> Strategy {
    Strategy::CalendarWindow(CalendarWindow::new(limit, table).unwrap())
}

/// One of each structure.
fn structures() -> Vec<(Strategy, &'static str)> {
    let quota = Quota::per_minute(6);
    let bucket = TokenBucket::new(quota).unwrap();
    let at = |micros| Anchor::Instant(Timestamp::from_micros(micros));
    let longest = Quota::per(5, Quota::MAX_PERIOD.saturating_sub(Duration::from_micros(1)));
    [
        (Strategy::TokenBucket(bucket), ""),
        (Strategy::TokenBucket(bucket.refilled(Refill::Interval)), "interval"),
        (Strategy::Gcra(Gcra::new(quota).unwrap()), ""),
        (Strategy::LeakyBucket(LeakyBucket::new(quota).unwrap()), ""),
        (window(quota, Anchor::Epoch), "60s"),
        (window(quota, Anchor::FirstRequest), "60s.first"),
        (window(quota, at(5_000_000)), "60s.5s"),
        (window(quota, at(5_000_001)), "60s.5000001us"),
        (window(Quota::per_hour(6), Anchor::Epoch), "3600s"),
        (window(Quota::per(6, Duration::from_millis(1_500)), Anchor::Epoch), "1500000us"),
        (window(longest, at((1 << 51) - 3)), "2251799813685247us.2251799813685245us"),
        (months(6, &MONTHS), "c3b40a283b68fc96"),
        (months(6, &WEEKS), "b37613a8752fe47e"),
        (slots(quota, 1), "60s.1"),
        (slots(quota, 6), "60s.6"),
        (slots(Quota::per(6, 2 * Duration::from_secs(60)), 6), "120s.6"),
        (Strategy::SlidingLog(SlidingLog::new(quota).unwrap()), "60s"),
        (*Concurrency::new("p", 6).policy().strategy(), ""),
    ]
    .into()
}

#[test]
fn texts_are_pinned() {
    for (strategy, text) in structures() {
        let structure = strategy.structure();
        assert_eq!(structure.as_str(), text, "{strategy:?}");
        assert_eq!((structure.is_empty(), structure.to_string().as_str()), (text.is_empty(), text));
        assert!(text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.')), "{text}");
    }
}

#[test]
fn other_structures_have_other_digests_and_one_name_digest() {
    let policies: Vec<_> = structures().iter().map(|(strategy, _)| Policy::literal("p", *strategy)).collect();
    for (index, policy) in policies.iter().enumerate() {
        for (other, same) in policies.iter().enumerate() {
            assert_eq!(policy.digest() == same.digest(), index == other);
            let kind = policy.strategy().tag() == same.strategy().tag();
            assert_eq!(policy.override_digest() == same.override_digest(), kind);
        }
        let is_whole = policy.strategy().structure().is_empty();
        assert_eq!(policy.digest() == policy.override_digest(), is_whole);
        let renamed = Policy::literal("q", *policy.strategy());
        assert_ne!(renamed.digest(), policy.digest());
        assert_ne!(renamed.override_digest(), policy.override_digest());
    }
}

#[test]
fn limits_and_what_windows_do_not_show_change_no_digest() {
    let (few, many) = (Quota::per_hour(6), Quota::per_hour(600));
    let at = |micros| Anchor::Instant(Timestamp::from_micros(micros));
    let same = [
        (window(few, Anchor::Epoch), window(many, Anchor::Epoch)),
        (window(few, at(7)), window(many, at(7 + 3_600_000_000))),
        (window(few, at(0)), window(many, Anchor::Epoch)),
        (window(few, Anchor::FirstRequest), window(many, Anchor::FirstRequest)),
        (slots(few, 6), slots(many, 6)),
        (months(6, &MONTHS), months(600, &SAME_MONTHS)),
        (
            Strategy::SlidingLog(SlidingLog::new(few).unwrap()),
            Strategy::SlidingLog(SlidingLog::new(many).unwrap()),
        ),
        (
            Strategy::TokenBucket(TokenBucket::new(few).unwrap().refilled(Refill::Interval)),
            Strategy::TokenBucket(TokenBucket::new(Quota::per_day(9)).unwrap().refilled(Refill::Interval)),
        ),
    ];
    for (before, after) in same {
        let digests = [before, after].map(|strategy| Policy::literal("p", strategy).digest());
        assert_eq!(digests[0], digests[1], "{before:?}, {after:?}");
    }
}

/// Every setting that changes the strategy of a policy.
#[test]
fn changed_policy_digests_like_a_fresh_one() {
    for (strategy, _) in structures() {
        let policy = Policy::literal("p", strategy);
        let fresh = policy.digest();
        let check = |what, changed: &Policy| {
            assert_eq!(changed.digest(), fresh, "{what}: {strategy:?}");
            assert_eq!(changed.override_digest(), policy.override_digest(), "{what}: {strategy:?}");
            assert_eq!(Policy::new(changed.name().clone(), strategy).digest(), fresh);
            // A share of less than one unit per window has a longer one, and charges the states of the policy all the same.
            if changed.strategy().structure() == strategy.structure() {
                assert_eq!(Policy::literal("p", *changed.strategy()).digest(), fresh, "{what}");
            }
        };
        let plain = PolicySettings::default();
        let with = |settings| Policy::try_new("p", Ok(strategy), settings);
        for (what, settings) in [
            ("failure mode", PolicySettings { failure_mode: FailureMode::Closed, ..plain }),
            ("wait", PolicySettings { max_wait: Some(HOUR), ..plain }),
            ("debt", PolicySettings { max_debt: Some(1), ..plain }),
            ("lease", PolicySettings { max_lease: Some(2), ..plain }),
            ("overrides", PolicySettings { allow_overrides: true, ..plain }),
        ] {
            with(settings).ok().inspect(|changed| check(what, changed));
        }
        for instances in [1, 2, 5, 60] {
            let share = policy.share_among(NonZeroU32::new(instances).unwrap());
            share.ok().inspect(|share| check("share", share));
            let failure_mode = FailureMode::local(instances);
            with(PolicySettings { failure_mode, ..plain })
                .ok()
                .and_then(|local| local.share())
                .inspect(|share| check("local share", share));
        }
        let period = strategy.period().unwrap_or(Duration::from_secs(60));
        let quota = |units| Quota::per(units, period);
        let plans = policy.clone().caller_quotas(quota(1), quota(100));
        check("caller quotas", &plans);
        let caller = plans.with_quota(quota(50)).unwrap();
        check("quota of a caller", &caller);
        check("grant", &policy.granted(quota(70)).unwrap());
    }
    let exports = Concurrency::new("p", 6);
    assert_eq!(exports.clone().lease(HOUR).policy().digest(), exports.policy().digest());
}
