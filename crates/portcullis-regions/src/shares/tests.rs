use std::time::Duration;

use portcullis_core::{Concurrency, Timestamp, WindowTable};

use super::*;

fn shares(set_aside: u32) -> Shares {
    Shares::equal(3).unwrap().set_aside(set_aside).unwrap()
}

/// The limits of a region's share and of home's.
fn limits(shares: Shares, policy: &Policy) -> (u64, u64) {
    let home = shares.home(policy).map_or(0, |home| home.strategy().limit());
    assert_eq!(home, shares.home_limit(policy));
    (shares.region(policy).unwrap().strategy().limit(), home)
}

#[test]
fn shares_of_all_regions_and_of_home_are_the_limit() {
    static STARTS: [Timestamp; 2] = [Timestamp::EPOCH, Timestamp::from_micros(9)];
    static MONTHS: WindowTable = match WindowTable::new("months", 1, &STARTS) {
        Ok(months) => months,
        Err(_) => panic!("two starts are enough"),
    };
    let minute = Quota::per_minute(1_000);
    for policy in [
        Policy::token_bucket("a", minute),
        Policy::gcra("a", minute.burst(1_000)),
        Policy::fixed_window("a", minute),
        Policy::calendar_window("a", 1_000, &MONTHS),
        Policy::sliding_window("a", minute),
        Policy::sliding_log("a", minute),
    ] {
        assert_eq!(limits(shares(30), &policy), (100, 700), "{policy:?}");
        // 3 % are 100 parts; rounding leaves less than a unit per region.
        assert_eq!(limits(shares(3), &policy), (10, 970), "{policy:?}");
        assert_eq!(limits(shares(20), &policy), (66, 800), "{policy:?}");
    }
}

#[test]
fn the_rate_of_home_is_exact() {
    let home = |policy: &Policy| shares(30).home(policy).unwrap();
    let slow = home(&Policy::gcra("a", Quota::per_second(1).burst(20)));
    let seven_tenths = Quota::new(7, Duration::from_secs(10), Some(14)).unwrap();
    assert_eq!(slow.strategy(), Policy::gcra("a", seven_tenths).strategy());
    let fast = home(&Policy::token_bucket("a", Quota::per_second(10)));
    assert_eq!(fast, Policy::token_bucket("a", Quota::per_second(7)));
    let bucket = TokenBucket::new(Quota::per_minute(15)).unwrap().refilled(Refill::Interval);
    let home = home(&Policy::literal("a", Strategy::TokenBucket(bucket)));
    let ten = TokenBucket::new(Quota::per_minute(10)).unwrap().refilled(Refill::Interval);
    assert_eq!(*home.strategy(), Strategy::TokenBucket(ten));
}

#[test]
fn what_cannot_be_bought_is_divided_among_the_regions() {
    let minute = Quota::per_minute(30);
    let own = FixedWindow::new(minute).unwrap().anchored(Anchor::FirstRequest);
    for policy in [
        Policy::leaky_bucket("a", minute),
        Policy::gcra("a", minute.burst(30)).wait_at_most(Duration::from_secs(1)),
        Policy::literal("a", Strategy::FixedWindow(own)),
        Concurrency::new("a", 30).policy(),
    ] {
        assert_eq!(limits(shares(30), &policy), (10, 0), "{policy:?}");
    }
    // The part of a region of what is set aside is less than a unit.
    assert_eq!(limits(shares(10), &Policy::fixed_window("a", Quota::per_minute(29))), (9, 0));
    assert_eq!(limits(shares(10), &Policy::fixed_window("a", minute)), (1, 27));
}

#[test]
fn a_limit_below_the_number_of_regions_is_an_error() {
    let error = shares(20).region(&Policy::gcra("search", Quota::per_second(10))).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    let message = "policy search: a limit or burst of 1 cannot be divided: a region of weight 1 of 3 needs 3";
    assert!(error.to_string().contains(message), "{error}");
    assert!(Shares::equal(1).unwrap().region(&Policy::gcra("search", Quota::per_second(10))).is_ok());
}

#[test]
fn regions_may_have_weights() {
    let policy = Policy::fixed_window("a", Quota::per_minute(1_000));
    let of = |weight| limits(Shares::weighted(weight, 5).unwrap().set_aside(50).unwrap(), &policy);
    assert_eq!([of(1), of(4)], [(100, 500), (333, 500)]);
    assert_eq!(Shares::weighted(6, 5), Err(SharesError::Weight { weight: 6, total: 5 }));
    assert_eq!(Shares::equal(0), Err(SharesError::Weight { weight: 1, total: 0 }));
    assert_eq!(shares(20).set_aside(100), Err(SharesError::SetAside { percent: 100 }));
}

#[test]
fn weighted_shares_and_home_are_at_most_the_limit() {
    for (weights, limit) in
        [[1, 9], [2, 8], [3, 7], [5, 5]].into_iter().flat_map(|w| (1..200).map(move |l| (w, l)))
    {
        let policy = Policy::fixed_window("a", Quota::per_minute(limit));
        let shares = weights.map(|weight| Shares::weighted(weight, 10).unwrap());
        let of = |shares: Shares| shares.region(&policy).map_or(0, |share| share.strategy().limit());
        let home = shares.map(|shares| shares.home_limit(&policy));
        assert_eq!(home[0], home[1], "each region sells the same, or none, of {limit} by {weights:?}");
        assert!(shares.map(of).iter().sum::<u64>() + home[0] <= limit, "{limit} by {weights:?}");
    }
}
