//! Samples of states, which a page draws as they are.

use portcullis_core::algorithm::State;
use portcullis_core::{Quota, Strategy, Timestamp};

use crate::json::Json;
use crate::lane::Owner;

/// The states of a lane at instants.
pub(crate) struct Samples {
    limits: Vec<OfLimit>,
    service: Vec<[u64; 4]>,
    /// Instants, each with the units that each instance has in lease.
    leases: Vec<Vec<i64>>,
}

#[derive(Default)]
struct OfLimit {
    rows: Vec<Vec<i64>>,
    /// The most bytes that a state has had as a value in Redis.
    redis_bytes: usize,
}

impl Samples {
    pub(crate) fn new(limits: usize) -> Self {
        Self {
            limits: (0..limits).map(|_| OfLimit::default()).collect(),
            service: Vec::new(),
            leases: Vec::new(),
        }
    }

    /// Adds the state of an owner under a limit. Those at requests may be too many; those at ticks are few, and go on to the end.
    pub(crate) fn add(
        &mut self,
        limit: usize,
        (at, owner): (u64, Owner),
        (strategy, state, now): (&Strategy, Option<&State>, Timestamp),
        is_tick: bool,
    ) {
        let limit = &mut self.limits[limit];
        // An expired state decides like none.
        let state = state.filter(|state| strategy.expires_at(state) > now.as_micros());
        limit.redis_bytes = limit.redis_bytes.max(state.map_or(0, redis_bytes));
        if limit.rows.len() >= MOST && !is_tick {
            return;
        }
        let snapshot = strategy.snapshot(state, now, 0, true);
        let mut row = vec![number(at), owner.0, number(owner.1 as u64), number(snapshot.remaining)];
        if let Some(state) = state {
            push_state(&mut row, strategy, state, (at, now.as_micros()));
        }
        // What is drawn at an instant is the last state of it.
        let last = limit.rows.iter().rposition(|known| known[0] != row[0]).map_or(0, |last| last + 1);
        match limit.rows[last..].iter().position(|known| known[1..3] == row[1..3]) {
            Some(same) => limit.rows[last + same] = row,
            None => limit.rows.push(row),
        }
    }

    /// Adds what is in flight in the service, waits for it, and is its limit.
    pub(crate) fn add_service(&mut self, at: u64, figures: [u64; 3]) {
        let [in_flight, queued, limit] = figures;
        self.service.push([at, in_flight, queued, limit]);
    }

    /// Adds the units that each instance has in lease.
    pub(crate) fn add_leases(&mut self, at: u64, units: impl Iterator<Item = u64>) {
        self.leases.push(std::iter::once(at).chain(units).map(number).collect());
    }

    pub(crate) fn write(&self, json: &mut Json) {
        json.list("states", self.limits.iter(), |json, limit| {
            json.array(|json| limit.rows.iter().for_each(|row| json.numbers(row.iter().copied())));
        });
        json.list("redis_bytes", self.limits.iter(), |json, limit| json.value(limit.redis_bytes as u64));
        json.list("service", self.service.iter(), |json, row| json.numbers(row.map(number)));
        json.list("leases", self.leases.iter(), |json, row| json.numbers(row.iter().copied()));
    }
}

/// The numbers of a state. Instants are microseconds since the start of the scene.
fn push_state(row: &mut Vec<i64>, strategy: &Strategy, state: &State, (at, now): (u64, u64)) {
    let since_start = |instant: u64| number(instant) - number(now) + number(at);
    match state {
        State::Tat(tat) => {
            let level = u128::from(tat.micros.saturating_sub(now)) * 1_000;
            let quota = strategy.quota().unwrap_or(Quota::UNLIMITED);
            let units =
                level.saturating_mul(u128::from(quota.limit())).checked_div(quota.period().as_micros());
            row.push(units.map_or(0, saturated));
            row.push(since_start(tat.micros));
        }
        State::Window(window) => {
            row.push(if window.end > now { number(window.count) } else { 0 });
            row.push(since_start(window.end));
        }
        State::CalendarCount(count) => {
            row.push(if count.end > now { number(count.count) } else { 0 });
            row.push(since_start(count.end));
        }
        State::Slots(slots) => {
            // The counts at now: zeros for the slots that have begun since the newest charge.
            let counts = slots.counts();
            let passed = (now + slots.width()).saturating_sub(slots.end()) / slots.width();
            let passed = usize::try_from(passed).unwrap_or(usize::MAX).min(counts.len());
            let end = slots.end() + passed as u64 * slots.width();
            let counts: Vec<u64> =
                std::iter::repeat_n(0, passed).chain(counts.iter().copied()).take(counts.len()).collect();
            let (oldest, whole) =
                counts.split_last().map_or((0, &[][..]), |(oldest, whole)| (*oldest, whole));
            let fading =
                u128::from(oldest) * 1_000 * u128::from(end.saturating_sub(now)) / u128::from(slots.width());
            row.push(saturated(u128::from(whole.iter().sum::<u64>()) * 1_000 + fading));
            row.push(since_start(end));
            row.extend(counts.iter().take(SHOWN_SLOTS).copied().map(number));
        }
        State::Log(log) => {
            let period = u64::try_from(strategy.window().as_micros()).unwrap_or(u64::MAX);
            let live: Vec<u64> = log.stamps().filter(|stamp| stamp.saturating_add(period) > now).collect();
            row.push(number(live.len() as u64));
            row.extend(live.iter().rev().take(SHOWN_STAMPS).map(|stamp| since_start(*stamp)));
        }
        State::Permits(permits) => {
            row.push(number(permits.held().iter().filter(|permit| permit.expires > now).count() as u64));
        }
    }
}

/// The bytes of a state as a value in Redis, without the name of its key. A log has room for a few more.
///
/// Mirrors: the Lua files of `portcullis-redis`, each of which describes its state.
fn redis_bytes(state: &State) -> usize {
    match state {
        State::Tat(tat) => {
            if tat.remainder == 0 {
                8
            } else {
                16
            }
        }
        State::Window(_) | State::CalendarCount(_) => 24,
        State::Slots(slots) => {
            let counts = slots.counts();
            let kept = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
            let widest = counts.iter().max().copied().unwrap_or(0).max(1);
            25 + kept * (widest.ilog(256) as usize + 1)
        }
        State::Log(log) => 21 + 8 * log.stamps().count(),
        State::Permits(permits) => 24 + 16 * permits.held().len(),
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn saturated(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The most samples of a limit, after which there are only those at ticks.
const MOST: usize = 30_000;
const SHOWN_SLOTS: usize = 32;
const SHOWN_STAMPS: usize = 32;
