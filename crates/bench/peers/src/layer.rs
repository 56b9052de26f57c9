//! The layer around an Axum router.

mod apps;
mod calls;
mod minimal;
mod wrk;

use anyhow::{Result, ensure};
use axum::http::{HeaderValue, StatusCode};
use portcullis_bench::{Comparison, Spread, Target, digits, interleaved, markdown};
use tokio::runtime::Runtime;

pub(crate) use wrk::rates;

use self::apps::{
    Headers, Limits, Place, axum_governor, bare, ours, ours_with_charge, passing, tower_governor,
};
use self::calls::{App, requests, round, users};
use self::minimal::{minimal, minimal_with_headers};
use crate::Measure;
use crate::scale::Scale;

/// Nanoseconds that a layer adds to a request, and those of a rejected request.
pub(crate) fn times(scale: &Scale) -> Result<String> {
    let runtime = runtime()?;
    let mut beyond_router = Comparison::new("Time that the layer adds to a request to an Axum router");
    let mut beyond_passing = Comparison::new("Time that the layer adds beyond a layer that does nothing");
    let mut around_router = Comparison::new("Time that a layer around the whole router adds to a request");
    let mut least = Comparison::new("Time that the least a layer can do adds to a request");
    let (mut alone, mut adds, mut adds_around) = (Vec::new(), Vec::new(), Vec::new());
    for clients in [scale.clients, 1] {
        let users = users(clients);
        let in_router = Times::of(scale, &runtime, Place::InRouter, &users)?;
        let with = number_of(clients);
        in_router.push(&mut beyond_router, BARE, &PEERS, clients, "");
        let without_targets =
            PEERS.map(|(work, beside, ours, theirs, _)| (work, beside, ours, theirs, NO_TARGET));
        in_router.push(&mut beyond_passing, PASSING, &without_targets, clients, "");
        let around = Times::of(scale, &runtime, Place::AroundRouter, &users)?;
        around.push(&mut around_router, BARE, &PEERS, clients, "");
        in_router.push(&mut least, BARE, &LEAST, clients, ", in the router");
        around.push(&mut least, BARE, &LEAST, clients, ", around the router");
        let median = |figures: Vec<f64>| format!("{} ns with {with}", digits(Spread::of(figures).median));
        alone.push(median(in_router.0[BARE].clone()));
        adds.push(median(in_router.added(PASSING, BARE)));
        adds_around.push(median(around.added(PASSING, BARE)));
    }
    let [alone, adds, adds_around] = [alone, adds, adds_around].map(|figures| figures.join(", "));
    let rejected = rejected(scale, &runtime)?;
    Ok(format!(
        "{beyond_router}\nThe router alone takes {alone}. A layer that does nothing adds {adds}.\n\n\
         {beyond_passing}\n{around_router}\nA layer that does nothing adds {adds_around}.\n\n\
         {least}\n{OF_LEAST}\n\n{rejected}"
    ))
}

/// Nanoseconds of a request to each of the [`admitting`] apps, by round.
struct Times([Vec<f64>; CASES]);

impl Times {
    fn of(scale: &Scale, runtime: &Runtime, place: Place, users: &[HeaderValue]) -> Result<Self> {
        let apps = admitting(place, users.len());
        for app in &apps {
            warm_up(runtime, &**app, users)?;
        }
        let round_of = |app| round(runtime, app, users, scale.requests, StatusCode::OK);
        let mut cases = apps.each_ref().map(|app| round_of(&**app));
        let figures = interleaved(scale.rounds, &mut cases)?;
        Ok(Self(figures.try_into().expect("there is one of each case")))
    }

    /// What a case adds to another one.
    fn added(&self, case: usize, base: usize) -> Vec<f64> {
        self.0[case].iter().zip(&self.0[base]).map(|(whole, base)| whole - base).collect()
    }

    /// What cases add beyond `base`, each beside another one.
    fn push(&self, table: &mut Comparison, base: usize, pairs: &[Pair], clients: usize, place: &str) {
        for (work, beside, ours, theirs, [many, one]) in pairs {
            let work = format!("{work}, {}{place}", number_of(clients));
            let [ours, theirs] = [*ours, *theirs].map(|case| self.added(case, base));
            table.push(&work, beside, "ns", &ours, &theirs, if clients == 1 { *one } else { *many });
        }
    }
}

