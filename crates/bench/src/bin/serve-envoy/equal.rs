//! Services at the same p99.

use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use portcullis_bench::{Comparison, Round, Spread, Target, calls, digits, interleaved, markdown};
use tokio::runtime::Runtime;

use super::services::{Client, Protocol, Service};

/// What a service did in one round, at one number of calls in flight.
#[derive(Clone, Copy, Debug)]
struct Figures {
    rate: f64,
    /// In milliseconds.
    p99: f64,
    /// Microseconds of the server.
    cpu: f64,
}

/// The checks per second of the first service beside the others, each at the number of calls in flight at which it makes most of them with a
/// p99 of at most [`BOUND`].
pub(crate) fn compare(
    runtime: &Runtime,
    services: &[Service],
    rounds: usize,
    length: Duration,
) -> Result<String> {
    let cases = services.iter().flat_map(|service| LEVELS.map(|level| (service, level)));
    let mut cases: Vec<Round<'_, Figures, Error>> = cases
        .map(|(service, level)| {
            let round = move || measure(runtime, service, level, length).context(service.name);
            Box::new(round) as Round<'_, Figures, Error>
        })
        .collect();
    let figures = interleaved(rounds, &mut cases)?;
    let chosen: Vec<_> = figures.chunks(LEVELS.len()).map(best).collect();
    let mut table = Comparison::new(format!("Checks per second with a p99 of at most {} ms", digits(BOUND)));
    let mut rows = Vec::new();
    for (service, (level, rounds)) in services.iter().zip(&chosen) {
        let median = |of: fn(&Figures) -> f64| Spread::of(rounds.iter().map(of).collect()).median;
        rows.push(vec![
            service.name.to_owned(),
            level.to_string(),
            format!("{:.0}", median(|figures| figures.rate)),
            digits(median(|figures| figures.p99)),
            digits(median(|figures| figures.cpu)),
        ]);
    }
    let rates = |(_, rounds): &(usize, &[Figures])| rounds.iter().map(|one| one.rate).collect::<Vec<_>>();
    let over_http = services.iter().position(|service| service.protocol == Protocol::EnvoyJson);
    for (index, (service, theirs)) in services.iter().zip(&chosen).enumerate().skip(1) {
        let mut push = |work: &str, ours: &(usize, &[Figures]), target| {
            table.push(work, service.name, "checks/s", &rates(ours), &rates(theirs), target);
        };
        if Some(index) != over_http {
            push("over gRPC", &chosen[0], Target::AtLeast(1.2));
        }
        if let (Protocol::ThrottlecrabJson, Some(ours)) = (service.protocol, over_http) {
            push("over HTTP", &chosen[ours], Target::None);
        }
    }
    let header = [
        "service",
        "calls in flight",
        "checks per second",
        "p99, ms",
        "processor time of a check in the server, µs",
    ];
    Ok(format!("{table}\n{}", markdown(&header, &rows)))
}

/// The number of calls in flight with the highest rate within the bound; the lowest if there is none.
fn best(levels: &[Vec<Figures>]) -> (usize, &[Figures]) {
    let median =
        |rounds: &[Figures], of: fn(&Figures) -> f64| Spread::of(rounds.iter().map(of).collect()).median;
    let within = (0..levels.len()).filter(|level| median(&levels[*level], |figures| figures.p99) <= BOUND);
    let rate = |level: &usize| median(&levels[*level], |figures| figures.rate);
    let level = within.max_by(|one, other| rate(one).total_cmp(&rate(other))).unwrap_or(0);
    (LEVELS[level], &levels[level])
}

fn measure(runtime: &Runtime, service: &Service, in_flight: usize, length: Duration) -> Result<Figures> {
    let client = runtime.block_on(Client::connect(service, in_flight))?;
    let call = move |task, number| {
        let client = client.clone();
        async move { client.check(task, number).await }
    };
    let before = service.process.cpu();
    let mut times = runtime.block_on(calls(in_flight, length, call))?;
    let spent = service.process.micros_since(before);
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).context("no call was answered")?.as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
    let count = times.len() as f64;
    Ok(Figures { rate: count / length.as_secs_f64(), p99, cpu: spent / count })
}

/// Calls in flight.
const LEVELS: [usize; 6] = [4, 8, 16, 32, 64, 128];
/// Milliseconds.
pub(crate) const BOUND: f64 = 5.0;
