//! Requests in flight: a request that finds no permit waits, in order of arrival, until one comes back.

use portcullis_core::Concurrency;
use portcullis_core::store::Checks;
use portcullis_tower::{Event, EventKind, Global, Header, PolicyExt as _};

use super::*;
use crate::rejections::left;

/// Two at a time; others wait for up to two seconds.
const EXPORTS: Concurrency = Concurrency::new("exports", 2).wait_at_most(Duration::from_secs(2));

type Response = JoinHandle<(u16, Option<String>)>;

impl Server {
    /// A request whose handler takes this long.
    fn send_for(&self, number: u32, user: &str, millis: &str) -> Response {
        tokio::spawn(self.call(number, &[("x-user", user), ("takes", millis)]))
    }
}

fn server(latency: u64) -> Server {
    Server::new(Duration::from_millis(latency), |layer| layer.limit(EXPORTS.by(Header::named("x-user"))))
}

#[tokio::test(start_paused = true)]
async fn permits_go_to_the_requests_in_order() {
    for latency in [0, 3] {
        let server = server(latency);
        let responses = (0..6).map(|number| server.send_for(number, "ada", "500")).collect();
        assert_eq!(statuses(responses).await, [200; 6]);
        let passed = server.passed();
        assert_eq!(passed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        for (index, (_, millis)) in passed.into_iter().enumerate() {
            let begin = 500 * (index as u128 / 2);
            // A release whose answer takes longer is found a tenth of a second later.
            assert!((begin..begin + 250).contains(&millis), "latency {latency}: {index} at {millis}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn released_permit_is_taken_at_once() {
    let server = server(0);
    let responses = (0..3).map(|number| server.send_for(number, "ada", "730")).collect();
    assert_eq!(statuses(responses).await, [200; 3]);
    assert_eq!(server.passed()[2].1, 730);
}

#[tokio::test(start_paused = true)]
async fn request_is_rejected_after_its_longest_wait() {
    let server = server(0);
    let long: Vec<_> = (0..2).map(|number| server.send_for(number, "ada", "9000")).collect();
    let late = server.send_for(2, "ada", "1");
    assert_eq!(late.await.unwrap(), (429, None), "when a permit comes back is unknown");
    assert_eq!(server.start.elapsed(), 2 * SECOND);
    assert!(server.checks() <= 2 + 22, "{}", server.checks());
    assert_eq!(statuses(long).await, [200; 2]);
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let server = server(0);
    let ada: Vec<_> = (0..3).map(|number| server.send_for(number, "ada", "800")).collect();
    server.sleep_until(10).await;
    assert_eq!(server.send_for(3, "bob", "1").await.unwrap().0, 200);
    assert!(server.start.elapsed() < Duration::from_millis(100));
    assert_eq!(statuses(ada).await, [200; 3]);
}

#[tokio::test(start_paused = true)]
async fn permit_of_another_process_is_found_soon() {
    let server = server(0);
    let policy = EXPORTS.policy();
    let ada = crate::probe::request(&[("x-user", "ada")]);
    let key = server.registry.key_of(&Header::named("x-user"), ada).unwrap();
    let other = server.store.check(Checks::one(policy.clone(), key, 2)).await.unwrap();
    let waiting = server.send_for(0, "ada", "1");
    server.sleep_until(950).await;
    assert!(server.passed().is_empty());
    for receipt in other.into_receipts() {
        let _ = server.store.refund(receipt).await.unwrap();
    }
    assert_eq!(waiting.await.unwrap().0, 200);
    assert!((950..1_060).contains(&server.passed()[0].1), "{:?}", server.passed());
}

#[tokio::test(start_paused = true)]
async fn request_that_leaves_holds_nothing() {
    let server = server(3);
    let first: Vec<_> = (0..2).map(|number| server.send_for(number, "ada", "500")).collect();
    let leaving = server.send_for(2, "ada", "1");
    let behind = server.send_for(3, "ada", "1");
    server.sleep_until(300).await;
    leaving.abort();
    assert_eq!(behind.await.unwrap().0, 200);
    assert_eq!(statuses(first).await, [200; 2]);
    assert_eq!(server.registry.drain(SECOND).await.left, 0);
    let ada = crate::probe::request(&[("x-user", "ada")]);
    assert_eq!(left(&server.registry, EXPORTS.policy(), Header::named("x-user"), ada).await, "2");
}

#[tokio::test(start_paused = true)]
async fn wait_is_reported_once() {
    let server = server(0);
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let list = Arc::clone(&seen);
    server.registry.observe(Arc::new(move |event: &Event<'_>| match event.kind {
        EventKind::Waited { policy, waited } => list.lock().unwrap().push((policy.to_string(), waited)),
        EventKind::Rejected { .. } => list.lock().unwrap().push(("rejected".to_owned(), Duration::ZERO)),
        _ => {}
    }));
    let responses = (0..3).map(|number| server.send_for(number, "ada", "400")).collect();
    assert_eq!(statuses(responses).await, [200; 3]);
    assert_eq!(*seen.lock().unwrap(), [("exports".to_owned(), Duration::from_millis(400))]);
}

#[tokio::test(start_paused = true)]
async fn wait_goes_with_a_rate_that_rejects_at_once() {
    let server = Server::new(Duration::ZERO, |layer| {
        layer.limit(Policy::fixed_window("day", Quota::per_day(3)).by(Global)).and(EXPORTS)
    });
    let responses: Vec<_> = (0..4).map(|number| server.send_for(number, "ada", "300")).collect();
    assert_eq!(statuses(responses).await, [200, 200, 200, 429]);
    assert_eq!(server.passed().len(), 3);
}