/// Whole times of a rejected request from one client.
fn rejected(scale: &Scale, runtime: &Runtime) -> Result<Comparison> {
    let users = users(1);
    let admitted = Place::InRouter.app(ours(Limits::OneClient, Headers::XRateLimit));
    let apps = rejecting();
    admit_all(runtime, &*admitted, &users)?;
    for app in &apps {
        admit_all(runtime, &**app, &users)?;
    }
    let round_of = |app, status| round(runtime, app, &users, scale.requests, status);
    let [ours, governed, axum_governed] =
        apps.each_ref().map(|app| round_of(&**app, StatusCode::TOO_MANY_REQUESTS));
    let admitted = round_of(&*admitted, StatusCode::OK);
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
    let (mut beyond_router, mut beyond_passing, mut around_router) = (Vec::new(), Vec::new(), Vec::new());
    let (mut adds, mut adds_around) = (Vec::new(), Vec::new());
    for clients in [scale.clients, 1] {
        let counts_at = |place| counts(measure, &runtime, scale, place, clients);
        let adds_of = |counts: &[f64; CASES]| {
            format!("{} with {}", digits(counts[PASSING] - counts[BARE]), number_of(clients))
        };
        let in_router = counts_at(Place::InRouter)?;
        beyond_router.extend(rows(&in_router, BARE, clients));
        beyond_passing.extend(rows(&in_router, PASSING, clients));
        adds.push(adds_of(&in_router));
        let around = counts_at(Place::AroundRouter)?;
        around_router.extend(rows(&around, BARE, clients));
        adds_around.push(adds_of(&around));
    }
    let users = users(1);
    let mut counts = Vec::new();
    for app in &rejecting() {
        admit_all(&runtime, &**app, &users)?;
        let status = StatusCode::TOO_MANY_REQUESTS;
        counts.push(count(measure, &runtime, &**app, &users, scale.requests, status)?);
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
         ## Allocations per request beyond those of a layer that does nothing\n\n{}\n\
         ## Allocations per request of a layer around the whole router\n\n{}\nA layer that does nothing adds {}.\n",
        markdown(&header, &beyond_router),
        adds.join(", "),
        markdown(&header, &beyond_passing),
        markdown(&header, &around_router),
        adds_around.join(", "),
    ))
}

/// Allocations of a request to each of the [`admitting`] apps.
fn counts(
    measure: Measure,
    runtime: &Runtime,
    scale: &Scale,
    place: Place,
    clients: usize,
) -> Result<[f64; CASES]> {
    let (users, mut counts) = (users(clients), [0.0; CASES]);
    for (counted, app) in counts.iter_mut().zip(&admitting(place, clients)) {
        warm_up(runtime, &**app, &users)?;
        *counted = count(measure, runtime, &**app, &users, scale.requests, StatusCode::OK)?;
    }
    Ok(counts)
}

/// The allocations beyond those of the case `base`.
fn rows(counts: &[f64; CASES], base: usize, clients: usize) -> [Vec<String>; 3] {
    let added = |case: usize| counts[case] - counts[base];
    [
        ("X-RateLimit headers", OURS, [Some(GOVERNED), Some(AXUM_GOVERNED)], Target::AtMost(3.0)),
        ("no headers", OURS_PLAIN, [Some(GOVERNED_PLAIN), None], Target::AtMost(2.0)),
        ("no headers, with charge", OURS_CHARGED, [Some(GOVERNED_PLAIN), None], Target::None),
    ]
    .map(|(work, ours, others, target)| {
        let work = format!("{work}, {}", number_of(clients));
        let others = others.map(|case| case.map_or_else(|| "-".to_owned(), |case| digits(added(case))));
        row(&work, added(ours), others, target)
    })
}

fn row(work: &str, ours: f64, others: [String; 2], target: Target) -> Vec<String> {
    let own = [work.to_owned(), digits(ours), target.to_string(), target.verdict(ours).to_owned()];
    own.into_iter().chain(others).collect()
}

/// Allocations of one request.
fn count(
    measure: Measure,
    runtime: &Runtime,
    app: &dyn App,
    users: &[HeaderValue],
    count: usize,
    status: StatusCode,
) -> Result<f64> {
    let mut requests = requests(users, 0, count);
    let mut others = 0;
    let allocated = measure(&mut || others = app.send(runtime, std::mem::take(&mut requests), status));
    ensure!(others == 0, "{others} of {count} requests were answered with another status than {status}");
    Ok(allocated.count as f64 / count as f64)
}

