//! Random operations of many threads on shared keys leave exactly the units that they should.

mod history;
mod model;
mod operators;
mod requests;
mod world;

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{FixedWindow, Key, Policy, PolicySettings, Quota, Secret};
use portcullis_tower::{
    Charge, CheckBuilder, Header, Limit, OnAbort, PolicyExt as _, RateLimitLayer, Registry, ResponseOutcome,
    Usage,
};
use tokio::task::yield_now;
use tower::util::BoxCloneService;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use crate::support::{Mode, TestStore, registry_of};
use model::{Act, End, KEYS, LIMIT, Plan, Random, SCARCE, Totals, Track};

const THREADS: u64 = 8;
const TASKS: u64 = 6;
const OPERATIONS: usize = 150;

fn policy(name: &str) -> Policy {
    let limit = if name == "scarce" { SCARCE } else { LIMIT };
    Policy::try_new(name, FixedWindow::new(Quota::per_day(limit)), PolicySettings::default()).unwrap()
}

fn is_refused(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.grpc_status().map_or(outcome.status() == 401, |status| status == 16)
}

fn layer(registry: &Arc<Registry>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), limit).with_charge()
}

fn limit(name: &str) -> Limit {
    policy(name).by(Header::named("x-key"))
}

fn key(number: usize) -> Key {
    use portcullis_tower::KeyExtractor as _;

    let mut hasher = Secret::published().hasher();
    let request = Request::builder().header("x-key", KEYS[number]).body(()).unwrap();
    let _ = Header::named("x-key").extract(&request.into_parts().0, &mut hasher.writer()).unwrap();
    hasher.finish().unwrap()
}

/// Records which of the nested services were called, and which have responded.
#[derive(Clone)]
struct Marker<S>(usize, S);

impl<S> Service<Request<String>> for Marker<S>
where
    S: Service<Request<String>, Error = &'static str>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.1.poll_ready(cx)
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let (index, track) = (self.0, Arc::clone(request.extensions().get::<Arc<Track>>().unwrap()));
        track.called[index].store(true, SeqCst);
        let response = self.1.call(request);
        Box::pin(async move {
            let response = response.await;
            track.responded[index].store(response.is_ok(), SeqCst);
            response
        })
    }
}

/// Data frames that are counted, then trailers.
struct Frames {
    left: u64,
    usage: Usage,
    trailers: Option<HeaderMap>,
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left > 0 {
            self.left -= 1;
            self.usage.add(2);
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

/// Counts before the first await, since a request may be dropped there.
fn handle(
    request: &Request<String>,
) -> impl Future<Output = Result<Response<Frames>, &'static str>> + Send + use<> {
    let track = Arc::clone(request.extensions().get::<Arc<Track>>().unwrap());
    let usage = request.extensions().get::<Usage>().unwrap().clone();
    let charge = request.extensions().get::<Charge>().unwrap().clone();
    let plan = track.plan;
    plan.tokens.inspect(|units| usage.add(*units));
    plan.both.inspect(|units| usage.outer().unwrap().add(*units));
    *track.charge.lock().unwrap() = Some(charge.clone());
    async move {
        if let Some((level, act)) = plan.act {
            let outer = charge.outer().unwrap();
            let charge = [&charge, outer, outer.outer().unwrap()][level];
            track.is_acting.store(true, SeqCst);
            track.has_acted.store(true, SeqCst);
            match act {
                Act::Settle(0) => charge.refund().await.unwrap(),
                Act::Settle(units) => drop(charge.settle(units).await.unwrap()),
                Act::More(units) => drop(charge.charge_more(units).await.unwrap()),
            }
            track.is_acting.store(false, SeqCst);
        }
        for _ in 0..plan.yields {
            yield_now().await;
        }
        match plan.end {
            End::Error => return Err("broken"),
            // Without a message on standard error.
            End::Panic => std::panic::resume_unwind(Box::new("a bug in a handler")),
            End::Respond => {}
        }
        let status = HeaderValue::from_static(if plan.is_refused { "16" } else { "0" });
        let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status)]);
        let trailers = plan.is_grpc.then_some(trailers);
        let mut response = Response::new(Frames { left: plan.frames, usage, trailers });
        if plan.is_grpc {
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        } else if plan.is_refused {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        Ok(response)
    }
}

