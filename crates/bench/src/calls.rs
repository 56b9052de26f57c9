//! Tasks that make one call after the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

/// Makes calls for `length`, `tasks` of them at a time. Returns how long each took, in no order.
///
/// A call gets the index of its task, and a number that no other call of this process has: from one call to the next it grows by one.
pub async fn calls<F>(
    tasks: usize,
    length: Duration,
    call: impl Fn(usize, usize) -> F + Clone + Send + 'static,
) -> Result<Vec<Duration>>
where
    F: Future<Output = Result<()>> + Send,
{
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    let end = Instant::now() + length;
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let call = call.clone();
        running.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let start = Instant::now();
                call(task, NEXT.fetch_add(1, Ordering::Relaxed)).await?;
                times.push(start.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = running.join_next().await {
        all.extend(times??);
    }
    Ok(all)
}