/// Sends requests of each user, more than the first few that our layer marks.
fn warm_up(runtime: &Runtime, app: &dyn App, users: &[HeaderValue]) -> Result<()> {
    (0..100_usize.div_ceil(users.len())).try_for_each(|_| admit_all(runtime, app, users))
}

/// Sends one request of each user, which must be admitted, so that later ones find the client's state.
fn admit_all(runtime: &Runtime, app: &dyn App, users: &[HeaderValue]) -> Result<()> {
    let others = app.send(runtime, requests(users, 0, users.len()), StatusCode::OK);
    ensure!(others == 0, "{others} of {} requests were not admitted", users.len());
    Ok(())
}

/// The apps that admit all requests, in the order of the constants below.
fn admitting(place: Place, clients: usize) -> [Box<dyn App>; CASES] {
    let limits = if clients == 1 { Limits::OneClient } else { Limits::ManyClients };
    [
        Box::new(bare()),
        place.app(passing()),
        place.app(ours(limits, Headers::XRateLimit)),
        place.app(ours(limits, Headers::None)),
        place.tower_governor(limits, Headers::XRateLimit),
        place.tower_governor(limits, Headers::None),
        place.app(axum_governor(limits)),
        place.app(ours_with_charge(limits)),
        place.app(minimal_with_headers(limits)),
        place.app(minimal(limits)),
    ]
}

/// The routers that admit one request and reject the rest: ours, `tower_governor` and `axum-governor`.
fn rejecting() -> [Box<dyn App>; 3] {
    let (limits, place) = (Limits::OneRequest, Place::InRouter);
    [
        place.app(ours(limits, Headers::XRateLimit)),
        place.app(tower_governor(limits)),
        place.app(axum_governor(limits)),
    ]
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?)
}

fn number_of(clients: usize) -> String {
    if clients == 1 { "one client".to_owned() } else { format!("{clients} clients") }
}

/// Work, what it is beside, the two cases, and the targets of their ratio with many clients and with one.
type Pair = (&'static str, &'static str, usize, usize, [Target; 2]);
const NO_TARGET: [Target; 2] = [Target::None, Target::None];
const PEERS: [Pair; 4] = [
    (
        "X-RateLimit headers",
        "tower_governor with headers",
        OURS,
        GOVERNED,
        [Target::AtMost(0.8), Target::AtMost(1.0)],
    ),
    ("X-RateLimit headers", "axum-governor", OURS, AXUM_GOVERNED, NO_TARGET),
    ("no headers", "tower_governor", OURS_PLAIN, GOVERNED_PLAIN, [Target::AtMost(1.0), Target::AtMost(1.0)]),
    ("no headers, with charge", "tower_governor", OURS_CHARGED, GOVERNED_PLAIN, NO_TARGET),
];
/// Our layer and `tower_governor` beside the [`minimal`] layers.
const LEAST: [Pair; 4] = [
    ("X-RateLimit headers", "the least", OURS, MINIMAL, [Target::AtMost(1.3), Target::AtMost(1.3)]),
    ("no headers", "the least", OURS_PLAIN, MINIMAL_PLAIN, [Target::AtMost(1.3), Target::AtMost(1.3)]),
    ("tower_governor with headers", "the least", GOVERNED, MINIMAL, NO_TARGET),
    ("tower_governor", "the least", GOVERNED_PLAIN, MINIMAL_PLAIN, NO_TARGET),
];
const OF_LEAST: &str = "The least is a service that reads the header, makes the key, asks the same store for an exact decision and \
    inserts three lines with values that exist already. It has no options, events, charges or rejections.";

const BARE: usize = 0;
const PASSING: usize = 1;
const OURS: usize = 2;
const OURS_PLAIN: usize = 3;
const GOVERNED: usize = 4;
const GOVERNED_PLAIN: usize = 5;
const AXUM_GOVERNED: usize = 6;
const OURS_CHARGED: usize = 7;
const MINIMAL: usize = 8;
const MINIMAL_PLAIN: usize = 9;
const CASES: usize = 10;
