//! Decisions in memory, from the text of an identity to the answer.

mod growth;
mod limits;
mod threads;

use anyhow::{Error, Result};
use portcullis_bench::{Comparison, Round, Target, digits, interleaved, markdown};

use self::limits::{Governor, Identity, Limit, Ours, Throttlecrab};
use crate::options::Limiter;
use crate::scale::Scale;
use crate::{Measure, Options};

/// Nanoseconds per decision and thread.
pub(crate) fn times(scale: &Scale) -> Result<Comparison> {
    let mut table = Comparison::new("Time of a decision in memory, per thread");
    for keys in [1, scale.keys, scale.most_keys] {
        gcra(scale, keys, &mut table)?;
    }
    windows(scale, &mut table)?;
    denials(scale, &mut table)?;
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
                round(&ours, &identities, (threads, true), scale.decisions),
                round(&governor, &identities, (threads, true), scale.decisions),
                round(&crab, &identities, (threads, true), scale.decisions),
            ],
        )?;
        let work = format!("GCRA, {}", load(keys, threads));
        let target = match (keys, threads) {
            (1, 1) => Target::AtMost(1.0),
            (1, _) => Target::AtMost(0.9),
            (keys, 1) if keys == scale.most_keys => Target::None,
            (keys, 2) if keys == scale.keys => Target::AtMost(0.6),
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
    for (threads, targets) in [(1, [0.8, 0.9]), (2, [0.8, 1.0])] {
        let figures = interleaved(
            scale.rounds,
            &mut [
                round(&fixed, &identities, (threads, true), scale.decisions),
                round(&sliding, &identities, (threads, true), scale.decisions),
                round(&governor, &identities, (threads, true), scale.decisions),
            ],
        )?;
        for ((name, ours), most) in ["fixed window", "sliding window"].iter().zip(&figures).zip(targets) {
            let work = format!("{name}, {}", load(scale.keys, threads));
            table.push(&work, "governor's GCRA", "ns", ours, &figures[2], Target::AtMost(most));
        }
    }
    Ok(())
}

/// A client that goes on after its denial.
fn denials(scale: &Scale, table: &mut Comparison) -> Result<()> {
    let identities = identities(1);
    let [gcra, fixed, sliding] = Ours::of_one_unit();
    let governor = Governor::of_one_unit();
    for limit in [&gcra, &fixed, &sliding] {
        fill(limit, &identities);
    }
    fill(&governor, &identities);
    let figures = interleaved(
        scale.rounds,
        &mut [
            round(&gcra, &identities, (2, false), scale.decisions),
            round(&fixed, &identities, (2, false), scale.decisions),
            round(&sliding, &identities, (2, false), scale.decisions),
            round(&governor, &identities, (2, false), scale.decisions),
        ],
    )?;
    let rows = [
        ("GCRA", "governor", 1.0),
        ("fixed window", "governor's GCRA", 1.0),
        ("sliding window", "governor's GCRA", 1.2),
    ];
    for ((name, beside, most), ours) in rows.into_iter().zip(&figures) {
        let work = format!("{name}, denied, {}", load(1, 2));
        table.push(&work, beside, "ns", ours, &figures[3], Target::AtMost(most));
    }
    Ok(())
}

/// Bytes per unexpired key, by the allocator and by the growth of the process, and allocations of a decision about a known one.
pub(crate) fn allocations(scale: &Scale, options: &Options, measure: Measure) -> Result<String> {
    let keys = scale.most_keys;
    let identities = identities(keys);
    let rows = [
        (
            Limiter::Ours,
            allocated(measure, &identities, || Ours::gcra(keys)),
            [Target::AtMost(40.0), Target::AtMost(60.0)],
        ),
        (Limiter::Governor, allocated(measure, &identities, Governor::new), [Target::None; 2]),
        (
            Limiter::Throttlecrab,
            allocated(measure, &identities, || Throttlecrab::new(keys)),
            [Target::None; 2],
        ),
    ];
    let mut cells = Vec::new();
    for (limiter, (bytes, allocations), [of_bytes, of_growth]) in rows {
        let growth = growth::of_another_process(limiter, options)? / keys as f64;
        let mut row = vec![
            limiter.to_string(),
            digits(bytes),
            of_bytes.to_string(),
            of_bytes.verdict(bytes).to_owned(),
        ];
        row.extend([digits(growth), of_growth.to_string(), of_growth.verdict(growth).to_owned()]);
        row.push(digits(allocations));
        cells.push(row);
    }
    let header = [
        "",
        "bytes per key",
        "target",
        "reached",
        "growth of the process",
        "target",
        "reached",
        "allocations of a decision",
    ];
    Ok(format!("## Memory of {keys} unexpired keys of 12 characters\n\n{}", markdown(&header, &cells)))
}

/// Prints by how many bytes this process grows with the keys of a limiter.
pub(crate) fn growth(scale: &Scale, limiter: Limiter) -> Result<()> {
    let keys = scale.most_keys;
    let identities = identities(keys);
    match limiter {
        Limiter::Ours => growth::print(|| filled(Ours::gcra(keys), &identities)),
        Limiter::Governor => growth::print(|| filled(Governor::new(), &identities)),
        Limiter::Throttlecrab => growth::print(|| filled(Throttlecrab::new(keys), &identities)),
    }
}

fn filled<L: Limit>(limit: L, identities: &[Identity]) -> L {
    fill(&limit, identities);
    limit
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

/// A round in which each thread makes this number of decisions, about all identities in turns, with the same answer.
fn round<'a>(
    limit: &'a impl Limit,
    identities: &'a [Identity],
    (threads, answer): (usize, bool),
    decisions: usize,
) -> Round<'a, f64, Error> {
    let mut first = 0;
    Box::new(move || {
        let elapsed = threads::run(threads, |thread| {
            let mut next = (first + thread * identities.len() / threads) % identities.len();
            for _ in 0..decisions {
                let is_allowed = limit.is_allowed(std::hint::black_box(&identities[next]));
                assert!(is_allowed == answer, "the quota is never used up, or always");
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
