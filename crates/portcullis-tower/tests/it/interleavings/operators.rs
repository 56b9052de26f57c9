//! Requests that hold permits and charge units, while operators grant quotas, block keys and reset states.
//!
//! The operations of all threads are random. At the end of each round, nothing runs: then all balances are exact.

use super::history::{History, Restarted, Span};
use super::requests::{Export, Plan, Run, hold, request, stack};
use super::world::{CHARGED, DAILY_LIMIT, EXPORTS, Seen, UNITS, UPLOADS, World, units};
use super::*;

const ROUNDS: u64 = 3;
const OPERATIONS: usize = 30;

/// Charges units under a policy whose states are reset at any time.
async fn charge_restarted(world: &World, random: &mut Random) {
    let (number, cost, policy) = (random.index(KEYS.len()), 1 + random.below(5), units("restarted"));
    let begin = world.begin();
    let charge = CheckBuilder::new(&world.registry, &policy).by_key(key(number)).cost(cost).await.unwrap();
    let span = Span { begin, end: world.mark() };
    let charged = |span, units| world.keys[number].restarted.lock().unwrap().charged(span, units);
    for _ in 0..random.below(3) {
        yield_now().await;
    }
    let begin = world.begin();
    match random.below(4) {
        0 => charge.refund().await.unwrap(),
        1 => {
            let units = 1 + random.below(8);
            assert_eq!(charge.settle(units).await.unwrap().uncharged, 0);
            charged(span, units.min(cost));
            charged(Span { begin, end: world.mark() }, units.saturating_sub(cost));
        }
        2 => {
            assert!(charge.charge_more(3).await.unwrap().is_allowed());
            charged(span, cost);
            charged(Span { begin, end: world.mark() }, 3);
        }
        _ => charged(span, cost),
    }
}

/// Holds the permit of a check.
async fn export(world: &Arc<World>, random: &mut Random) {
    let number = random.index(KEYS.len());
    let policy = EXPORTS.policy();
    let Ok(charge) = CheckBuilder::new(&world.registry, &policy).by_key(key(number)).await else { return };
    let export = Export::start(world, number);
    let yields = random.below(4);
    if random.below(2) == 0 {
        let permit = charge.take_permit().unwrap();
        drop(charge);
        tokio::spawn(hold(export, permit, yields));
    } else {
        hold(export, charge, yields).await;
    }
}

/// The operations of one thread in one round. Returns its requests, of which nothing runs any more.
fn run(world: &Arc<World>, seed: u64) -> Vec<Arc<Run>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let tasks = (0..TASKS).map(|task| {
            let (world, mut random) = (Arc::clone(world), Random::new(seed ^ (task << 40)));
            tokio::spawn(async move {
                let (stack, mut runs) = (stack(&world.registry), Vec::new());
                for _ in 0..OPERATIONS {
                    match random.below(48) {
                        0 => world.reset_uploads_in_a_row(&mut random).await,
                        1..8 => world.operate(&mut random).await,
                        8..16 => charge_restarted(&world, &mut random).await,
                        16..20 => export(&world, &mut random).await,
                        _ => {
                            let run = Run::new(&world, Plan::new(&mut random));
                            let charged = Arc::clone(&run.charged);
                            CHARGED.scope(charged, request(Arc::clone(&run), stack.clone())).await;
                            runs.push(run);
                        }
                    }
                }
                runs
            })
        });
        let mut runs = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            runs.extend(task.await.unwrap());
        }
        // What continues in the background is in this runtime, except the task that renews leases.
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        for _ in 0..10_000 {
            if tasks() == 0 {
                break;
            }
            yield_now().await;
        }
        assert_eq!(tasks(), 0, "no task is left");
        runs
    })
}

/// How often something was seen that the test is about.
#[derive(Debug, Default)]
struct Numbers {
    blocked: u64,
    granted: u64,
    above_default: u64,
}

