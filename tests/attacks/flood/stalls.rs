//! A flood of a process with one thread, which stands still again and again after it has begun a call and before it has sent it. The
//! deadlines of these calls pass by the fault of the process. That is no outage, so the limit holds in every failure mode.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::thread;

use portcullis::redis::RedisStore;
use portcullis::store::{Outcome, StoreFuture};
use portcullis::{Secret, StoreError};
use portcullis_servers::{Fault, FaultProxy};
use portcullis_tests::AroundStore;

use super::*;

/// How often the thread was blocked, and until when.
type Stalls = Arc<Mutex<(usize, Instant)>>;

/// A decision that blocks the thread when it has begun, if it has to wait.
struct Stalling {
    decision: Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send>>,
    has_begun: bool,
    stalls: Stalls,
}

impl Future for Stalling {
    type Output = Result<Outcome, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.decision.as_mut().poll(context);
        if answer.is_pending() && !std::mem::replace(&mut self.has_begun, true) {
            let mut stalls = self.stalls.lock().unwrap();
            if stalls.0 < STALLS && stalls.1.elapsed() >= PAUSE {
                thread::sleep(STALL);
                *stalls = (stalls.0 + 1, Instant::now());
            }
        }
        answer
    }
}

async fn assert_limit_holds(mode: FailureMode) {
    let redis = RedisServer::start().unwrap();
    // As if Redis were elsewhere: a reply takes longer than a few turns of this process.
    let proxy = FaultProxy::start(redis.port()).unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = RedisStore::builder(url).deadline(SHORT).connect().await.unwrap();
    proxy.set_fault(Fault::Delay(SHORT / 4));
    let stalls = Stalls::new(Mutex::new((0, Instant::now().checked_sub(PAUSE).unwrap())));
    let of_store = Arc::clone(&stalls);
    let stalling = AroundStore::new(store, move |decide| {
        let (decision, stalls) = (Box::pin(decide()), Arc::clone(&of_store));
        StoreFuture::boxed(Stalling { decision, has_begun: false, stalls })
    });
    let server = LimitedServer::of(mode, redis, &Limiter::new(stalling, Secret::published())).await;
    let started = Instant::now();
    let mut answers = server.flood(5_000).await;
    while stalls.lock().unwrap().0 < STALLS || answers.limited == 0 {
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
        assert_limit_holds(mode).await;
    }
}

/// Redis may be late on a busy machine, but not as late as the process, which has no turn for longer.
const SHORT: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_millis(1_200);
const STALLS: usize = 3;
/// Between two stalls.
const PAUSE: Duration = Duration::from_millis(300);
