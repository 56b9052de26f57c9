//! Windows and logs: a request that does not fit waits and is checked again when it may.

use std::sync::atomic::AtomicBool;

use http::request::Parts;
use portcullis_core::{SlidingWindow, Strategy};
use portcullis_tower::{Event, EventKind, Global, Header, Lookup, PolicyExt as _, Reason};

use super::*;
use crate::probe::request;
use crate::rejections::left;

/// Two per second; others wait for up to three seconds.
fn window() -> Policy {
    Policy::fixed_window("window", per_second(2)).wait_at_most(3 * SECOND)
}

fn millis_of(passed: &[(u32, u128)]) -> Vec<u128> {
    passed.iter().map(|(_, millis)| *millis).collect()
}

#[tokio::test(start_paused = true)]
async fn requests_come_back_at_the_next_window_in_order() {
    for latency in [0, 3].map(Duration::from_millis) {
        let server = Server::new(latency, |layer| layer.limit(window().by(Global)));
        server.sleep_until(400).await;
        let responses = (0..8).map(|number| server.send(number)).collect();
        assert_eq!(statuses(responses).await, [200; 8]);
        let numbers: Vec<_> = server.passed().iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
        for (index, millis) in millis_of(&server.passed()).into_iter().enumerate() {
            let begin = if index < 2 { 400 } else { 1_000 * (index as u128 / 2) };
            assert!((begin..begin + 100).contains(&millis), "{index} at {millis}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_rejected_if_it_would_wait_too_long() {
    let minute = Policy::fixed_window("minute", Quota::per_minute(2)).wait_at_most(10 * SECOND);
    let server = Server::new(Duration::ZERO, |layer| layer.limit(minute.by(Global)));
    let responses: Vec<_> = (0..3).map(|number| server.send(number)).collect();
    let mut answers = Vec::new();
    for response in responses {
        answers.push(response.await.unwrap());
    }
    assert_eq!(answers[2], (429, Some("60".to_owned())));
    assert_eq!(server.start.elapsed(), Duration::ZERO, "at once");
    server.sleep_until(50_500).await;
    assert_eq!(server.send(3).await.unwrap().0, 200);
    assert!((60_000..60_060).contains(&server.passed()[2].1), "{:?}", server.passed());
}

#[tokio::test(start_paused = true)]
async fn waiters_that_do_not_fit_in_time_are_rejected() {
    let policy = Policy::fixed_window("window", per_second(2)).wait_at_most(SECOND * 3 / 2);
    let server = Server::new(Duration::ZERO, |layer| layer.limit(policy.by(Global)));
    server.sleep_until(900).await;
    // The windows after one and two seconds are within the wait, and the one after three is not.
    let responses = (0..10).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200, 200, 200, 200, 200, 200, 429, 429, 429, 429]);
    assert!(server.start.elapsed() < Duration::from_millis(2_100));
    // One call for each request, and one for each denial: the first, and one for each window.
    assert!(server.checks() <= 10 + 3, "{}", server.checks());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_charged_until_all_policies_fit() {
    let server = Server::new(Duration::ZERO, |layer| {
        layer.limit(window().by(Global)).and(Policy::token_bucket("day", Quota::per_day(10)).by(Global))
    });
    let responses: Vec<_> = (0..4).map(|number| server.send(number)).collect();
    server.sleep_until(500).await;
    let day = || Policy::token_bucket("day", Quota::per_day(10));
    let user = || request(&[]);
    assert_eq!(left(&server.registry, day(), Global, user()).await, "8", "two requests have passed");
    assert_eq!(statuses(responses).await, [200; 4]);
    assert_eq!(left(&server.registry, day(), Global, user()).await, "6");
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_a_wait_rejects_at_once() {
    let server = Server::new(Duration::ZERO, |layer| {
        let day = Policy::fixed_window("day", Quota::per_day(3));
        layer.limit(window().by(Global)).and(day.by(Global))
    });
    let responses: Vec<_> = (0..3).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200; 3]);
    let late = server.start.elapsed();
    assert_eq!(server.send(3).await.unwrap().0, 429);
    assert_eq!(server.start.elapsed(), late);
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_never_fits_does_not_wait_behind_others() {
    let cost = |parts: &http::request::Parts| if parts.headers.contains_key("x-user") { 3 } else { 1 };
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Global).cost_by(cost)));
    let responses = (0..3).map(|number| server.send(number)).collect();
    server.sleep_until(100).await;
    assert_eq!(server.send_as(9, "ada").await.unwrap().0, 400);
    assert!(server.start.elapsed() < Duration::from_millis(200));
    assert_eq!(statuses(responses).await, [200; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_higher_limit_applies_to_the_next_request() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Global)));
    let responses = (0..4).map(|number| server.send(number)).collect();
    server.sleep_until(100).await;
    server
        .registry
        .set_policy(Policy::fixed_window("window", per_second(9)).wait_at_most(3 * SECOND))
        .unwrap();
    assert_eq!(server.send(4).await.unwrap().0, 200);
    assert!(server.start.elapsed() < Duration::from_millis(200));
    assert_eq!(statuses(responses).await, [200; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_wait_when_the_policy_is_switched_off() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Global)));
    let responses = (0..4).map(|number| server.send(number)).collect();
    server.sleep_until(100).await;
    server.registry.set_mode(window().name(), portcullis_tower::Mode::Off).unwrap();
    assert_eq!(server.send(4).await.unwrap().0, 200);
    assert_eq!(statuses(responses).await, [200; 4]);
    let numbers: Vec<_> = server.passed().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 4, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn one_policy_may_wait_and_another_charge_after() {
    let server = Server::new(Duration::ZERO, |layer| {
        let guesses = Policy::fixed_window("guesses", Quota::per_day(3));
        let guesses = guesses.by(Global).charge_when(|outcome| outcome.status() == 200);
        layer.limit(window().by(Global)).and(guesses.charge_after_at_most(4))
    });
    let first = (0..2).map(|number| server.send(number)).collect();
    assert_eq!(statuses(first).await, [200, 200]);
    let mut responses: Vec<_> = (2..6).map(|number| server.send(number)).collect();
    server.sleep_until(100).await;
    assert_eq!(server.send(6).await.unwrap(), (429, None), "four are unsettled, which wait");
    responses.pop().unwrap().abort();
    server.sleep_until(200).await;
    responses.push(server.send(7));
    assert_eq!(statuses(responses).await, [200, 429, 429, 429]);
    assert!(server.start.elapsed() < 2 * SECOND);
    let left = left(&server.registry, window(), Global, request(&[])).await;
    assert_eq!(left, "1", "a denial of the policy that looks refunds the window");
}

