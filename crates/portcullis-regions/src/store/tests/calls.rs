//! Which calls are made, and what happens to them.

use portcullis_core::{Concurrency, FailureMode, Quota};
use portcullis_memory::Fallback;

use super::*;

const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(100));

struct World {
    clock: ManualClock,
    region: Link,
    home: Link,
    store: RegionalStore,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(3_600_000_000));
        let hops = Arc::default();
        let (region, home) = (Link::new(&clock, &hops, false), Link::new(&clock, &hops, true));
        let store =
            RegionalStore::builder(region.clone(), home.clone(), shares()).name("eu").build().unwrap();
        Self { clock, region, home, store }
    }

    async fn check(&self, policy: &Policy, cost: u64) -> Outcome {
        let outcome = self.store.check(Checks::one(policy.clone(), key(), cost)).await.unwrap();
        settle_down().await;
        outcome
    }

    /// Sends requests until one is denied, and returns the number of those before.
    async fn admitted(&self) -> u64 {
        let mut admitted = 0;
        while self.check(&DAILY, 1).await.is_allowed() {
            admitted += 1;
        }
        admitted
    }

    /// Lets the message on its way arrive, or not.
    async fn message(&self, arrives: bool) {
        let hop = self.home.hops.lock().unwrap().remove(0);
        let _ = hop.send(arrives);
        settle_down().await;
    }

    fn figure(&self, name: &str) -> u64 {
        let mut found = None;
        self.store.figures(&mut |figure| {
            if figure.name == name {
                found = Some(figure.value);
            }
        });
        found.unwrap()
    }

    fn left_at_home(&self) -> u64 {
        let peek = Checks::one(shares().home(&DAILY).unwrap(), key(), 0);
        self.home.store.check(peek).into_ready().unwrap().unwrap().decision().remaining()
    }
}

