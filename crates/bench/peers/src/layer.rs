//! The layer around an Axum router.

mod apps;
mod calls;
mod wrk;

use anyhow::{Result, ensure};
use axum::Router;
use axum::http::{HeaderValue, StatusCode};
use portcullis_bench::{Comparison, Spread, Target, digits, interleaved, markdown};
use tokio::runtime::Runtime;

pub(crate) use wrk::rates;

use self::apps::{Headers, Limits, axum_governor, bare, ours, ours_without_charge, passing, tower_governor};
use self::calls::{requests, round, send, users};
use crate::Measure;
use crate::scale::Scale;

/// Nanoseconds that a layer adds to a request, and those of a rejected request.
pub(crate) fn times(scale: &Scale) -> Result<String> {
    let runtime = runtime()?;
    let mut beyond_router = Comparison::new("Time that the layer adds to a request to an Axum router");
    let mut beyond_passing = Comparison::new("Time that the layer adds beyond a layer that does nothing");
    let (mut alone, mut adds) = (Vec::new(), Vec::new());
    for clients in [scale.clients, 1] {
        let users = users(clients);
        let apps = admitting(clients);
        for app in &apps {
            admit_all(&runtime, app, &users)?;
        }
        let mut cases =
            apps.each_ref().map(|app| round(&runtime, app, &users, scale.requests, StatusCode::OK));
        let figures = interleaved(scale.rounds, &mut cases)?;
        let added = |case: usize, base: usize| -> Vec<f64> {
            figures[case].iter().zip(&figures[base]).map(|(whole, base)| whole - base).collect()
        };
        let clients = number_of(clients);
        for (work, beside, ours, theirs, target) in [
            ("X-RateLimit headers", "tower_governor with headers", OURS, GOVERNED, Target::AtMost(0.5)),
            ("X-RateLimit headers", "axum-governor", OURS, AXUM_GOVERNED, Target::None),
            ("no headers", "tower_governor", OURS_PLAIN, GOVERNED_PLAIN, Target::AtMost(0.4)),
            ("no headers, without charge", "tower_governor", OURS_UNCHARGED, GOVERNED_PLAIN, Target::None),
        ] {
            let work = format!("{work}, {clients}");
            beyond_router.push(&work, beside, "ns", &added(ours, BARE), &added(theirs, BARE), target);
            let (ours, theirs) = (added(ours, PASSING), added(theirs, PASSING));
            beyond_passing.push(&work, beside, "ns", &ours, &theirs, Target::None);
        }
        let median = |figures: Vec<f64>| format!("{} ns with {clients}", digits(Spread::of(figures).median));
        alone.push(median(figures[BARE].clone()));
        adds.push(median(added(PASSING, BARE)));
    }
    let (alone, adds) = (alone.join(", "), adds.join(", "));
    let rejected = rejected(scale, &runtime)?;
    Ok(format!(
        "{beyond_router}\nThe router alone takes {alone}. A layer that does nothing adds {adds}.\n\n\
         {beyond_passing}\n{rejected}"
    ))
}

/// Whole times of a rejected request from one client.
fn rejected(scale: &Scale, runtime: &Runtime) -> Result<Comparison> {
    let users = users(1);
    let admitted = ours(Limits::OneClient, Headers::XRateLimit);
    let apps = rejecting();
    admit_all(runtime, &admitted, &users)?;
    for app in &apps {
        admit_all(runtime, app, &users)?;
    }
    let [ours, governed, axum_governed] =
        apps.each_ref().map(|app| round(runtime, app, &users, scale.requests, StatusCode::TOO_MANY_REQUESTS));
    let admitted = round(runtime, &admitted, &users, scale.requests, StatusCode::OK);
    let figures = interleaved(scale.rounds, &mut [admitted, ours, governed, axum_governed])?;
    let mut table = Comparison::new("Time of a request that the layer rejects, with the router");
    let work = "rejected, one client";
    table.push(work, "our admitted request", "ns", &figures[1], &figures[0], Target::AtMost(1.0));
    table.push(work, "tower_governor", "ns", &figures[1], &figures[2], Target::None);
    table.push(work, "axum-governor", "ns", &figures[1], &figures[3], Target::None);
    Ok(table)
}