type Body3 =
    portcullis_tower::ResponseBody<portcullis_tower::ResponseBody<portcullis_tower::ResponseBody<Frames>>>;
type Stack = BoxCloneService<Request<String>, Response<Body3>, &'static str>;

/// Three layers: by outcome, by both on one policy, and a reservation.
fn stack(registry: &Arc<Registry>) -> Stack {
    let outcome = layer(registry, limit("guesses").charge_when(is_refused));
    let outcome =
        outcome.and(Limit::new(policy("looked")).charge_when(is_refused).charge_after_at_most(1_024));
    let both = limit("both").reserve_or(10, OnAbort::Nothing).charge_when(is_refused);
    let reserved = layer(registry, limit("calls")).and(Limit::new(policy("tokens")).reserve(10));
    let inner = layer(registry, both)
        .layer(Marker(1, reserved.layer(Marker(2, service_fn(|request: Request<String>| handle(&request))))));
    outcome.layer(Marker(0, inner)).boxed_clone()
}

/// Polls a request as often as planned, or to its end, then its body. Returns the units that it should leave.
async fn request(mut stack: Stack, plan: Plan) -> Totals {
    let track = Arc::new(Track::new(plan));
    let mut request = Request::builder().header("x-key", KEYS[plan.key]).body(String::new()).unwrap();
    request.extensions_mut().insert(Arc::clone(&track));
    let mut response = stack.ready().await.unwrap().call(request);
    let mut answer = None;
    for polls in 0.. {
        if polls >= plan.polls && !track.is_acting.load(SeqCst) {
            break;
        }
        let polled = std::future::poll_fn(|cx| {
            Poll::Ready(catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(cx))))
        });
        match polled.await {
            Err(_) => break,
            Ok(Poll::Ready(result)) => {
                answer = result.ok();
                break;
            }
            Ok(Poll::Pending) => yield_now().await,
        }
    }
    drop(response);
    let (mut frames, mut is_complete) = (0, false);
    if let Some(answer) = answer {
        use http_body_util::BodyExt as _;

        let mut body = answer.into_body();
        for _ in 0..plan.frame_polls {
            match body.frame().await.map(Result::unwrap) {
                Some(frame) if frame.is_data() => frames += 1,
                Some(_) | None => {
                    is_complete = true;
                    break;
                }
            }
            yield_now().await;
        }
    }
    let mut totals = track.expected(frames, is_complete);
    let charge = track.charge.lock().unwrap().take();
    if let Some((charge, units)) = charge.zip(plan.late) {
        // The reservation is settled already if something was counted, and what else the layer has charged may not be.
        if charge.settle(units).await.is_ok() {
            totals.set(plan.key, "calls", units);
            if plan.tokens.is_none() && frames == 0 {
                totals.set(plan.key, "tokens", units);
            }
        }
        assert!(charge.charge_more(1).await.is_err());
    }
    totals
}

/// A check as a handler makes it, and what follows. Returns the units that it should leave.
async fn check(registry: Arc<Registry>, mut random: Random) -> Totals {
    let number = random.index(KEYS.len());
    let name = if random.below(2) == 0 { "scarce" } else { "mails" };
    let (policy, cost) = (policy(name), random.below(6));
    let mut totals = Totals::default();
    let Ok(charge) = CheckBuilder::new(&registry, &policy).by_key(key(number)).cost(cost).await else {
        return totals;
    };
    let mut units = cost;
    match random.below(5) {
        0 => charge.refund().await.map(|()| units = 0).unwrap(),
        1 => {
            units = random.below(cost + 1);
            charge.settle(units).await.unwrap();
        }
        2 if charge.charge_more(3).await.unwrap().is_allowed() => units += 3,
        3 => {
            let mut meter = charge.meter(random.below(20));
            for _ in 0..random.below(30) {
                let message = random.below(4);
                units += meter.check(message).await.map_or(0, |()| message);
            }
            if random.below(2) == 0 {
                meter.finish().await.unwrap();
            }
        }
        4 => {
            // Clones charge at the same time.
            let checks = [1, 2, 3].map(|message| {
                let charge = charge.clone();
                tokio::spawn(async move { charge.check(message).await.map_or(0, |_| message) })
            });
            for check in checks {
                units += check.await.unwrap();
            }
            if random.below(2) == 0 {
                charge.refund().await.unwrap();
                units = 0;
            }
        }
        _ => {}
    }
    totals.add(number, name, units);
    totals
}

