//! Threads that start at the same time.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `work` on new threads, with their index, and returns the time of the slowest one. Starting them does not count.
pub(super) fn run(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let barrier = Barrier::new(threads);
    let measured = |thread: usize| {
        barrier.wait();
        let start = Instant::now();
        work(thread);
        start.elapsed()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let measured = &measured;
                scope.spawn(move || measured(thread))
            })
            .collect();
        let times =
            running.into_iter().map(|thread| thread.join().expect("a failed case ends the measurement"));
        times.max().unwrap_or_default()
    })
}