/// Allocations per request.
pub(crate) fn allocations(scale: &Scale, measure: Measure) -> Result<String> {
    let runtime = runtime()?;
    let (mut beyond_router, mut beyond_passing, mut adds) = (Vec::new(), Vec::new(), Vec::new());
    for clients in [scale.clients, 1] {
        let users = users(clients);
        let apps = admitting(clients);
        let mut counts = Vec::new();
        for app in &apps {
            admit_all(&runtime, app, &users)?;
            counts.push(count(measure, &runtime, app, &users, scale.requests, StatusCode::OK)?);
        }
        let clients = number_of(clients);
        for (work, ours, others, target) in [
            ("X-RateLimit headers", OURS, [Some(GOVERNED), Some(AXUM_GOVERNED)], Target::AtMost(3.0)),
            ("no headers", OURS_PLAIN, [Some(GOVERNED_PLAIN), None], Target::AtMost(2.0)),
            ("no headers, without charge", OURS_UNCHARGED, [Some(GOVERNED_PLAIN), None], Target::AtMost(0.0)),
        ] {
            let work = format!("{work}, {clients}");
            let beyond = |base: usize, target: Target| {
                let added = |case: usize| counts[case] - counts[base];
                let others =
                    others.map(|case| case.map_or_else(|| "-".to_owned(), |case| digits(added(case))));
                row(&work, added(ours), others, target)
            };
            beyond_router.push(beyond(BARE, target));
            beyond_passing.push(beyond(PASSING, target));
        }
        adds.push(format!("{} with {clients}", digits(counts[PASSING] - counts[BARE])));
    }
    let users = users(1);
    let mut counts = Vec::new();
    for app in &rejecting() {
        admit_all(&runtime, app, &users)?;
        counts.push(count(measure, &runtime, app, &users, scale.requests, StatusCode::TOO_MANY_REQUESTS)?);
    }
    beyond_router.push(row(
        "rejected, whole request",
        counts[0],
        [counts[1], counts[2]].map(digits),
        Target::None,
    ));
    let header = ["", "ours", "target", "reached", "tower_governor", "axum-governor"];
    Ok(format!(
        "## Allocations per request beyond those of the router\n\n{}\nA layer that does nothing adds {}.\n\n\
         ## Allocations per request beyond those of a layer that does nothing\n\n{}",
        markdown(&header, &beyond_router),
        adds.join(", "),
        markdown(&header, &beyond_passing),
    ))
}

fn row(work: &str, ours: f64, others: [String; 2], target: Target) -> Vec<String> {
    let own = [work.to_owned(), digits(ours), target.to_string(), target.verdict(ours).to_owned()];
    own.into_iter().chain(others).collect()
}

/// Allocations of one request.
fn count(
    measure: Measure,
    runtime: &Runtime,
    app: &Router,
    users: &[HeaderValue],
    count: usize,
    status: StatusCode,
) -> Result<f64> {
    let mut requests = requests(users, 0, count);
    let mut others = 0;
    let allocated =
        measure(&mut || others = runtime.block_on(send(app, std::mem::take(&mut requests), status)));
    ensure!(others == 0, "{others} of {count} requests were answered with another status than {status}");
    Ok(allocated.count as f64 / count as f64)
}

/// Sends one request of each user, which must be admitted, so that later ones find the client's state.
fn admit_all(runtime: &Runtime, app: &Router, users: &[HeaderValue]) -> Result<()> {
    let others = runtime.block_on(send(app, requests(users, 0, users.len()), StatusCode::OK));
    ensure!(others == 0, "{others} of {} requests were not admitted", users.len());
    Ok(())
}

/// The routers that admit all requests, in the order of the constants below.
fn admitting(clients: usize) -> [Router; 8] {
    let limits = if clients == 1 { Limits::OneClient } else { Limits::ManyClients };
    [
        bare(),
        passing(),
        ours(limits, Headers::XRateLimit),
        ours(limits, Headers::None),
        tower_governor(limits, Headers::XRateLimit),
        tower_governor(limits, Headers::None),
        axum_governor(limits),
        ours_without_charge(limits),
    ]
}

/// The routers that admit one request and reject the rest: ours, `tower_governor` and `axum-governor`.
fn rejecting() -> [Router; 3] {
    let limits = Limits::OneRequest;
    [ours(limits, Headers::XRateLimit), tower_governor(limits, Headers::XRateLimit), axum_governor(limits)]
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?)
}

fn number_of(clients: usize) -> String {
    if clients == 1 { "one client".to_owned() } else { format!("{clients} clients") }
}

const BARE: usize = 0;
const PASSING: usize = 1;
const OURS: usize = 2;
const OURS_PLAIN: usize = 3;
const GOVERNED: usize = 4;
const GOVERNED_PLAIN: usize = 5;
const AXUM_GOVERNED: usize = 6;
const OURS_UNCHARGED: usize = 7;
