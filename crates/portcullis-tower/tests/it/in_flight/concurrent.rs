//! Random requests of many threads leave no permit.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use fastrand::Rng;
use portcullis_tower::{Charge, InFlightPermit};

use super::*;

const THREADS: u64 = 8;
const REQUESTS: u64 = 400;

/// The requests that hold a permit at the same time, and the most of them.
#[derive(Default)]
struct Running {
    now: AtomicU64,
    most: AtomicU64,
}

struct Counted(Arc<Running>);

impl Counted {
    fn new(running: &Arc<Running>) -> Self {
        let now = running.now.fetch_add(1, SeqCst) + 1;
        running.most.fetch_max(now, SeqCst);
        Self(Arc::clone(running))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

/// One request that ends in one of the ways in which requests end.
async fn run(layer: &RateLimitLayer, running: &Arc<Running>, mut rng: Rng) -> bool {
    let (end, turns) = (rng.u64(..7), rng.u64(..4));
    let running = Arc::clone(running);
    let service = layer.layer(service_fn(move |request: Request<String>| {
        let counted = Counted::new(&running);
        let charge = request.extensions().get::<Charge>().cloned();
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            match end {
                0 => return Err("broken"),
                1 => std::panic::resume_unwind(Box::new("a bug in a handler")),
                2 => {
                    let permit: Option<InFlightPermit> = charge.unwrap().take_permit();
                    tokio::spawn(async move {
                        tokio::task::yield_now().await;
                        drop(counted);
                        drop(permit);
                    });
                    return Ok(Response::new(Steps::new(&[Step::End])));
                }
                _ => {}
            }
            drop(counted);
            Ok(Response::new(Steps::new(&[Step::Data, Step::End])))
        }
    }));
    let task = tokio::spawn(service.oneshot(request()));
    if end == 3 {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        task.abort();
    }
    let Ok(Ok(mut response)) = task.await else { return false };
    if end > 4 {
        while let Some(frame) = response.body_mut().frame().await {
            drop(frame);
        }
    }
    response.status() == 200
}

/// The requests of one thread, one after the other, with the tasks that they leave behind.
async fn run_all(setup: &Setup, running: &Arc<Running>, thread: u64) -> u64 {
    let layer = setup.layer();
    let mut passed = 0;
    for number in 0..REQUESTS {
        let rng = Rng::with_seed(thread * REQUESTS + number);
        passed += u64::from(run(&layer, running, rng).await);
    }
    // The tasks end with the runtime otherwise.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    passed
}

#[test]
fn interleaved_requests_leave_no_permit() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let running = Arc::<Running>::default();
        let passed: u64 = std::thread::scope(|scope| {
            let threads = (0..THREADS).map(|thread| {
                let (setup, running) = (&setup, &running);
                scope.spawn(move || crate::support::block_on(run_all(setup, running, thread)))
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(passed > 0 && running.most.load(SeqCst) <= LIMIT, "{mode:?}");
        assert_eq!((running.now.load(SeqCst), crate::support::block_on(setup.held())), (0, 0), "{mode:?}");
        let seen = setup.seen();
        assert!(seen.iter().all(|event| *event == "released"), "{seen:?}");
    }
}
