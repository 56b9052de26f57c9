//! Renewals, and releases that fail.

use std::sync::atomic::Ordering::Relaxed;

use tokio::runtime::Handle;

use super::*;

impl Setup {
    /// Lets time pass, on both clocks.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.store.micros.fetch_add(1_000_000, Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn renewals(&self) -> usize {
        self.store.renewals.swap(0, Relaxed)
    }

    fn refunds(&self) -> usize {
        self.store.settlements.swap(0, Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_outlasts_its_lease_keeps_its_permit() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let responses = [respond(&setup.layer(), &[]).await, respond(&setup.layer(), &[]).await];
        setup.pass(4 * LEASE).await;
        assert_eq!(setup.held().await, 2, "{mode:?}");
        assert!((11..=12).contains(&setup.renewals()), "one call for all, every third of the lease");
        drop(responses);
        assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"; 2]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_shortest_lease_is_renewed_in_time() {
    let setup = Setup::new(Mode::Ready);
    let _long = respond(&setup.layer(), &[]).await;
    setup.pass(Duration::from_secs(5)).await;
    assert_eq!(setup.renewals(), 0);
    let short = Concurrency::new("short", 1).lease(Duration::from_secs(3));
    let layer = setup.layer_of(short.by(Global));
    let response = respond(&layer, &[]).await;
    setup.pass(Duration::from_secs(9)).await;
    assert_eq!((respond(&layer, &[]).await.status().as_u16(), setup.seen()), (429, Vec::new()));
    assert!((8..=10).contains(&setup.renewals()));
    drop(response);
    setup.pass(LEASE).await;
    assert!((2..=4).contains(&setup.renewals()), "the long lease alone");
}

#[tokio::test(start_paused = true)]
async fn many_permits_are_renewed_in_batches() {
    let setup = Setup::new(Mode::Ready);
    let many = Concurrency::new("many", 1_000).by(Global);
    let more = Concurrency::new("more", 1_000);
    let layer = setup.layer_of(many).and(more);
    let mut responses = Vec::new();
    for _ in 0..600 {
        responses.push(respond(&layer, &[]).await);
    }
    setup.pass(LEASE).await;
    assert!((4..=6).contains(&setup.renewals()), "two calls, every third of the lease");
    setup.pass(LEASE).await;
    responses.truncate(1);
    assert_eq!((setup.seen().len(), setup.renewals()), (1_198, 6), "all are held until they are released");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_shortened_is_renewed_in_time() {
    let setup = Setup::new(Mode::Ready);
    let layer = setup.layer();
    let _first = respond(&layer, &[]).await;
    setup.pass(Duration::from_secs(5)).await;
    setup.registry.set_policy(EXPORTS.lease(Duration::from_secs(3)).policy()).unwrap();
    let _second = respond(&layer, &[]).await;
    setup.pass(LEASE).await;
    assert_eq!((setup.held().await, setup.seen()), (2, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn one_task_renews_as_long_as_permits_are_held() {
    let setup = Setup::new(Mode::Ready);
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let plain = Policy::gcra("plain", Quota::per_second(9)).by(Global);
    drop(respond(&setup.layer_of(plain), &[]).await);
    assert_eq!(tasks(), before, "no task without such a policy");
    let responses = [respond(&setup.layer(), &[]).await, respond(&setup.layer(), &[]).await];
    assert_eq!(tasks(), before + 1);
    drop(responses);
    setup.pass(LEASE).await;
    assert_eq!((tasks(), setup.renewals()), (before, 0));
    let _again = respond(&setup.layer(), &[]).await;
    assert_eq!(tasks(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_has_lapsed_is_not_released() {
    let setup = Setup::new(Mode::Ready);
    let response = respond(&setup.layer(), &[]).await;
    setup.store.micros.fetch_add(31_000_000, Relaxed);
    let other = respond(&setup.layer(), &[]).await;
    setup.pass(Duration::from_secs(11)).await;
    assert_eq!((setup.held().await, setup.seen()), (1, vec!["lapsed"]));
    drop(response);
    assert_eq!((setup.held().await, setup.refunds()), (1, 0), "a late release does nothing");
    drop(other);
    assert_eq!((setup.held().await, setup.refunds(), setup.seen()), (0, 1, vec!["released"]));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_repeated_within_the_lease() {
    for mode in [Mode::Down, Mode::DownLater, Mode::Lost] {
        let setup = Setup::new(Mode::Ready);
        let response = respond(&setup.layer(), &[]).await;
        setup.store.set(mode);
        setup.pass(Duration::from_secs(25)).await;
        assert!(setup.renewals() >= 4, "{mode:?}");
        setup.store.set(Mode::Ready);
        setup.pass(LEASE).await;
        assert_eq!((setup.held().await, setup.seen()), (1, Vec::new()), "{mode:?}");
        drop(response);
        assert_eq!(setup.held().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_lapses_in_a_long_outage() {
    let setup = Setup::new(Mode::Ready);
    let response = respond(&setup.layer(), &[]).await;
    setup.store.set(Mode::Down);
    setup.pass(2 * LEASE).await;
    setup.store.set(Mode::Ready);
    setup.pass(LEASE).await;
    assert_eq!((setup.held().await, setup.seen()), (0, vec!["lapsed"]));
    drop(response);
    assert_eq!(setup.refunds(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_whatever_its_fate() {
    for mode in [Mode::Down, Mode::DownLater, Mode::Lost, Mode::OvertakenLater] {
        let setup = Setup::new(Mode::Ready);
        let response = respond(&setup.layer(), &[]).await;
        setup.store.set(mode);
        drop(response);
        let drained = setup.registry.drain(Duration::from_secs(1)).await;
        assert_eq!((drained.left, drained.units, drained.lost), (1, 1, 0), "{mode:?}");
        setup.store.set(Mode::Ready);
        assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_is_given_up_in_the_end() {
    let setup = Setup::new(Mode::Ready);
    let response = respond(&setup.layer(), &[]).await;
    setup.store.set(Mode::Lost);
    drop(response);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!((setup.refunds(), setup.seen()), (16, vec!["lost"]));
    let drained = setup.registry.drain(Duration::ZERO).await;
    assert_eq!((drained.left, drained.lost, drained.lost_units), (0, 1, 1));
}

#[test]
fn without_a_runtime_permits_are_held_and_released() {
    let setup = Setup::new(Mode::Ready);
    let poll = |future: Pin<&mut dyn Future<Output = Response<ResponseBody<Steps>>>>| match future
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(response) => response,
        Poll::Pending => panic!("the store answers at once"),
    };
    let layer = setup.layer();
    let response = poll(pin!(respond(&layer, &[])));
    assert_eq!(response.status(), 200);
    drop(response);
    assert_eq!(crate::support::block_on(setup.held()), 0);
}