#[tokio::test(start_paused = true)]
async fn the_longest_of_several_windows_is_waited_for() {
    let users = Policy::fixed_window("users", per_second(1)).wait_at_most(20 * SECOND);
    let all = Policy::sliding_log("all", Quota::per(2, 4 * SECOND)).wait_at_most(20 * SECOND);
    let server = Server::new(Duration::ZERO, |layer| {
        layer.limit(users.by(Header::named("x-user"))).and(all.by(Global))
    });
    let users = ["ada", "bob", "ada", "bob", "eve"];
    let responses = users.iter().zip(0..).map(|(user, number)| server.send_as(number, user)).collect();
    assert_eq!(statuses(responses).await, [200; 5]);
    let passed = server.passed();
    let seconds: Vec<_> = passed.iter().map(|(_, millis)| millis / 1_000).collect();
    assert_eq!(seconds, [0, 0, 4, 4, 8], "{passed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_window_is_followed_by_the_delay_of_a_rate() {
    let rate = Policy::gcra("rate", per_second(1)).wait_at_most(5 * SECOND);
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Global)).and(rate.by(Global)));
    let responses = (0..4).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200; 4]);
    let seconds: Vec<_> = server.passed().iter().map(|(_, millis)| millis / 1_000).collect();
    assert_eq!(seconds, [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_lets_the_next_one_ask() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Global)));
    let mut responses: Vec<_> = (0..6).map(|number| server.send(number)).collect();
    server.sleep_until(300).await;
    responses.remove(2).abort();
    assert_eq!(statuses(responses).await, [200; 5]);
    let passed: Vec<_> = server.passed().iter().map(|(number, millis)| (*number, millis / 1_000)).collect();
    assert_eq!(passed, [(0, 0), (1, 0), (3, 1), (4, 1), (5, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_not_polled_does_not_keep_others_forever() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Global)));
    let responses: Vec<_> = (0..2).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200; 2]);
    let mut idle = server.call(2, &[]);
    // Polled once, it waits first.
    assert!(tokio::time::timeout(Duration::ZERO, &mut idle).await.is_err());
    assert_eq!(server.send(3).await.unwrap().0, 200);
    assert_eq!(server.passed().last(), Some(&(3, 3_000)), "after its own longest wait");
    drop(idle);
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_may_wait_for_a_window_are_503() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Header::named("x-user"))));
    server.registry.max_waiting_requests(32);
    let overloaded = Arc::<AtomicBool>::default();
    let seen = Arc::clone(&overloaded);
    server.registry.observe(Arc::new(move |event: &Event<'_>| {
        if let EventKind::Rejected { reason: Reason::Overloaded, .. } = event.kind {
            seen.store(true, Relaxed);
        }
    }));
    let mut responses: Vec<_> = (0..6).map(|number| server.send_as(number, "ada")).collect();
    responses.push(server.send_as(6, "bob"));
    assert_eq!(statuses(responses).await, [200, 200, 200, 200, 503, 503, 200]);
    assert!(overloaded.load(Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_twice_is_counted_once() {
    let found = |_: &Parts| async { Ok(Lookup::found("tenant", "acme")) };
    let tenants = Policy::fixed_window("tenants", Quota::per_hour(99));
    let server = Server::new(Duration::ZERO, |layer| {
        layer.limit(window().by(Header::named("x-user"))).and(tenants.by_async(found))
    });
    // One for each key.
    server.registry.max_waiting_requests(16);
    for number in 0..3 {
        assert_eq!(statuses(vec![server.send_as(number, "ada")]).await, [200]);
    }
    assert!((1_000..1_100).contains(&server.passed()[2].1), "{:?}", server.passed());
}

#[tokio::test(start_paused = true)]
async fn wake_ups_of_many_keys_are_spread_over_the_first_moments() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(window().by(Header::named("x-user"))));
    let mut responses = Vec::new();
    for number in 0..300 {
        responses.push(server.send_as(number, &(number / 3).to_string()));
    }
    assert_eq!(statuses(responses).await, [200; 300]);
    let late: Vec<_> = millis_of(&server.passed()).into_iter().filter(|millis| *millis > 0).collect();
    assert_eq!(late.len(), 100);
    assert!(late.iter().all(|millis| (1_000..=1_051).contains(millis)), "{late:?}");
    let mut instants = late;
    instants.dedup();
    assert!(instants.len() > 20, "not all at one instant: {instants:?}");
}

