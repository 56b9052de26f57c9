//! A service with workers and a queue, whose latency is that of Little's law, and any sequence of observations.

use proptest::prelude::*;

use super::window::LEAST_SAMPLES;
use super::*;

const MILLI: u64 = 1_000_000;

/// A service that works on so many requests at a time, each of which takes this long.
#[derive(Clone, Copy, Debug)]
struct Workers {
    number: u32,
    work: u64,
}

impl Workers {
    fn latency(self, in_progress: u32) -> u64 {
        self.work * u64::from(in_progress.max(self.number)) / u64::from(self.number)
    }
}

fn tolerance(ratio: f64) -> Tolerance {
    Tolerance::new(ratio).unwrap()
}

fn pressed(latency: u64, waiting: u32) -> Observed {
    Observed { latency, waiting, is_pressed: true, reports_overload: false }
}

/// The limits while there are always more requests than the limit admits.
fn overload(limit: &mut AdaptiveLimit, service: Workers, tolerance: Tolerance, windows: usize) -> Vec<u32> {
    let step = || {
        limit.observe(&pressed(service.latency(limit.limit), limit.limit), tolerance);
        limit.limit
    };
    std::iter::repeat_with(step).take(windows).collect()
}

proptest! {
    #[test]
    fn a_constant_overload_ends_in_a_constant_limit(
        number in 1_u32..2_000, work in 5 * MILLI..1_000 * MILLI, floor in 1_u32..50, ratio in 1.3..5.0,
    ) {
        let service = Workers { number: number.max(floor), work };
        let tolerance = tolerance(ratio);
        let mut limit = AdaptiveLimit::new(floor, 100_000);
        let limits = overload(&mut limit, service, tolerance, 400);
        prop_assert!(limits[300..].iter().all(|at| *at == limits[399]), "{:?}", &limits[300..]);
        // All workers have work, and the latency is tolerated, but for two requests in a queue where there are few workers and for
        // differences that are no more than noise.
        prop_assert!(limit.limit >= service.number, "{} of {service:?}", limit.limit);
        let most = f64::from(service.number) * (ratio * 1.25) + 3.0;
        prop_assert!(f64::from(limit.limit) <= most, "{} of {service:?}", limit.limit);
    }

    #[test]
    fn the_limit_stays_within_floor_and_ceiling(
        floor in 1_u32..100, above in 0_u32..1_000, ratio in 1.1..10.0,
        seen in prop::collection::vec((any::<u64>(), any::<u32>(), any::<bool>(), any::<bool>()), 0..200),
    ) {
        let mut limit = AdaptiveLimit::new(floor, floor + above);
        for (latency, waiting, is_pressed, reports_overload) in seen {
            let before = limit.limit;
            limit.observe(&Observed { latency, waiting, is_pressed, reports_overload }, tolerance(ratio));
            prop_assert!((floor..=floor + above).contains(&limit.limit));
            prop_assert!(limit.limit >= before / 2 && limit.limit <= before * 2);
        }
    }

    #[test]
    fn a_limit_that_is_not_used_does_not_change(latencies in prop::collection::vec(1..10_000 * MILLI, 1..50)) {
        let mut limit = AdaptiveLimit::new(5, 500);
        overload(&mut limit, Workers { number: 40, work: 20 * MILLI }, Tolerance::DEFAULT, 50);
        let before = limit.limit;
        for latency in latencies {
            limit.observe(&Observed { is_pressed: false, ..pressed(latency, 3) }, Tolerance::DEFAULT);
            prop_assert_eq!(limit.limit, before);
        }
    }
}

#[test]
fn the_limit_follows_a_capacity_that_changes() {
    let of = |number| Workers { number, work: 20 * MILLI };
    let mut limit = AdaptiveLimit::new(4, 10_000);
    for number in [100, 20, 200, 50] {
        let limits = overload(&mut limit, of(number), Tolerance::DEFAULT, 200);
        let settled = limits[199];
        assert!((number..=number * 9 / 4).contains(&settled), "{settled} for {number}");
        assert!(limits[150..].iter().all(|at| *at == settled));
    }
}

