//! Decisions in memory, from the text of an identity to the answer.

mod limits;
mod threads;

use anyhow::{Error, Result};
use portcullis_bench::{Comparison, Round, Target, digits, interleaved, markdown};

use self::limits::{Governor, Identity, Limit, Ours, Throttlecrab};
use crate::Measure;
use crate::scale::Scale;

/// Nanoseconds per decision and thread.
pub(crate) fn times(scale: &Scale) -> Result<Comparison> {
    let mut table = Comparison::new("Time of a decision in memory, per thread");
    for keys in [1, scale.keys, scale.most_keys] {
        gcra(scale, keys, &mut table)?;
    }
    windows(scale, &mut table)?;
    Ok(table)
}

fn gcra(scale: &Scale, keys: usize, table: &mut Comparison) -> Result<()> {
    let identities = identities(keys);
    let (ours, governor, crab) = (Ours::gcra(keys), Governor::new(), Throttlecrab::new(keys));
    fill(&ours, &identities);
    fill(&governor, &identities);
    fill(&crab, &identities);
    for threads in [1, 2] {
        let figures = interleaved(
            scale.rounds,
            &mut [
                round(&ours, &identities, threads, scale.decisions),
                round(&governor, &identities, threads, scale.decisions),
                round(&crab, &identities, threads, scale.decisions),
            ],
        )?;
        let work = format!("GCRA, {}", load(keys, threads));
        let target = match (keys, threads) {
            (1, _) => Target::AtMost(1.0),
            (keys, 1) if keys == scale.most_keys => Target::None,
            _ => Target::AtMost(0.7),
        };
        table.push(&work, "governor", "ns", &figures[0], &figures[1], target);
        table.push(&work, "throttlecrab behind a mutex", "ns", &figures[0], &figures[2], Target::None);
    }
    Ok(())
}

fn windows(scale: &Scale, table: &mut Comparison) -> Result<()> {
    let identities = identities(scale.keys);
    let (fixed, sliding) = (Ours::fixed_window(scale.keys), Ours::sliding_window(scale.keys));
    let governor = Governor::new();
    fill(&fixed, &identities);
    fill(&sliding, &identities);
    fill(&governor, &identities);
    let figures = interleaved(
        scale.rounds,
        &mut [
            round(&fixed, &identities, 2, scale.decisions),
            round(&sliding, &identities, 2, scale.decisions),
            round(&governor, &identities, 2, scale.decisions),
        ],
    )?;
    let rows = [("fixed window", &figures[0], 0.8), ("sliding window", &figures[1], 1.0)];
    for (name, ours, most) in rows {
        let work = format!("{name}, {}", load(scale.keys, 2));
        table.push(&work, "governor's GCRA", "ns", ours, &figures[2], Target::AtMost(most));
    }
    Ok(())
}

/// Bytes per unexpired key, and allocations of a decision about a known one.
pub(crate) fn allocations(scale: &Scale, measure: Measure) -> String {
    let keys = scale.most_keys;
    let identities = identities(keys);
    let rows = [
        ("ours", allocated(measure, &identities, || Ours::gcra(keys)), Target::AtMost(60.0)),
        ("governor", allocated(measure, &identities, Governor::new), Target::None),
        ("throttlecrab", allocated(measure, &identities, || Throttlecrab::new(keys)), Target::None),
    ];
    let row = |(name, (bytes, allocations), target): (&str, (f64, f64), Target)| -> Vec<String> {
        let verdict = target.verdict(bytes).to_owned();
        vec![name.to_owned(), digits(bytes), target.to_string(), verdict, digits(allocations)]
    };
    let header = ["", "bytes per key", "target", "reached", "allocations of a decision"];
    let rows = rows.map(row);
    format!("## Memory of {keys} unexpired keys of 12 characters\n\n{}", markdown(&header, &rows))
}

/// Bytes per key, and allocations per decision after that.
fn allocated<L: Limit>(measure: Measure, identities: &[Identity], make: impl Fn() -> L) -> (f64, f64) {
    let mut limit = None;
    let whole = measure(&mut || fill(limit.insert(make()), identities));
    let again = limit.map(|limit| measure(&mut || fill(&limit, identities)));
    let count = identities.len() as f64;
    (whole.bytes as f64 / count, again.map_or(0.0, |again| again.count as f64) / count)
}

fn identities(count: usize) -> Vec<Identity> {
    (0..count).map(|number| Identity(format!("user-{number:07}"))).collect()
}

/// Charges every key once.
fn fill(limit: &impl Limit, identities: &[Identity]) {
    assert!(identities.iter().all(|identity| limit.is_allowed(identity)), "the quota is never used up");
}

/// A round in which each thread makes this number of decisions, about all identities in turns.
fn round<'a>(
    limit: &'a impl Limit,
    identities: &'a [Identity],
    threads: usize,
    decisions: usize,
) -> Round<'a, f64, Error> {
    let mut first = 0;
    Box::new(move || {
        let elapsed = threads::run(threads, |thread| {
            let mut next = (first + thread * identities.len() / threads) % identities.len();
            for _ in 0..decisions {
                assert!(
                    limit.is_allowed(std::hint::black_box(&identities[next])),
                    "the quota is never used up"
                );
                next += 1;
                // Faster than a remainder, which would count.
                if next == identities.len() {
                    next = 0;
                }
            }
        });
        first += decisions;
        Ok(elapsed.as_secs_f64() * 1e9 / decisions as f64)
    })
}

fn load(keys: usize, threads: usize) -> String {
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    if keys == 1 { format!("one hot key, {threads}") } else { format!("{keys} keys, {threads}") }
}
