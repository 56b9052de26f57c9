//! A service that gets three times as many requests as it can answer for a while: the least important ones are rejected, and the others keep
//! their latency.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use portcullis::Limiter;
use portcullis::layer::RequestPath;
use portcullis::shed::{Class, ShedLayer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tower::ServiceExt as _;

/// The connections to a database, each of which answers 50 requests per second: 1 000 per second in all.
const CONNECTIONS: usize = 20;
const WORK: Duration = Duration::from_millis(20);

/// The requests per second, second by second.
const LOAD: [u32; 10] = [600, 600, 3_000, 3_000, 3_000, 3_000, 600, 600, 600, 600];

/// The paths, with their class and their part of the requests in tenths.
const PATHS: [(&str, Class, u32); 3] =
    [("/payments", Class::Critical, 1), ("/search", Class::Default, 6), ("/reports", Class::Background, 3)];

fn app(limiter: &Limiter) -> (Router, ShedLayer) {
    let shed = PATHS
        .iter()
        .fold(limiter.shed(10..=500), |shed, (path, class, _)| shed.class(*class, RequestPath::exact(path)));
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let query = get(async move || {
        let _connection = connections.acquire().await.expect("the semaphore is never closed");
        sleep(WORK).await;
        "done"
    });
    let app = PATHS.iter().fold(Router::new(), |app, (path, ..)| app.route(path, query.clone()));
    (app.layer(shed.clone()), shed)
}

/// What became of the requests to one path in a second.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    answered: u32,
    rejected: u32,
    time: Duration,
}

impl Counts {
    fn mean(&self) -> u128 {
        self.time.checked_div(self.answered).unwrap_or_default().as_millis()
    }
}

/// Sends this number of requests within a second, evenly, and waits for all responses.
async fn second(app: &Router, requests: u32) -> anyhow::Result<[Counts; 3]> {
    let mut sent = JoinSet::new();
    let mut ticks = interval(Duration::from_secs(1) / requests);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0..requests {
        ticks.tick().await;
        let tenth = number % 10;
        let path = if tenth == 0 {
            0
        } else if tenth <= 6 {
            1
        } else {
            2
        };
        let request = Request::get(PATHS[path].0).body(Body::empty())?;
        let app = app.clone();
        sent.spawn(async move {
            let start = Instant::now();
            let response = app.oneshot(request).await;
            (path, response.is_ok_and(|response| response.status().is_success()), start.elapsed())
        });
    }
    let mut counts = [Counts::default(); 3];
    while let Some(result) = sent.join_next().await {
        let (path, is_answered, time) = result?;
        let counts = &mut counts[path];
        if is_answered {
            counts.answered += 1;
            counts.time += time;
        } else {
            counts.rejected += 1;
        }
    }
    Ok(counts)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let (app, shed) = app(&Limiter::memory());
    println!(
        "1 000 requests per second are what the service can do; answered / rejected, and the mean time\n"
    );
    println!("sent/s   {:<24}{:<24}{:<24}limit", "/payments", "/search", "/reports");
    for load in LOAD {
        let counts = second(&app, load).await?;
        let [payments, search, reports] =
            counts.map(|count| format!("{} / {}, {} ms", count.answered, count.rejected, count.mean()));
        println!("{load:>6}   {payments:<24}{search:<24}{reports:<24}{}", shed.limit());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn payments_are_answered_while_others_are_rejected() {
        let (app, _) = app(&Limiter::memory());
        let mut seconds = Vec::new();
        for load in LOAD {
            seconds.push((load, second(&app, load).await.unwrap()));
        }
        for (load, counts) in &seconds[3..] {
            let [payments, search, reports] = counts.map(|count| count.rejected);
            assert_eq!(payments, 0, "{load}: {counts:?}");
            assert_eq!((search > 0, reports > 0), (*load > 1_000, *load > 1_000), "{load}: {counts:?}");
        }
    }
}
