//! A service with a known capacity under three times that load, in simulated time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use portcullis_shed::{Class, ShedLayer};
use portcullis_tower::matching::RequestPath;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::registry;

/// Requests that the service works on at the same time, and the time each takes: 1 000 requests per second.
const WORKERS: usize = 20;
const WORK: Duration = Duration::from_millis(20);

/// What became of one request.
#[derive(Clone, Copy)]
struct Sent {
    at: Duration,
    is_critical: bool,
    is_served: bool,
    latency: Duration,
}

/// What happened in a run.
struct Run {
    sent: Vec<Sent>,
    /// The limit every 100 ms.
    limits: Vec<usize>,
}

/// A phase: how long it lasts, and how many requests per second it has, one in ten of them critical.
type Phase = (Duration, u32);

/// Sends requests at even intervals, regardless of what becomes of others, as clients of the internet do.
async fn run(layer: &ShedLayer, phases: &[Phase], work: fn(u64) -> Duration) -> Run {
    let (workers, calls) = (Rc::new(Semaphore::new(WORKERS)), Rc::new(Cell::new(0)));
    // The queue is inside of the service, where nothing bounds it.
    let service = layer.layer(service_fn(move |_: Request<String>| {
        let workers = Rc::clone(&workers);
        let work = work(calls.replace(calls.get() + 1));
        async move {
            let _worker = workers.acquire().await.expect("it is open");
            sleep(work).await;
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("done")))
        }
    }));
    let (sent, mut limits, start) = (Rc::new(RefCell::new(Vec::new())), Vec::new(), Instant::now());
    let mut phase_begin = Duration::ZERO;
    let mut requests = Vec::new();
    for (length, per_second) in phases {
        let number = u32::try_from(length.as_secs()).unwrap() * per_second;
        for index in 0..number {
            let at = phase_begin + *length * index / number;
            sleep_until(start + at).await;
            if limits.len() <= usize::try_from(at.as_millis() / 100).unwrap() {
                limits.push(layer.limit());
            }
            let (service, is_critical) = (service.clone(), requests.len() % 10 == 0);
            let sent = Rc::clone(&sent);
            requests.push(tokio::task::spawn_local(async move {
                let begin = Instant::now();
                let path = if is_critical { "/pay" } else { "/search" };
                let answer = service.oneshot(Request::get(path).body(String::new()).unwrap()).await.unwrap();
                let is_served = answer.status() == 200;
                answer.into_body().collect().await.unwrap();
                sent.borrow_mut().push(Sent { at, is_critical, is_served, latency: begin.elapsed() });
            }));
        }
        phase_begin += *length;
    }
    for request in requests {
        request.await.unwrap();
    }
    let sent = sent.borrow().clone();
    Run { sent, limits }
}

impl Run {
    fn sent(&self, from: u64, to: u64, is_critical: bool) -> impl Iterator<Item = &Sent> {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        self.sent.iter().filter(move |sent| (from..to).contains(&sent.at) && sent.is_critical == is_critical)
    }

    fn served(&self, from: u64, to: u64, is_critical: bool) -> usize {
        self.sent(from, to, is_critical).filter(|sent| sent.is_served).count()
    }

