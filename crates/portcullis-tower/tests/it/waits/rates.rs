//! Rate-based policies: the decision reserves the slot.

use std::num::NonZeroU32;

use portcullis_core::{FailureMode, Refill, Strategy, TokenBucket};
use portcullis_tower::{Global, Header, Lookup, PolicyExt as _};

use super::*;

/// Two at once and two per second; others wait for up to two seconds.
fn bucket() -> Policy {
    Policy::token_bucket("bucket", per_second(2)).wait_at_most(2 * SECOND)
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_burst_proceed_in_order_of_arrival() {
    for latency in [0, 10].map(Duration::from_millis) {
        let server = Server::new(latency, |layer| layer.limit(bucket().by(Global)));
        let mut responses: Vec<_> = (0..7).map(|number| server.send(number)).collect();
        tokio::time::sleep(latency).await;
        assert_eq!(responses.pop().unwrap().await.unwrap(), (429, Some("1".to_owned())), "at once");
        assert_eq!(server.start.elapsed(), latency);
        assert_eq!(statuses(responses).await, [200; 6]);
        let numbers: Vec<_> = server.passed().iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        let late = latency.as_millis();
        let times: Vec<_> = server.passed().iter().map(|(_, millis)| *millis - late).collect();
        assert_eq!(times, [0, 0, 500, 1_000, 1_500, 2_000]);
        assert_eq!(server.checks(), 7, "one call for each request");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_other_keys_do_not_wait() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(bucket().by(Header::named("x-user"))));
    let mut responses: Vec<_> = (0..4).map(|number| server.send_as(number, "ada")).collect();
    responses.push(server.send_as(4, "bob"));
    assert_eq!(statuses(responses).await, [200; 5]);
    assert!(server.passed().contains(&(4, 0)), "{:?}", server.passed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_costs_nothing_and_others_move_up() {
    for latency in [0, 10].map(Duration::from_millis) {
        let server = Server::new(latency, |layer| layer.limit(bucket().by(Global)));
        let responses: Vec<_> = (0..6).map(|number| server.send(number)).collect();
        server.sleep_until(100).await;
        responses[3].abort();
        // Time to refund the last slot, which is free again.
        server.sleep_until(200).await;
        let late = server.send(6);
        let mut responses = responses;
        drop(responses.remove(3));
        assert_eq!(statuses(responses).await, [200; 5]);
        assert_eq!(late.await.unwrap().0, 200);
        let millis = latency.as_millis();
        let expected = [(0, 0), (1, 0), (2, 500), (4, 1_000), (5, 1_500), (6, 2_000)];
        let expected = expected.map(|(number, at)| (number, at + millis));
        let mut passed = server.passed();
        // The last one was decided later: its delay is counted from its answer.
        assert_eq!(passed.pop().map(|(number, _)| number), Some(6));
        assert_eq!(passed, expected[..5]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cost_waits_for_all_of_its_units() {
    let gcra = Policy::gcra("gcra", per_second(1).burst(3)).wait_at_most(3 * SECOND);
    let server =
        Server::new(Duration::ZERO, |layer| {
            layer.limit(gcra.by(Global).cost_by(|parts: &http::request::Parts| {
                parts.headers["cost"].to_str().unwrap().parse().unwrap()
            }))
        });
    let cost = |number, cost| tokio::spawn(server.call(number, &[("cost", cost)]));
    let responses = vec![cost(0, "3"), cost(1, "2"), cost(2, "1"), cost(3, "1"), cost(4, "4")];
    assert_eq!(statuses(responses).await, [200, 200, 200, 429, 400]);
    assert_eq!(server.passed(), [(0, 0), (1, 2_000), (2, 3_000)]);
}

#[tokio::test(start_paused = true)]
async fn with_several_policies_the_longest_delay_counts() {
    let tenant = Policy::gcra("tenant", per_second(1)).wait_at_most(5 * SECOND);
    let server = Server::new(Duration::ZERO, |layer| {
        let users = layer.limit(bucket().by(Header::named("x-user")));
        users.and(tenant.by(Global)).and(Policy::fixed_window("day", Quota::per_day(4)).by(Global))
    });
    let users = ["ada", "ada", "bob", "ada", "bob"];
    let responses = users.iter().zip(0..).map(|(user, number)| server.send_as(number, user)).collect();
    assert_eq!(statuses(responses).await, [200, 200, 200, 200, 429], "the day is over");
    assert_eq!(server.passed(), [(0, 0), (1, 1_000), (2, 2_000), (3, 3_000)]);
    // The request that the day denied has reserved nothing.
    assert_eq!(server.checks(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_refill_at_intervals() {
    let interval = TokenBucket::new(per_second(2)).unwrap().refilled(Refill::Interval);
    let policy = Policy::literal("interval", Strategy::TokenBucket(interval)).wait_at_most(SECOND);
    let server = Server::new(Duration::ZERO, |layer| layer.limit(policy.by(Global)));
    server.sleep_until(300).await;
    let responses = (0..5).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200, 200, 200, 200, 429]);
    assert_eq!(server.passed(), [(0, 300), (1, 300), (2, 1_000), (3, 1_000)]);
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_may_wait_are_503() {
    let server = Server::new(Duration::ZERO, |layer| layer.limit(bucket().by(Header::named("x-user"))));
    server.registry.max_waiting_requests(32);
    let mut responses: Vec<_> = (0..6).map(|number| server.send_as(number, "ada")).collect();
    responses.push(server.send_as(6, "bob"));
    assert_eq!(statuses(responses).await, [200, 200, 200, 200, 503, 503, 200], "a sixteenth per key");
    assert_eq!(server.passed().last(), Some(&(3, 1_000)), "no slot is left empty");
}

#[tokio::test(start_paused = true)]
async fn a_look_up_is_part_of_the_wait() {
    let found = |_: &http::request::Parts| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(Lookup::found("tenant", "acme"))
    };
    let server = Server::new(Duration::ZERO, |layer| {
        layer.limit(bucket().by(Global)).and(Policy::fixed_window("day", Quota::per_day(9)).by_async(found))
    });
    let responses = (0..4).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200; 4]);
    assert_eq!(server.passed(), [(0, 300), (1, 300), (2, 500), (3, 1_000)]);
}

#[tokio::test(start_paused = true)]
async fn the_share_of_an_instance_lets_requests_wait() {
    let instances = NonZeroU32::new(2).unwrap();
    let policy = bucket().on_store_failure(FailureMode::local(instances.get()));
    let share = policy.share().unwrap();
    let server = Server::new(Duration::ZERO, |layer| layer.limit(share.by(Global)));
    let responses = (0..4).map(|number| server.send(number)).collect();
    assert_eq!(statuses(responses).await, [200, 200, 200, 429]);
    assert_eq!(server.passed(), [(0, 0), (1, 1_000), (2, 2_000)]);
}
