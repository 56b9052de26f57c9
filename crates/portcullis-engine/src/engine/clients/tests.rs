use std::sync::Mutex;

use portcullis_core::overrides::BlockedClients;
use portcullis_core::store::Store;
use portcullis_core::{ManualClock, Quota, Receipt, Retry, Secret, Settlement, Verdict};
use portcullis_memory::MemoryStore;

use super::*;
use crate::engine::Limits;
use crate::{Ask, Attempt, Event, EventKind, Limit, Now, Patience, now};

const HOUR: Duration = Duration::from_secs(3_600);
const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(5));
const ALL: Policy = Policy::gcra("all", Quota::per_second(5));

fn key(parts: &[&str]) -> Key {
    let mut hasher = Secret::published().hasher();
    for part in parts {
        hasher.writer().part("user", part.as_bytes());
    }
    hasher.finish().unwrap()
}

fn engine(store: impl Store, clock: &ManualClock) -> Engine {
    Engine::with_clock(Arc::new(store), Arc::new(clock.clone()))
}

fn block(client: Key, length: Duration) -> ClientChange {
    ClientChange { client, length: Some(length) }
}

/// A store that several limiters share, of which only the list is used.
#[derive(Clone, Default)]
struct SharedList(Arc<Mutex<(Timestamp, BlockedClients)>>);

impl Store for SharedList {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let results = checks.iter().map(|_| ServerResult::NotAsked);
        StoreFuture::ready(Ok(Outcome::partial(checks.clone(), results, None).unwrap()))
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        unreachable!("nothing is charged")
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unreachable!("nothing is charged")
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unreachable!("nothing is charged")
    }

    fn blocked_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        let (now, blocked) = &mut *self.0.lock().unwrap();
        assert!(change.is_none_or(|change| blocked.change(change, *now)));
        StoreFuture::ready(Ok(Some((*now, blocked.clone()))))
    }
}

#[tokio::test]
async fn blocked_client_is_denied_under_each_policy() {
    let clock = ManualClock::default();
    let engine = engine(MemoryStore::builder().clock(clock.clone()).build(), &clock);
    let (ada, grace) = (key(&["ada"]), key(&["grace"]));
    assert_eq!(engine.change_client(block(ada, HOUR)).await, Ok(BlockReach::Limiter));
    assert_eq!(engine.reach(), BlockReach::Limiter);
    for (policy, key, is_blocked) in [
        (DAILY, ada, true),
        (ALL, ada, true),
        (ALL, self::key(&["ada", "search"]), true),
        (ALL, grace, false),
    ] {
        let answer = engine.check(Checks::one(policy.clone(), key, 1)).await.unwrap();
        assert_eq!((answer.is_allowed(), answer.decision().is_blocked()), (!is_blocked, is_blocked));
        let ready = engine.check_now(&policy, key, 0).unwrap().unwrap();
        assert_eq!(ready.decision.is_blocked(), is_blocked);
    }
    // Nothing is charged under the policies of others, nor under that of the client.
    let both = Checks::one(DAILY, grace, 1).and(ALL, ada, 1).unwrap();
    let denied = engine.check(both).await.unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().policy().as_str()), (false, "all"));
    assert_eq!(denied.decision().verdict(), Verdict::Deny(Retry::After(HOUR)));
    assert_eq!(engine.check(Checks::one(DAILY, grace, 1)).await.unwrap().into_decision().remaining(), 4);
    clock.advance(HOUR);
    assert_eq!(engine.check(Checks::one(DAILY, ada, 1)).await.unwrap().into_decision().remaining(), 4);
    assert_eq!(engine.blocked_clients(), []);
}

#[tokio::test]
async fn blocked_client_shows_no_state_of_the_store() {
    let clock = ManualClock::default();
    let engine = Arc::new(engine(MemoryStore::builder().clock(clock.clone()).build(), &clock));
    let (ada, grace) = (key(&["ada"]), key(&["grace"]));
    engine.change_client(block(ada, HOUR)).await.unwrap();
    let recovered = Arc::<AtomicBool>::default();
    let seen = Arc::clone(&recovered);
    engine.observers().add(Arc::new(move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::StoreRecovered) {
            seen.store(true, Relaxed);
        }
    }));
    let limits = Arc::new(Limits::new(engine, vec![Limit::new(DAILY), Limit::new(ALL)]));
    limits.emit_store_state(Some(&StoreError::new(StoreErrorKind::Unavailable, "no connection")));
    clock.advance(HOUR / 2);
    let ask = |user, policies| {
        let mut ask = Ask::new(&limits);
        (0..policies).for_each(|index| ask.add(&limits, index, user, 1));
        ask
    };
    for policies in [1, 2] {
        assert!(matches!(now::decide(&limits, &ask(ada, policies)), Now::Rejected(_)));
        let mut attempt = Attempt::new(&limits, None, Patience::default());
        assert!(attempt.check(ask(ada, policies), None).await.is_err());
        assert!(!recovered.load(Relaxed) && limits.is_store_failing());
    }
    assert!(matches!(now::decide(&limits, &ask(grace, 2)), Now::All(_)));
    assert!(recovered.load(Relaxed) && !limits.is_store_failing());
}

#[tokio::test]
async fn list_of_a_process_is_bounded() {
    let clock = ManualClock::default();
    let engine = engine(MemoryStore::builder().clock(clock.clone()).build(), &clock);
    for client in 0..BlockedClients::MAX {
        engine.change_client(block(key(&[&client.to_string()]), HOUR)).await.unwrap();
    }
    let error = engine.change_client(block(key(&["one more"]), HOUR)).await.unwrap_err();
    assert!(error.to_string().contains("256 clients"), "{error}");
    assert_eq!(engine.blocked_clients().len(), BlockedClients::MAX);
    engine.change_client(ClientChange { client: key(&["0"]), length: None }).await.unwrap();
    assert!(engine.change_client(block(key(&["one more"]), HOUR)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn other_limiters_follow_the_list_of_the_store() {
    let store = SharedList::default();
    // The clock of the store is another one.
    store.0.lock().unwrap().0 = Timestamp::from_micros(77);
    let ada = key(&["ada"]);
    let [one, other] = [0, 1].map(|_| Arc::new(Engine::new(Arc::new(store.clone()))));
    other.follow_clients();
    other.follow_clients();
    assert_eq!(one.change_client(block(ada, HOUR)).await, Ok(BlockReach::Store));
    assert_eq!(one.reach(), BlockReach::Store);
    let is_blocked =
        async |engine: &Engine| engine.check(Checks::one(ALL, ada, 1)).await.unwrap().decision().is_blocked();
    assert!(is_blocked(&one).await);
    tokio::time::sleep(FOLLOW_EVERY * 2).await;
    assert!(is_blocked(&other).await);
    assert_eq!(other.blocked_clients().len(), 1);

    // A process that starts reads the list at once.
    let third = Arc::new(Engine::new(Arc::new(store.clone())));
    third.follow_clients();
    tokio::task::yield_now().await;
    assert!(is_blocked(&third).await);

    one.change_client(ClientChange { client: ada, length: None }).await.unwrap();
    tokio::time::sleep(FOLLOW_EVERY * 2).await;
    assert!(!is_blocked(&other).await && !is_blocked(&third).await);

    // The tasks end with their engines.
    drop((one, other, third));
    tokio::time::sleep(FOLLOW_EVERY * 2).await;
    assert_eq!(Arc::strong_count(&store.0), 1);
}
