//! Permits that handlers hold: in tasks, and of checks.

use portcullis_tower::{Charge, CheckBuilder, InFlightPermit, PolicyExt as _, RateLimitLayer};

use super::*;

/// A service that hands the charge of each request over.
pub(super) async fn charge_of(layer: &RateLimitLayer) -> (Response<ResponseBody<Steps>>, Charge) {
    let seen = Arc::<Mutex<Option<Charge>>>::default();
    let list = Arc::clone(&seen);
    let service = layer.layer(service_fn(move |request: Request<String>| {
        *list.lock().unwrap() = request.extensions().get::<Charge>().cloned();
        async { Ok::<_, Infallible>(Response::new(Steps::default())) }
    }));
    let response = service.oneshot(request()).await.unwrap();
    let charge = seen.lock().unwrap().take().unwrap();
    (response, charge)
}

fn names(permit: &InFlightPermit) -> Vec<&str> {
    permit.policies().map(portcullis_core::PolicyName::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_holds_the_permit_that_it_takes() {
    let setup = Setup::new(Mode::Ready);
    let (response, charge) = charge_of(&setup.layer()).await;
    let permit = charge.take_permit().unwrap();
    assert!(charge.take_permit().is_none(), "there is one");
    assert_eq!(format!("{permit:?}"), r#"InFlightPermit(["exports"])"#);
    drop((response, charge));
    assert_eq!(setup.held().await, 1);
    assert!(!permit.has_lapsed());
    drop(permit);
    assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]));
}

#[tokio::test(start_paused = true)]
async fn a_task_learns_that_its_permit_has_lapsed() {
    let setup = Setup::new(Mode::Ready);
    let (response, charge) = charge_of(&setup.layer()).await;
    let permit = charge.take_permit().unwrap();
    drop(response);
    setup.store.micros.fetch_add(31_000_000, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(LEASE).await;
    assert_eq!((permit.has_lapsed(), setup.seen()), (true, vec!["lapsed"]));
    drop(permit);
    assert_eq!((setup.held().await, setup.seen()), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_task_learns_in_an_outage_that_its_lease_has_ended() {
    for mode in [Mode::Down, Mode::Never] {
        let setup = Setup::new(Mode::Ready);
        let (_response, charge) = charge_of(&setup.layer()).await;
        let permit = charge.take_permit().unwrap();
        tokio::time::sleep(3 * LEASE).await;
        assert!(!permit.has_lapsed());
        setup.store.set(mode);
        tokio::time::sleep(LEASE / 2).await;
        assert!(!permit.has_lapsed());
        tokio::time::sleep(LEASE / 2).await;
        assert!(permit.has_lapsed(), "{mode:?}");
        setup.store.set(Mode::Ready);
        tokio::time::sleep(LEASE).await;
        assert!(!permit.has_lapsed(), "the clock of the store stands still here");
    }
}

#[tokio::test]
async fn a_clone_of_the_charge_does_not_keep_the_permit() {
    let setup = Setup::new(Mode::Ready);
    let (response, charge) = charge_of(&setup.layer()).await;
    drop(response);
    assert_eq!(setup.held().await, 0);
    assert!(charge.take_permit().is_none());
}

#[tokio::test]
async fn the_permit_of_one_policy_can_be_taken_alone() {
    let setup = Setup::new(Mode::Ready);
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(9));
    let layer = setup.layer().and(Concurrency::new("all", 9)).and(hourly);
    let (response, charge) = charge_of(&layer).await;
    assert!(charge.for_policy("hourly").unwrap().take_permit().is_none());
    let exports = charge.for_policy("exports").unwrap().take_permit().unwrap();
    assert_eq!((names(&exports), names(&charge.take_permit().unwrap())), (vec!["exports"], vec!["all"]));
    drop(response);
    assert_eq!(setup.held().await, 1);
}

#[tokio::test]
async fn nested_layers_hold_a_permit_each() {
    let setup = Setup::new(Mode::Ready);
    let outer = RateLimitLayer::new(Arc::clone(&setup.registry), Concurrency::new("all", 1).by(Global));
    let inner = setup.layer();
    let service = outer.layer(inner.layer(service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        let outer = charge.outer().unwrap().take_permit();
        Ok::<_, Infallible>(Response::new(outer.map(|outer| names(&outer).join(" ")).unwrap_or_default()))
    })));
    let response = service.oneshot(request()).await.unwrap();
    assert_eq!(setup.seen(), ["released"], "the one that was taken");
    assert_eq!(setup.held().await, 1);
    drop(response);
    assert_eq!(setup.held().await, 0);
}

#[tokio::test]
async fn corrections_of_a_charge_do_not_affect_permits() {
    let setup = Setup::new(Mode::Ready);
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(9));
    let (response, charge) = charge_of(&setup.layer().and(hourly)).await;
    let remaining = |charge: &Charge| charge.for_policy("hourly").unwrap().decision().remaining();
    assert!(charge.charge_more(2).await.unwrap().is_allowed());
    assert_eq!((remaining(&charge), setup.held().await), (6, 1));
    assert!(charge.check(1).await.is_ok());
    let mut meter = charge.meter(2);
    meter.check(1).await.unwrap();
    meter.finish().await.unwrap();
    assert_eq!(setup.held().await, 1, "a message is no request");
    charge.settle(5).await.unwrap();
    assert_eq!((remaining(&charge), setup.held().await), (4, 1));
    drop(response);
    assert_eq!(setup.held().await, 0);

    let (response, charge) = charge_of(&setup.layer()).await;
    charge.refund().await.unwrap();
    assert_eq!(setup.held().await, 1);
    assert_eq!(charge.decision().remaining(), LIMIT - 1);
    drop(response);
    assert_eq!(setup.held().await, 0);
}

#[tokio::test]
async fn a_check_holds_its_permit_until_its_charge_is_dropped() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let exports = EXPORTS;
        let check = || CheckBuilder::new(&setup.registry, &exports).by_key(global());
        let charge = check().await.unwrap();
        let clone = charge.clone();
        drop(charge);
        assert_eq!(setup.held().await, 1);
        drop(clone);
        assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]), "{mode:?}");

        let permit = check().await.unwrap().take_permit().unwrap();
        assert_eq!(setup.held().await, 1);
        drop(permit);
        let mut leaves = Box::pin(check().into_future());
        if mode == Mode::Later {
            assert!(leaves.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(leaves);
        while setup.held_now().await > 0 {
            tokio::task::yield_now().await;
        }
        let denied = check().cost(LIMIT + 1).await.unwrap_err();
        assert_eq!(denied.status(), 400);
        let _all = check().cost(LIMIT).await.unwrap();
        let denied = check().await.unwrap_err();
        assert_eq!((denied.status().as_u16(), denied.retry_after()), (429, None));
        assert_eq!(denied.to_string(), "too many requests are in progress");
    }
}

#[tokio::test]
async fn limits_that_are_off_hold_nothing() {
    let layer = RateLimitLayer::new(Arc::new(Registry::off()), EXPORTS.by(Global));
    let (_response, charge) = charge_of(&layer).await;
    assert!(charge.take_permit().is_none());
}
