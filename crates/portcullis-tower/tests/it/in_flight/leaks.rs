//! Ways in which a request ends, or a runtime, that must not leave a permit behind.

use std::sync::atomic::Ordering::Relaxed;

use http::request::Parts;
use tokio::runtime::{Builder, Runtime};

use super::*;

#[tokio::test]
async fn parts_that_a_look_up_keeps_hold_no_permit() {
    let setup = Setup::new(Mode::Ready);
    let kept = Arc::<Mutex<Vec<Parts>>>::default();
    let list = Arc::clone(&kept);
    let look_up = move |parts: &Parts| {
        list.lock().unwrap().push(parts.clone());
        async { Ok(Lookup::missing()) }
    };
    let tenants = Policy::fixed_window("tenants", Quota::per_hour(1));
    let layer = setup.layer().and(tenants.by_async(look_up));
    assert_eq!(respond(&layer, &[]).await.status(), 400);
    let requests = kept.lock().unwrap().len();
    assert_eq!((requests, setup.held().await), (1, 0));
}

#[tokio::test]
async fn a_future_that_is_kept_after_an_error_holds_no_permit() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let mut fails =
            setup.layer().layer(service_fn(async |_: Request<String>| Err::<Response<String>, _>("broken")));
        let mut response = pin!(fails.ready().await.unwrap().call(request()));
        assert_eq!(response.as_mut().await.unwrap_err(), "broken");
        assert_eq!(setup.held().await, 0, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_end_at_once_release_all_their_permits() {
    let setup = Setup::new(Mode::Later);
    let mut responses = Vec::new();
    for policy in ["a", "b", "c", "d", "e"].map(|name| Concurrency::new(name, 1_000)) {
        let layer = setup.layer_of(policy.by(Global));
        for _ in 0..1_000 {
            responses.push(respond(&layer, &[]).await);
        }
    }
    responses.clear();
    assert_eq!(setup.registry.drain(Duration::from_secs(60)).await.left, 0);
    let seen = setup.seen();
    assert_eq!((seen.len(), seen.iter().filter(|event| **event == "lost").count()), (5_000, 0));
}

fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[test]
fn permits_are_renewed_after_the_runtime_of_another_has_ended() {
    let setup = Setup::new(Mode::Ready);
    let (first, second, third) = (paused(), paused(), paused());
    let gone = first.block_on(respond(&setup.layer(), &[]));
    let also = second.block_on(respond(&setup.layer(), &[]));
    let stays = third.block_on(respond(&setup.layer(), &[]));
    drop(second);
    drop(first);
    third.block_on(async {
        for _ in 0..60 {
            setup.store.micros.fetch_add(1_000_000, Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!((setup.held().await, setup.seen()), (3, Vec::new()));
        drop((gone, also, stays));
        assert_eq!(setup.held().await, 0);
    });
}

#[test]
fn release_that_waits_keeps_no_limiter() {
    let setup = Setup::new(Mode::Ready);
    let instance = setup.registry.instance();
    let response = crate::support::block_on(respond(&setup.layer(), &[]));
    setup.store.set(Mode::Down);
    drop(response);
    assert!(instance.upgrade().is_some());
    drop(setup);
    assert!(instance.upgrade().is_none(), "nothing can make the release any more");
}

#[test]
fn release_of_an_ended_runtime_keeps_no_limiter() {
    let (setup, runtime) = (Setup::new(Mode::Ready), paused());
    let instance = setup.registry.instance();
    let response = runtime.block_on(respond(&setup.layer(), &[]));
    setup.store.set(Mode::Down);
    runtime.block_on(async { drop(response) });
    drop(setup);
    assert!(instance.upgrade().is_some(), "a task repeats the release");
    drop(runtime);
    assert!(instance.upgrade().is_none(), "the task has ended");
}

#[test]
fn release_after_the_limiter_is_gone_keeps_nothing() {
    let setup = Setup::new(Mode::Ready);
    let instance = setup.registry.instance();
    let response = crate::support::block_on(respond(&setup.layer(), &[]));
    setup.store.set(Mode::Down);
    drop(setup);
    drop(response);
    assert!(instance.upgrade().is_none(), "nothing can make the release any more");
}