/// The operations of one thread, in a runtime of its own.
fn run(registry: &Arc<Registry>, seed: u64) -> Totals {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let totals = Arc::<Mutex<Totals>>::default();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (registry, totals) = (Arc::clone(registry), Arc::clone(&totals));
                let mut random = Random::new(seed ^ (task << 40));
                tokio::spawn(async move {
                    let stack = stack(&registry);
                    for _ in 0..OPERATIONS {
                        let left = if random.below(3) == 0 {
                            check(Arc::clone(&registry), random.fork()).await
                        } else {
                            request(stack.clone(), Plan::new(&mut random)).await
                        };
                        totals.lock().unwrap().join(&left);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        // What continues in the background is in this runtime, and asks a store that answers when it is polled again.
        for _ in 0..10_000 {
            if tokio::runtime::Handle::current().metrics().num_alive_tasks() == 0 {
                break;
            }
            yield_now().await;
        }
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0, "no task is left");
    });
    let totals = totals.lock().unwrap();
    totals.clone()
}

/// Units that are charged in the store, under each policy and key.
fn charged(store: &TestStore) -> Totals {
    let mut totals = Totals::default();
    for name in model::POLICIES {
        for number in 0..KEYS.len() {
            let peek = store.check(Checks::one(policy(name), key(number), 0)).into_ready();
            let left = peek.ok().unwrap().unwrap().decision().remaining();
            totals.add(number, name, if name == "scarce" { SCARCE - left } else { LIMIT - left });
        }
    }
    totals
}

/// From the environment variable, which repeats the operations of a run, or from the time.
fn seed() -> u64 {
    let variable = std::env::var("PORTCULLIS_SEED").ok();
    let from_time = || {
        let elapsed = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        elapsed.as_secs() ^ (u64::from(elapsed.subsec_nanos()) << 20)
    };
    let seed = variable.map_or_else(from_time, |seed| seed.parse().unwrap());
    println!("PORTCULLIS_SEED={seed}");
    seed
}

/// A number of rounds, and more if random tests are to be longer.
fn rounds(rounds: u64) -> u64 {
    let steps = std::env::var("PORTCULLIS_RANDOM_STEPS").map_or(10_000, |steps| steps.parse().unwrap());
    rounds * (steps / 10_000).clamp(1, 10)
}

#[test]
fn random_interleavings_leave_the_exact_balance() {
    let seed = seed();
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(Arc::clone(&store));
        let mut expected = Totals::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let registry = &registry;
                    scope.spawn(move || run(registry, seed ^ (thread << 50)))
                })
                .collect();
            for thread in threads {
                expected.join(&thread.join().unwrap());
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let drained = runtime.block_on(registry.drain(std::time::Duration::from_secs(5)));
        assert_eq!((drained.left, drained.lost), (0, 0), "{mode:?}");
        store.set(Mode::Ready);
        assert_eq!(charged(&store), expected, "{mode:?}");
        // No permit is left: a request is admitted where one may be unsettled.
        for key in KEYS {
            let one = limit("looked").charge_when(is_refused).charge_after_at_most(1);
            let service = layer(&registry, one)
                .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(()))));
            let request = Request::builder().header("x-key", key).body(String::new()).unwrap();
            assert_eq!(runtime.block_on(service.oneshot(request)).unwrap().status(), 200);
        }
        drop((registry, runtime));
        assert_eq!(Arc::strong_count(&store), 1, "nothing keeps the limiter");
    }
}