/// The mean of a window of exponentially distributed work, in thousandths of the mean of all work.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand")]
fn mean_of_a_window(rng: &mut fastrand::Rng) -> u64 {
    // `f64` is below 1.
    let works = std::iter::repeat_with(|| -(1.0 - rng.f64()).ln());
    let sum: f64 = works.take(usize::try_from(LEAST_SAMPLES).unwrap()).sum();
    (sum * 1_000.0 / f64::from(LEAST_SAMPLES)).round() as u64
}

#[test]
fn work_that_varies_does_not_wear_the_limit_down() {
    let service = Workers { number: 100, work: 20 * MILLI };
    let mut limit = AdaptiveLimit::new(4, 2_000);
    let (mut rng, mut least) = (fastrand::Rng::with_seed(0), u32::MAX);
    // Half an hour of windows, and more.
    for window in 0..20_000 {
        let latency = service.latency(limit.limit) * mean_of_a_window(&mut rng) / 1_000;
        limit.observe(&pressed(latency, limit.limit), Tolerance::DEFAULT);
        if window > 100 {
            least = least.min(limit.limit);
        }
    }
    assert!(least >= service.number * 9 / 10, "{least}");
}

#[test]
fn a_service_that_becomes_slower_is_learned_at_the_floor() {
    let fast = Workers { number: 100, work: 20 * MILLI };
    let slow = Workers { work: 200 * MILLI, ..fast };
    let mut limit = AdaptiveLimit::new(10, 10_000);
    overload(&mut limit, fast, Tolerance::DEFAULT, 100);
    let limits = overload(&mut limit, slow, Tolerance::DEFAULT, 200);
    assert!(limits.contains(&10));
    assert!(limits[199] >= 100, "{limits:?}");
}

#[test]
fn without_load_a_longer_latency_is_learned() {
    let mut limit = AdaptiveLimit::new(10, 1_000);
    limit.observe(&pressed(20 * MILLI, 10), Tolerance::DEFAULT);
    for _ in 0..100 {
        limit.observe(&Observed { is_pressed: false, ..pressed(100 * MILLI, 3) }, Tolerance::DEFAULT);
    }
    assert!(!limit.is_too_long(150 * MILLI, Tolerance::DEFAULT));
    assert!(limit.is_too_long(250 * MILLI, Tolerance::DEFAULT));
}

#[test]
fn reports_of_overload_lower_the_limit_by_a_tenth() {
    let mut limit = AdaptiveLimit { limit: 1_000, ..AdaptiveLimit::new(800, 1_000) };
    let mut reported = || {
        limit.observe(&Observed { reports_overload: true, ..pressed(0, 0) }, Tolerance::DEFAULT);
        limit.limit
    };
    assert_eq!([reported(), reported(), reported()], [900, 810, 800]);
}

#[test]
fn latencies_below_a_millisecond_are_noise() {
    let mut limit = AdaptiveLimit::new(10, 1_000);
    limit.observe(&pressed(50_000, 10), Tolerance::DEFAULT);
    let before = limit.limit;
    for _ in 0..20 {
        limit.observe(&pressed(300_000, limit.limit), Tolerance::DEFAULT);
    }
    assert!(limit.limit > before, "six times as long, and still next to nothing");
}

#[test]
fn a_tolerance_is_a_ratio_from_1_1_to_10() {
    for ratio in [1.09, 10.01, 0.0, -2.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Tolerance::new(ratio), None, "{ratio}");
    }
    assert_eq!(Tolerance::new(2.0), Some(Tolerance::DEFAULT));
    let tolerance = tolerance(1.5);
    assert_eq!([0, 2, 4].map(|quarters| tolerance.latency(1_000, quarters)), [1_000, 1_250, 1_500]);
    assert_eq!(tolerance.latency(u64::MAX, 4), u64::MAX);
}

#[test]
fn limit_grows_by_steps_to_its_ceiling() {
    let mut limit = AdaptiveLimit::new(30, 35);
    let mut grown = || {
        limit.grow();
        limit.limit
    };
    assert_eq!([grown(), grown(), grown(), grown()], [32, 34, 35, 35]);
}