#[tokio::test(start_paused = true)]
async fn every_window_and_log_can_be_waited_for() {
    let sliding = SlidingWindow::with_slots(per_second(2), 4).unwrap();
    for policy in [
        Policy::sliding_window("window", per_second(2)),
        Policy::literal("window", Strategy::SlidingWindow(sliding)),
        Policy::sliding_log("window", per_second(2)),
    ] {
        let server =
            Server::new(Duration::ZERO, |layer| layer.limit(policy.wait_at_most(5 * SECOND).by(Global)));
        let responses = (0..6).map(|number| server.send(number)).collect();
        assert_eq!(statuses(responses).await, [200; 6]);
        let passed = server.passed();
        assert!(passed.is_sorted(), "{passed:?}");
        assert!(passed[2].1 >= 500 && passed[5].1 <= 5_000, "{passed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_after_a_look_up_is_waited_for() {
    let found = |_: &http::request::Parts| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(Lookup::found("tenant", "acme"))
    };
    for latency in [0, 3].map(Duration::from_millis) {
        let server = Server::new(latency, |layer| {
            let address = Policy::fixed_window("address", Quota::per_day(9));
            layer.limit(address.by(Global)).and(window().by_async(found))
        });
        // The look-up of a request is counted by the narrowest key before it, which is shared.
        let responses = (0..4).map(|number| server.send(number)).collect();
        assert_eq!(statuses(responses).await, [200; 4]);
        let seconds: Vec<_> = server.passed().iter().map(|(_, millis)| millis / 1_000).collect();
        assert_eq!(seconds, [0, 0, 1, 1]);
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_waiters_ask_about_once_each() {
    let policy = Policy::fixed_window("window", per_second(1_000)).wait_at_most(20 * SECOND);
    let server =
        Server::new(Duration::from_millis(1), |layer| layer.limit(policy.by(Header::named("x-user"))));
    server.registry.max_waiting_requests(160_000);
    let responses = (0..10_000).map(|number| server.send_as(number, "ada")).collect();
    assert!(statuses(responses).await.iter().all(|status| *status == 200));
    let passed = server.passed();
    assert!(passed.is_sorted_by_key(|(number, _)| *number), "in order of arrival");
    for second in 0..10 {
        let in_window = passed.iter().filter(|(_, millis)| millis / 1_000 == second).count();
        assert!(in_window <= 1_000, "{in_window} in second {second}");
    }
    // The first ones asked before anybody waited; then one call per request, and a denial per window.
    assert!(server.checks() <= 20_000 + 30, "{}", server.checks());
}
