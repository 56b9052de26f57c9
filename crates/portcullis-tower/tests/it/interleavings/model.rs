//! What each request is planned to do, and the units that it should leave.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use fastrand::Rng;
use portcullis_tower::Charge;

pub(super) const KEYS: [&str; 3] = ["ada", "bob", "eve"];
pub(super) const POLICIES: [&str; 7] = ["guesses", "looked", "both", "calls", "tokens", "mails", "scarce"];
pub(super) const LIMIT: u64 = 1_000_000_000;
pub(super) const SCARCE: u64 = 50;

/// The choices of a task.
pub(super) struct Random(Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    pub(super) fn index(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    pub(super) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    fn maybe<T>(&mut self, one_in: u64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(one_in) == 0).then(|| value(self))
    }
}

/// Units per key and policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals(BTreeMap<(usize, &'static str), u64>);

impl Totals {
    pub(super) fn add(&mut self, key: usize, policy: &'static str, units: u64) {
        if units > 0 {
            *self.0.entry((key, policy)).or_default() += units;
        }
    }

    pub(super) fn set(&mut self, key: usize, policy: &'static str, units: u64) {
        self.0.remove(&(key, policy));
        self.add(key, policy, units);
    }

    pub(super) fn join(&mut self, other: &Self) {
        for ((key, policy), units) in &other.0 {
            self.add(*key, policy, *units);
        }
    }
}

/// How a handler changes its charge.
#[derive(Clone, Copy)]
pub(super) enum Act {
    Settle(u64),
    More(u64),
}

#[derive(Clone, Copy)]
pub(super) enum End {
    Respond,
    Error,
    Panic,
}

#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) key: usize,
    pub(super) is_grpc: bool,
    pub(super) is_refused: bool,
    pub(super) tokens: Option<u64>,
    pub(super) both: Option<u64>,
    /// With the layer whose charge is changed, the innermost first.
    pub(super) act: Option<(usize, Act)>,
    pub(super) yields: u64,
    pub(super) end: End,
    pub(super) frames: u64,
    /// How often the request is polled before it is dropped.
    pub(super) polls: u64,
    /// How often its body is polled for a frame.
    pub(super) frame_polls: u64,
    /// What the innermost charge is settled at in the end.
    pub(super) late: Option<u64>,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            key: random.index(KEYS.len()),
            is_grpc: random.below(2) == 0,
            is_refused: random.below(2) == 0,
            tokens: random.maybe(2, |random| random.below(30)),
            both: random.maybe(2, |random| random.below(30)),
            act: random.maybe(3, |random| {
                let units = random.below(15);
                let act = if random.below(2) == 0 { Act::Settle(units) } else { Act::More(units) };
                (random.index(3), act)
            }),
            yields: random.below(3),
            end: [End::Respond, End::Respond, End::Respond, End::Error, End::Panic][random.index(5)],
            frames: random.below(3),
            polls: if random.below(3) == 0 { random.below(9) } else { u64::MAX },
            frame_polls: if random.below(3) == 0 { random.below(3) } else { u64::MAX },
            late: random.maybe(4, |random| random.below(9)),
        }
    }
}

/// What has happened to a request, in the three services that layers wrap, the outermost first.
pub(super) struct Track {
    pub(super) plan: Plan,
    pub(super) called: [AtomicBool; 3],
    pub(super) responded: [AtomicBool; 3],
    pub(super) is_acting: AtomicBool,
    pub(super) has_acted: AtomicBool,
    pub(super) charge: Mutex<Option<Charge>>,
}

impl Track {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            called: Default::default(),
            responded: Default::default(),
            is_acting: AtomicBool::default(),
            has_acted: AtomicBool::default(),
            charge: Mutex::default(),
        }
    }

    /// The units that the request should leave, if `frames` data frames of its body were taken.
    pub(super) fn expected(&self, frames: u64, is_complete: bool) -> Totals {
        let (plan, mut totals) = (&self.plan, Totals::default());
        let is_called = |index: usize| self.called[index].load(SeqCst);
        // Whether a layer knows that the request is not charged.
        let is_lifted = |index: usize| {
            !plan.is_refused && self.responded[index].load(SeqCst) && (is_complete || !plan.is_grpc)
        };
        let act = plan.act.filter(|_| self.has_acted.load(SeqCst));
        // What a layer leaves, unless a handler has settled it.
        let mut leave = |level: usize, policy: &'static str, left: &dyn Fn(u64) -> u64| {
            let units = match act.filter(|(of, _)| *of == level) {
                Some((_, Act::Settle(units))) => units,
                Some((_, Act::More(units))) => left(units),
                None => left(0),
            };
            totals.add(plan.key, policy, units);
        };
        leave(2, "guesses", &|more| if is_lifted(0) { more } else { 1 + more });
        leave(2, "looked", &|more| if is_lifted(0) || !is_called(0) { more } else { 1 + more });
        if is_called(0) {
            leave(1, "both", &|more| match plan.both.filter(|_| is_called(2)) {
                _ if is_lifted(1) => more,
                _ if !is_called(1) => 10 + more,
                _ if !is_complete => 0,
                Some(used) => used,
                None => 10 + more,
            });
        }
        if is_called(1) {
            leave(0, "calls", &|more| 1 + more);
            leave(0, "tokens", &|more| match (plan.tokens.filter(|_| is_called(2)), frames) {
                (None, 0) => 10 + more,
                (used, frames) => used.unwrap_or_default() + 2 * frames,
            });
        }
        totals
    }
}
