//! A door of another kind: a plain function call is limited, without HTTP, a layer or a service.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::LockOut;
use portcullis_core::{Clock, Key, ManualClock, Policy, Quota, Secret};
use portcullis_engine::{
    Ask, Attempt, Engine, EventKind, Limit, Limits, Mode, Now, Patience, Reason, Rejected, now,
};
use portcullis_memory::MemoryStore;

fn limits(policy: Policy, mode: Mode) -> Arc<Limits> {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let engine = Arc::new(Engine::new(Arc::new(store)));
    engine.register(&policy).expect("the store has room");
    let limit = Limit { mode, ..Limit::new(policy) };
    Arc::new(Limits::new(engine, vec![limit]))
}

fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().expect("there is a part")
}

/// Calls a function if the limits admit it, once it is its turn.
async fn limited<T>(limits: &Arc<Limits>, user: &str, function: impl FnOnce() -> T) -> Result<T, Rejected> {
    let mut ask = Ask::new(limits);
    ask.add(limits, 0, key(user), 1);
    let call = if ask.is_decided_by_answer(limits) {
        match now::decide(limits, &ask) {
            Now::One(..) | Now::All(_) => return Ok(function()),
            Now::Rejected(rejected) => return Err(rejected),
            Now::Later(call) => call,
        }
    } else {
        None
    };
    let mut attempt = Attempt::new(limits, None, Patience::default());
    attempt.check(ask, call).await?;
    let _admitted = attempt.admit().await?;
    Ok(function())
}

#[tokio::test]
async fn call_beyond_the_limit_is_not_made() {
    let limits = limits(Policy::fixed_window("calls", Quota::per_hour(2)), Mode::Enforce);
    for expected in [1, 2] {
        assert_eq!(limited(&limits, "ada", || expected).await.ok(), Some(expected));
    }
    let rejected = limited(&limits, "ada", || unreachable!("it is limited")).await.unwrap_err();
    assert_eq!((rejected.reason(), rejected.decisions()[0].remaining()), (Reason::Limited, 0));
    assert!(limited(&limits, "bob", || ()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn queued_call_waits_for_its_slot() {
    let limits = limits(Policy::leaky_bucket("calls", Quota::per_second(1).burst(2)), Mode::Enforce);
    let start = tokio::time::Instant::now();
    let calls = [(); 2].map(|()| limited(&limits, "ada", || start.elapsed()));
    let [first, second] = calls;
    assert_eq!(first.await.ok(), Some(Duration::ZERO));
    assert!(second.await.ok() >= Some(Duration::from_secs(1)));
}

#[tokio::test]
async fn shadow_limit_lets_every_call_through() {
    let limits = limits(Policy::fixed_window("planned", Quota::per_hour(1)), Mode::Shadow);
    let would_reject = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = Arc::clone(&would_reject);
    limits.engine().observers().add(Arc::new(move |event: &portcullis_engine::Event<'_>| {
        if let EventKind::ShadowWouldReject { .. } = event.kind {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }));
    for _ in 0..3 {
        assert!(limited(&limits, "ada", || ()).await.is_ok());
    }
    assert_eq!(would_reject.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[tokio::test]
async fn trial_counts_no_denial_for_a_lock_out() {
    let policy = Policy::fixed_window("calls", Quota::per_minute(1)).allow_overrides();
    let enforcing = limits(policy.clone(), Mode::Enforce);
    let hour = Duration::from_secs(3_600);
    let rule = LockOut::after(2).within(hour).block_for(hour);
    let lock_out = enforcing.engine().set_lock_out(&policy, rule).expect("the store blocks keys");
    let limit = Limit { lock_out: Some(lock_out), ..Limit::new(policy) };
    let enforcing = Arc::new(enforcing.with_policies(vec![limit]));
    let trial = Arc::new(enforcing.in_trial());
    assert!(limited(&enforcing, "ada", || ()).await.is_ok());
    for _ in 0..3 {
        assert_eq!(limited(&trial, "ada", || ()).await.unwrap_err().reason(), Reason::Limited);
    }
    let mut reasons = Vec::new();
    for _ in 0..3 {
        reasons.push(limited(&enforcing, "ada", || ()).await.unwrap_err().reason());
    }
    assert_eq!(reasons, [Reason::Limited, Reason::Limited, Reason::Blocked]);
}

/// Without a runtime: what is answered at once needs none, and the time is that of a clock that is set.
#[test]
fn call_is_decided_at_the_time_it_is_given() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let engine = Arc::new(Engine::with_clock(Arc::new(store), Arc::clone(&clock) as Arc<dyn Clock>));
    let policy = Policy::fixed_window("calls", Quota::per_minute(1));
    engine.register(&policy).expect("the store has room");
    let limits = Arc::new(Limits::new(Arc::clone(&engine), vec![Limit::new(policy.clone())]));
    let decide = || {
        let mut ask = Ask::new(&limits);
        ask.add(&limits, 0, key("ada"), 1);
        now::decide(&limits, &ask)
    };
    assert!(matches!(decide(), Now::One(_, ready) if ready.decision.remaining() == 0));
    assert!(matches!(decide(), Now::Rejected(_)));
    clock.advance(Duration::from_secs(60));
    let Now::One(asked, ready) = decide() else { panic!("a new window has begun") };
    assert_eq!(engine.now(), ready.decision.at());
    let receipt = asked.outcome(&limits, ready).into_receipts().next().expect("it was charged");
    let refunded = limits.refund(receipt).into_ready().expect("the store is in memory").unwrap();
    assert_eq!(refunded.remaining(), 1);
}
