//! A store that cannot answer.

use std::sync::atomic::Ordering::Relaxed;

use portcullis_core::{Clock, FailureMode, Timestamp};
use portcullis_memory::Fallback;

use super::*;

struct StoreClock(Arc<TestStore>);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.micros.load(Relaxed))
    }
}

fn setup() -> Setup {
    let store = Arc::<TestStore>::default();
    let fallback = Fallback::builder(Arc::clone(&store)).clock(StoreClock(Arc::clone(&store))).build();
    Setup::of(Arc::clone(&store), Arc::new(Registry::new(Arc::new(fallback), Secret::published())))
}

fn layer(setup: &Setup, mode: FailureMode) -> RateLimitLayer {
    let exports = Concurrency::new("exports", 4).on_store_failure(mode);
    RateLimitLayer::new(Arc::clone(&setup.registry), exports.by(Global))
}

async fn status(layer: &RateLimitLayer) -> u16 {
    respond(layer, &[]).await.status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn each_instance_has_its_share_in_an_outage() {
    let setup = setup();
    let layer = layer(&setup, FailureMode::local(2));
    setup.store.set(Mode::Down);
    let first = [respond(&layer, &[]).await, respond(&layer, &[]).await];
    assert_eq!(first.each_ref().map(|response| response.status().as_u16()), [200, 200]);
    assert_eq!(status(&layer).await, 429);
    let [one, other] = first;
    drop(one);
    assert_eq!(status(&layer).await, 200, "what was taken here is released here");

    for _ in 0..90 {
        setup.store.micros.fetch_add(1_000_000, Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let held = respond(&layer, &[]).await;
    assert_eq!((held.status().as_u16(), status(&layer).await), (200, 429), "and renewed here");
    setup.store.set(Mode::Ready);
    drop((held, other));
    setup.store.set(Mode::Down);
    let both = (respond(&layer, &[]).await, respond(&layer, &[]).await);
    assert_eq!((both.0.status().as_u16(), both.1.status().as_u16()), (200, 200));
    assert!(setup.seen().iter().all(|event| *event == "released"));
}

#[tokio::test]
async fn an_open_policy_takes_no_permit_and_a_closed_one_rejects() {
    let setup = setup();
    setup.store.set(Mode::Down);
    let open = layer(&setup, FailureMode::Open);
    let mut responses = Vec::new();
    for _ in 0..9 {
        responses.push(respond(&open, &[]).await);
        assert_eq!(responses.last().unwrap().status(), 200);
    }
    responses.clear();
    assert_eq!(setup.seen(), Vec::<&str>::new());
    let setup = self::setup();
    setup.store.set(Mode::Down);
    assert_eq!(status(&layer(&setup, FailureMode::Closed)).await, 503);
}

#[tokio::test(start_paused = true)]
async fn permits_of_an_instance_do_not_lapse_with_those_of_the_store() {
    let setup = setup();
    let layer = layer(&setup, FailureMode::local(1));
    let (_stored, charge) = super::tasks::charge_of(&layer).await;
    let stored = charge.take_permit().unwrap();
    setup.store.set(Mode::Down);
    let (_local, charge) = super::tasks::charge_of(&layer).await;
    let local = charge.take_permit().unwrap();
    for _ in 0..45 {
        setup.store.micros.fetch_add(1_000_000, Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!((stored.has_lapsed(), local.has_lapsed()), (true, false));
}