/// Compares what requests have seen with what operators have done.
fn check_seen(world: &World, numbers: &mut Numbers) {
    for (number, span, seen) in world.seen.lock().unwrap().drain(..) {
        let per_key = &world.keys[number];
        let limits = || -> Vec<u64> {
            let limits = per_key.grants.lock().unwrap().possible(span).into_iter();
            limits.map(|limit| limit.unwrap_or(DAILY_LIMIT)).collect()
        };
        let is_possible = match seen {
            Seen::Limit(limit) => {
                numbers.granted += u64::from(limit != DAILY_LIMIT);
                limits().contains(&limit)
            }
            Seen::Spent(units) => {
                numbers.above_default += u64::from(units > DAILY_LIMIT);
                limits().into_iter().any(|limit| units <= limit)
            }
            Seen::IsBlocked(is_blocked) => {
                numbers.blocked += u64::from(is_blocked);
                let blocks = per_key.blocks.lock().unwrap().possible(span);
                blocks.into_iter().any(|block| block.is_some() == is_blocked)
            }
        };
        assert!(is_possible, "{seen:?} in {span:?}");
    }
}

/// Compares the balances of a round, and removes some of them.
fn check_balances(world: &World, expected: &mut Totals, random: &mut Random) {
    let store = &world.store.store;
    let mut charged = Totals::default();
    for (number, per_key) in world.keys.iter().enumerate() {
        let key = key(number);
        for name in UNITS {
            let used = world.used(number, units(name));
            if name == "restarted" {
                let restarted = std::mem::take(&mut *per_key.restarted.lock().unwrap());
                let (fewest, most) = restarted.bounds();
                assert!(
                    fewest <= used && used <= most,
                    "{used} units, not {fewest} to {most}: {restarted:?}"
                );
            } else {
                charged.add(number, name, used);
            }
        }
        for permits in [EXPORTS, UPLOADS] {
            assert_eq!(world.used(number, permits.policy()), 0, "no permit is held");
        }
        let running = (per_key.exports.load(SeqCst), per_key.uploads.lock().unwrap().begun.len());
        assert_eq!(running, (0, 0));
        store.set_grant(&units("daily"), key, None).into_ready().ok().unwrap().unwrap();
        *per_key.grants.lock().unwrap() = History::new();
        *per_key.blocks.lock().unwrap() = History::new();
    }
    assert_eq!(charged, *expected);
    for (number, per_key) in world.keys.iter().enumerate() {
        for name in UNITS {
            if name != "restarted" && random.below(2) == 0 {
                continue;
            }
            store.reset(&units(name), key(number)).into_ready().ok().unwrap().unwrap();
            expected.set(number, name, 0);
            if name == "daily" {
                per_key.spent.store(0, SeqCst);
            }
        }
        *per_key.restarted.lock().unwrap() = Restarted::default();
    }
}

#[test]
fn operators_interleaved_with_requests_leave_the_exact_balance() {
    let seed = seed();
    for is_later in [false, true] {
        let world = Arc::new(World::new(is_later));
        let (mut expected, mut numbers) = (Totals::default(), Numbers::default());
        // Leases are renewed in this runtime, where a permit is held from the beginning.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let policy = EXPORTS.policy();
        let check = CheckBuilder::new(&world.registry, &policy).by(|key| key.part("user", b"mallory"));
        let held = runtime.block_on(check.into_future()).unwrap();
        for round in 0..rounds(ROUNDS) {
            let round_seed = seed ^ (round << 20);
            let runs: Vec<_> = std::thread::scope(|scope| {
                let start = |thread| {
                    let world = &world;
                    scope.spawn(move || run(world, round_seed ^ (thread << 50)))
                };
                let threads: Vec<_> = (0..THREADS).map(start).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            let drained = runtime.block_on(world.registry.drain(std::time::Duration::from_secs(5)));
            assert_eq!((drained.left, drained.lost), (0, 0));
            for run in &runs {
                expected.join(&run.left());
            }
            check_seen(&world, &mut numbers);
            check_balances(&world, &mut expected, &mut Random::new(round_seed));
        }
        assert!(numbers.blocked > 0 && numbers.granted > 0 && numbers.above_default > 0, "{numbers:?}");
        drop(held);
    }
}
