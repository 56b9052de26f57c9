//! Policies that are in shadow for a share of their keys, and off for the others.

use portcullis_tower::QuotaLookup;

use super::*;

#[tokio::test]
async fn shadow_for_a_share_limits_nobody() {
    let enforced = layer(&registry(), by_user("planned").enforce(TENTH)).layer(Probe::default());
    let in_share = limited(&enforced, 0..300).await;

    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let service = layer(&registry, by_user("planned").shadow_for(TENTH)).layer(Probe::default());
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        if let EventKind::ShadowWouldReject { decision } = event.kind {
            seen.lock().unwrap().push(decision.policy().to_string());
        }
    }));
    let mut tried = Vec::new();
    for user in 0..300 {
        let asked = store.asked.load(Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(send(&service, from(user)).await.status, 200);
        }
        let names = std::mem::take(&mut *events.lock().unwrap());
        match store.asked.load(Ordering::Relaxed) - asked {
            0 => assert!(names.is_empty(), "user {user} is not in the share"),
            2 => {
                assert_eq!(names, ["planned"]);
                tried.push(user);
            }
            calls => panic!("{calls} calls of the store"),
        }
    }
    assert_eq!(tried, in_share, "the clients are those that a share limits");
    // Without an identity a request is in no share.
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(store.asked.load(Ordering::Relaxed), 2 * tried.len());

    registry.set_mode(&PolicyName::literal("planned"), Mode::ShadowPercent(Percent::ALL)).unwrap();
    send(&service, from(500)).await;
    assert_eq!(store.asked.load(Ordering::Relaxed), 2 * tried.len() + 1, "all clients are in the share");
}

#[tokio::test]
async fn look_up_of_quota_is_left_out_beyond_the_share() {
    let looked_up = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&looked_up);
    let quotas = QuotaLookup::new(move |_: &http::request::Parts| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok(None) }
    });
    let quota = Quota::per_day(1);
    let limit = policy("planned").caller_quotas(quota, quota).by(Extension::<User>::new());
    let service = layer(&registry(), limit.quota_by_async(quotas).shadow_for(TENTH)).layer(Probe::default());
    let mut tried = 0;
    for user in 0..100 {
        send(&service, from(user)).await;
        tried += usize::from(by_share(user));
    }
    assert!(tried > 0);
    assert_eq!(looked_up.load(Ordering::Relaxed), tried);
}

/// Whether a user is in the tenth of "planned".
fn by_share(user: u32) -> bool {
    let mut hasher = portcullis_core::Secret::published().hasher();
    hasher.writer().part(std::any::type_name::<User>(), User(user).as_ref());
    TENTH.includes(&policy("planned"), hasher.finish().unwrap())
}