    /// How often the limit changes its direction between two seconds.
    fn turns(&self, from: usize, to: usize) -> usize {
        let steps = self.limits[from * 10..to * 10].windows(2).map(|pair| pair[1].cmp(&pair[0]));
        let steps: Vec<_> = steps.filter(|step| step.is_ne()).collect();
        steps.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}

fn layer() -> ShedLayer {
    ShedLayer::new(&registry(), 4..=2_000).class(Class::Critical, RequestPath::prefix("/pay"))
}

/// Runs on one thread, whose clock moves when nothing else does.
async fn simulate(layer: &ShedLayer, phases: &[Phase]) -> Run {
    tokio::task::LocalSet::new().run_until(run(layer, phases, |_| WORK)).await
}

/// Work that varies as much as an exponential distribution, with the same mean.
fn varied(call: u64) -> Duration {
    // `f64` is below 1.
    WORK.mul_f64(-(1.0 - fastrand::Rng::with_seed(call).f64()).ln())
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn critical_requests_keep_their_latency_under_overload() {
    let layer = layer();
    // Half of the capacity, three times the capacity, and half of it again.
    let run = simulate(&layer, &[(seconds(10), 500), (seconds(20), 3_000), (seconds(10), 500)]).await;

    // Without overload, nothing is shed, once the limit has left its floor.
    assert_eq!(run.served(2, 10, false), 3_600);
    assert_eq!(run.served(2, 10, true), 400);

    // Under overload, each critical request is served, within the tolerated time, once the limit has found the capacity.
    assert!(run.served(10, 11, true) >= 295, "of 300 while it does");
    assert_eq!(run.served(11, 30, true), 19 * 300);
    let settled = || run.sent(13, 30, true);
    let longest = settled().map(|sent| sent.latency).max().unwrap();
    assert!(longest <= WORK * 5 / 2, "{longest:?}");
    // The rest is shed, as far as there is no capacity for it, and the capacity is used.
    let served = run.served(13, 30, false) + run.served(13, 30, true);
    assert!((16_500..=17_500).contains(&served), "{served}");

    // The limit does not swing: after three seconds of overload it does not turn more than once in seventeen.
    assert!(run.turns(13, 30) <= 1, "{:?}", &run.limits);
    let (least, most) = (run.limits[130..300].iter().min(), run.limits[130..300].iter().max());
    assert!(most.unwrap() * 10 <= least.unwrap() * 13, "{least:?} to {most:?}");
    assert!((WORKERS..=WORKERS * 5 / 2).contains(most.unwrap()), "{most:?}");

    // Afterwards all is served again, from the next second on.
    assert_eq!(run.served(31, 40, false) + run.served(31, 40, true), 4_500);
    assert!(run.turns(30, 40) <= 1);
    assert_eq!(layer.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_starts_under_overload_settles() {
    let run = simulate(&layer(), &[(seconds(20), 3_000)]).await;
    assert!(run.turns(3, 20) <= 1, "{:?}", run.limits);
    let longest = run.sent(3, 20, true).map(|sent| sent.latency).max().unwrap();
    assert!(longest <= WORK * 5 / 2, "{longest:?}");
    assert_eq!(run.served(3, 20, true), 5_100);
}

#[tokio::test(start_paused = true)]
async fn without_a_layer_that_sheds_the_queue_grows() {
    // The counterpart: nothing is rejected, and each request waits longer than the one before it.
    let shadow = layer().shadow();
    let run = simulate(&shadow, &[(seconds(10), 3_000)]).await;
    assert!(run.sent.iter().all(|sent| sent.is_served));
    assert!(run.sent(9, 10, true).all(|sent| sent.latency > seconds(15)));
}

#[tokio::test(start_paused = true)]
async fn work_that_varies_is_not_taken_for_overload() {
    let phases = [(seconds(20), 700), (seconds(20), 3_000), (seconds(10), 700)];
    let layer = layer();
    let run = tokio::task::LocalSet::new().run_until(run(&layer, &phases, varied)).await;
    // At 0.7 of the capacity, nothing is shed.
    assert_eq!(run.served(3, 20, false) + run.served(3, 20, true), 17 * 700);
    assert_eq!(run.served(42, 50, false) + run.served(42, 50, true), 8 * 700);
    // Under overload the limit follows the variation of the work, and stays close to the capacity.
    let limits = &run.limits[210..400];
    assert!(limits.iter().all(|limit| (WORKERS * 5 / 4..=WORKERS * 5 / 2).contains(limit)), "{limits:?}");
    assert!(run.turns(21, 40) <= 12, "{limits:?}");
    let critical: Vec<_> = run.sent(21, 40, true).filter(|sent| sent.is_served).collect();
    assert!(critical.len() * 1_000 >= 19 * 300 * 999, "{} of {}", critical.len(), 19 * 300);
    let mean =
        critical.iter().map(|sent| sent.latency).sum::<Duration>() / u32::try_from(critical.len()).unwrap();
    assert!(mean <= WORK * 2, "{mean:?}");
}
