//! A flood of a process, of which a thread stands still again and again after it has begun a call and before it has sent it. The
//! deadlines of these calls pass by the fault of the process. That is no outage, so the limit holds in every failure mode.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::thread;

use portcullis::redis::RedisStore;
use portcullis::store::{Outcome, Store, StoreFuture};
use portcullis::{Secret, StoreError};
use portcullis_servers::{Fault, FaultProxy};
use portcullis_tests::AroundStore;

use super::*;

/// How a thread is blocked.
struct Stalls {
    /// For how long.
    length: Duration,
    /// How often it was, and until when.
    last: Mutex<(usize, Instant)>,
}

impl Stalls {
    fn new(length: Duration) -> Arc<Self> {
        Arc::new(Self { length, last: Mutex::new((0, Instant::now().checked_sub(PAUSE).unwrap())) })
    }

    fn count(&self) -> usize {
        self.last.lock().unwrap().0
    }

    fn stall(&self) {
        // Only one thread at a time.
        let Ok(mut last) = self.last.try_lock() else { return };
        if last.0 < STALLS && last.1.elapsed() >= PAUSE {
            thread::sleep(self.length);
            *last = (last.0 + 1, Instant::now());
        }
    }
}

/// A decision that blocks the thread when it has begun, if it has to wait.
struct Stalling {
    decision: Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send>>,
    has_begun: bool,
    stalls: Arc<Stalls>,
}

impl Future for Stalling {
    type Output = Result<Outcome, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.decision.as_mut().poll(context);
        if answer.is_pending() && !std::mem::replace(&mut self.has_begun, true) {
            self.stalls.stall();
        }
        answer
    }
}

/// Blocks the thread after some of the calls that it begins.
fn stalling(store: RedisStore, stalls: &Arc<Stalls>) -> impl Store {
    let stalls = Arc::clone(stalls);
    AroundStore::new(store, move |decide| {
        let (decision, stalls) = (Box::pin(decide()), Arc::clone(&stalls));
        StoreFuture::boxed(Stalling { decision, has_begun: false, stalls })
    })
}

async fn assert_limit_holds(mode: FailureMode, stall: Duration) {
    let redis = RedisServer::start().unwrap();
    // As if Redis were elsewhere: a reply takes longer than a few turns of this process.
    let proxy = FaultProxy::start(redis.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = RedisStore::builder(url).deadline(SHORT).connect().await.unwrap();
    proxy.set_fault(Fault::Delay(SHORT / 4));
    let stalls = Stalls::new(stall);
    let limiter = Limiter::new(stalling(store, &stalls), Secret::published());
    let server = LimitedServer::of(mode, redis, &limiter).await;
    let started = Instant::now();
    let mut answers = server.flood(5_000).await;
    while stalls.count() < STALLS || answers.limited == 0 {
        answers = server.flood(5_000).await;
    }
    println!("{mode}: {} handled, at last {answers:?}", server.runs());
    assert!(server.runs() <= LIMIT, "{mode}: {} handled", server.runs());
    let global = f64::from(server.global.load(Ordering::SeqCst));
    let most = f64::from(GLOBAL_RATE) * (started.elapsed().as_secs_f64() + 1.0) + 1.0;
    assert!(global <= most, "{mode}: {global} of {most}");
    assert_eq!(answers.other, 0, "{mode}: {answers:?}");
}

#[tokio::test]
async fn stalls_of_the_process_pass_no_request() {
    for mode in [
        FailureMode::Open,
        FailureMode::OpenFor(Duration::from_secs(2)),
        FailureMode::Closed,
        FailureMode::local(1),
    ] {
        assert_limit_holds(mode, SHORT * 6 / 5).await;
    }
}

/// The task that sends and reads waits behind the blocked one, and the timers of the other thread are exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalls_of_one_thread_pass_no_request() {
    assert_limit_holds(FailureMode::Open, SHORT * 12 / 5).await;
}

/// At the default deadline Redis itself may be late on a busy machine. Even in such an outage, a key that is known to be denied passes
/// only with checks that may have been charged: those without an answer.
async fn assert_denied_key_stays_denied(mode: FailureMode) {
    let redis = RedisServer::start().unwrap();
    let store = RedisStore::builder(redis.url()).connect_wait(DEADLINE).connect().await.unwrap();
    let stalls = Stalls::new(Duration::from_millis(120));
    let limiter = Limiter::new(stalling(store.clone(), &stalls), Secret::published());
    let server = LimitedServer::of(mode, redis, &limiter).await;
    let mut client = server.connect(Ipv4Addr::LOCALHOST).await;
    within_a_minute("denial by Redis", async {
        while send(&mut client, "/address").await != (StatusCode::TOO_MANY_REQUESTS, false) {}
    })
    .await;
    let unanswered = || {
        let mut count = 0;
        store.figures(&mut |figure| {
            if figure.name == "errors_timed_out" {
                count = u32::try_from(figure.value).unwrap();
            }
        });
        count
    };
    let before = (server.runs(), unanswered());
    let mut answers = server.flood(2_000).await;
    while stalls.count() < STALLS {
        answers = server.flood(2_000).await;
    }
    let (passed, unanswered) = (server.runs() - before.0, unanswered() - before.1);
    println!("{mode}: {passed} passed, {unanswered} without an answer, at last {answers:?}");
    assert!(passed <= unanswered, "{mode}: {passed} of {unanswered}");
    assert_eq!(answers.other, 0, "{mode}: {answers:?}");
}

#[tokio::test]
async fn default_deadline_keeps_denials() {
    for mode in [FailureMode::Open, FailureMode::Closed, FailureMode::local(1)] {
        assert_denied_key_stays_denied(mode).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_threads_keep_denials() {
    assert_denied_key_stays_denied(FailureMode::Open).await;
}

/// Redis may be late on a busy machine, but not as late as the process, which has no turn for longer.
const SHORT: Duration = Duration::from_secs(1);
const STALLS: usize = 3;
/// Between two stalls.
const PAUSE: Duration = Duration::from_millis(300);