#[tokio::test(start_paused = true)]
async fn decisions_do_not_wait_for_home() {
    let world = World::new();
    // Home does not answer: the region has its share.
    assert_eq!(world.admitted().await, 10);
    assert_eq!((world.home.checks.load(Ordering::SeqCst), world.figure("purchases_pending")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn bought_units_are_credited_once() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    // To home and back, and to the region's store and back.
    for left in [70, 67, 67, 67] {
        assert_eq!(world.left_at_home(), left);
        world.message(true).await;
    }
    assert_eq!([world.figure("units_bought"), world.figure("units_credited")], [3, 3]);
    let outcome = world.check(&DAILY, 1).await;
    assert_eq!((outcome.decision().limit(), outcome.decision().remaining()), (80, 2 + 67));
    assert_eq!(outcome.checks().iter().next().unwrap().policy, DAILY);
}

#[tokio::test(start_paused = true)]
async fn units_of_unknown_fate_at_home_are_not_credited() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    world.message(true).await;
    world.message(false).await;
    assert_eq!((world.left_at_home(), world.region.refunds.load(Ordering::SeqCst)), (67, 0));
    assert_eq!((world.figure("purchases_failed"), world.figure("home_unreachable")), (1, 1));
    // After a pause there is another purchase.
    assert!(!world.check(&DAILY, 1).await.is_allowed());
    assert_eq!(world.figure("purchases"), 1);
    tokio::time::advance(Duration::from_millis(50)).await;
    assert!(!world.check(&DAILY, 1).await.is_allowed());
    for _ in 0..4 {
        world.message(true).await;
    }
    assert_eq!((world.figure("units_credited"), world.figure("home_unreachable")), (8, 0));
    assert_eq!(world.left_at_home(), 59);
}

#[tokio::test(start_paused = true)]
async fn a_credit_of_unknown_fate_is_not_repeated() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    world.message(true).await;
    world.message(true).await;
    world.message(true).await;
    world.message(false).await;
    assert_eq!((world.figure("units_lost"), world.figure("units_credited")), (3, 0));
    assert_eq!(
        (world.region.refunds.load(Ordering::SeqCst), world.home.refunds.load(Ordering::SeqCst)),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_credit_that_was_not_made_is_returned_to_home() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    world.message(true).await;
    world.message(true).await;
    world.message(false).await;
    world.message(true).await;
    assert_eq!(world.left_at_home(), 70);
    world.message(true).await;
    assert_eq!((world.figure("units_returned"), world.figure("units_lost")), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_credit_in_a_later_window_frees_nothing() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    world.message(true).await;
    world.message(true).await;
    world.clock.advance(Duration::from_hours(24));
    assert!(world.check(&DAILY, 3).await.is_allowed());
    world.message(true).await;
    let remaining = world.region.store.check(Checks::one(shares().region(&DAILY).unwrap(), key(), 0));
    assert_eq!(remaining.into_ready().unwrap().unwrap().decision().remaining(), 7);
}

#[tokio::test(start_paused = true)]
async fn units_of_another_window_of_home_are_returned() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    // The charge is of the next window of home.
    world.clock.advance(Duration::from_hours(24));
    world.message(true).await;
    world.message(true).await;
    assert_eq!(world.left_at_home(), 67);
    world.message(true).await;
    world.message(true).await;
    assert_eq!((world.figure("units_returned"), world.left_at_home()), (3, 70));
    assert_eq!(world.region.refunds.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_the_deadline() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    tokio::time::advance(Duration::from_secs(2)).await;
    settle_down().await;
    assert_eq!((world.figure("purchases_failed"), world.figure("purchases_pending")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_purchases_on_their_way() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    let drain = tokio::spawn(world.store.drain());
    for _ in 0..4 {
        settle_down().await;
        assert!(!drain.is_finished());
        assert_eq!([world.region.drains(), world.home.drains()], [0, 0]);
        world.message(true).await;
    }
    drain.await.unwrap().unwrap();
    assert_eq!([world.region.drains(), world.home.drains()], [1, 1]);
    assert_eq!((world.figure("units_credited"), world.figure("purchases_pending")), (3, 0));
    // The store goes on.
    while world.check(&DAILY, 1).await.is_allowed() {}
    assert_eq!((world.figure("purchases"), world.figure("purchases_refused")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_dropped_holds_nothing_up() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    assert!(tokio::time::timeout(Duration::from_millis(1), world.store.drain()).await.is_err());
    for _ in 0..4 {
        world.message(true).await;
    }
    while world.check(&DAILY, 1).await.is_allowed() {}
    assert_eq!((world.figure("purchases"), world.figure("purchases_refused")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refund_frees_a_unit_in_the_region() {
    let world = World::new();
    let mut receipts: Vec<Receipt> = Vec::new();
    for _ in 0..4 {
        receipts.extend(world.check(&DAILY, 1).await.into_receipts());
    }
    let refund = world.store.refund(receipts.pop().unwrap());
    settle_down().await;
    world.message(true).await;
    world.message(true).await;
    assert_eq!(refund.await.unwrap().remaining(), 7 + 70);
    // A settlement keeps the policy, and its charges are bought as well.
    let settlement = world.store.settle(receipts.pop().unwrap(), 4).await.unwrap();
    assert_eq!(settlement.receipt.unwrap().policy(), &DAILY);
    settle_down().await;
    assert_eq!(world.figure("purchases"), 1);
    world.message(true).await;
    assert_eq!(world.left_at_home(), 66);
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_one_of_the_region_and_of_home() {
    let world = World::new();
    assert_eq!(world.admitted().await, 10);
    for _ in 0..4 {
        world.message(true).await;
    }
    world.store.reset(&DAILY, key()).await.unwrap();
    assert_eq!((world.left_at_home(), world.check(&DAILY, 0).await.decision().remaining()), (70, 80));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_bought_is_never_bought() {
    let world = World::new();
    let exports = Concurrency::new("exports", 30).policy();
    assert!(world.check(&exports, 10).await.is_allowed());
    let denied = world.check(&exports, 1).await;
    assert_eq!((denied.is_allowed(), denied.decision().limit()), (false, 10));
    assert_eq!(world.home.checks.load(Ordering::SeqCst), 0);
    let error = world.store.register(&Policy::gcra("search", Quota::per_second(1))).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn blocks_are_those_of_the_region_and_grants_are_refused() {
    let world = World::new();
    let policy = DAILY.allow_overrides();
    world.store.block(&policy, key(), Duration::from_secs(9)).await.unwrap();
    assert!(world.check(&policy, 1).await.decision().is_blocked());
    let grant = world.store.set_grant(&policy, key(), Some((Quota::per_day(500), Duration::from_secs(9))));
    assert_eq!(grant.await.unwrap_err().kind(), StoreErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn a_home_behind_a_fallback_sells_nothing_while_it_fails() {
    let clock = ManualClock::new(Timestamp::from_micros(3_600_000_000));
    let hops = Arc::default();
    let (region, home) = (Link::new(&clock, &hops, false), Link::new(&clock, &hops, true));
    let home = Fallback::builder(home).clock(clock.clone()).build();
    let store = RegionalStore::builder(region.clone(), home, shares()).build().unwrap();
    let policy = DAILY.on_store_failure(FailureMode::local(1));
    for _ in 0..10 {
        assert!(store.check(Checks::one(policy.clone(), key(), 1)).await.unwrap().is_allowed());
    }
    settle_down().await;
    let request = hops.lock().unwrap().remove(0);
    let _ = request.send(false);
    settle_down().await;
    assert_eq!(region.refunds.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_does_not_free_a_bought_unit_for_a_refund() {
    let world = World::new();
    let log = Policy::sliding_log("log", Quota::per_day(100));
    let mut receipts: Vec<Receipt> = Vec::new();
    for _ in 0..5 {
        receipts.extend(world.check(&log, 1).await.into_receipts());
        world.clock.advance(Duration::from_millis(1));
    }
    let left = || {
        let peek = Checks::one(shares().region(&log).unwrap(), key(), 0);
        world.region.store.check(peek).into_ready().unwrap().unwrap().decision().remaining()
    };
    for _ in 0..4 {
        world.message(true).await;
    }
    // The newest three were bought, and are not in the log any more.
    assert_eq!((world.figure("units_credited"), left()), (3, 8));
    // Newest first.
    for left_then in [8, 8, 8, 9, 10] {
        let refund = world.store.refund(receipts.pop().unwrap());
        settle_down().await;
        world.message(true).await;
        world.message(true).await;
        let _ = refund.await.unwrap();
        assert_eq!(left(), left_then);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_on_buying_after_a_panic_of_a_store() {
    let world = World::new();
    world.region.panics.store(true, Ordering::SeqCst);
    assert_eq!(world.admitted().await, 10);
    world.message(true).await;
    world.message(true).await;
    assert_eq!((world.figure("purchases"), world.figure("purchases_pending")), (1, 0));
    assert!(!world.check(&DAILY, 1).await.is_allowed());
    assert_eq!((world.figure("purchases"), world.figure("purchases_pending")), (2, 1));
    for _ in 0..4 {
        world.message(true).await;
    }
    assert!(world.check(&DAILY, 1).await.is_allowed());
}
