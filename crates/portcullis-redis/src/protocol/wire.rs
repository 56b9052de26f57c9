//! The wire format: a call's arguments, and the reply to it.

mod combined;
mod guard;
mod record;
mod renewals;
mod replay;
mod reply;
mod words;

use std::time::Duration;

use bytes::Bytes;
use portcullis_core::algorithm::{Meter, Span};
use portcullis_core::store::{Check, Checks, Refund, Run};
use portcullis_core::{InFlight, Quota, SlidingWindow, Strategy, Timestamp};
use smallvec::SmallVec;

#[cfg(test)]
pub(crate) use combined::REPEATS;
pub(crate) use combined::{CombinedRequest, MAX_LOAD, load_of};
pub(crate) use guard::{GrantNumbers, Guard, GuardReply};
pub(crate) use renewals::{PermitRun, RenewalCall, first_renewals};
pub(crate) use replay::Replay;
pub(crate) use reply::{Reply, StoredState, wrote};
pub(super) use reply::{malformed, number_at};
pub(crate) use words::CallWords;

use self::record::{MAX_RECORD, RECORD, length_of_records};
use super::keys::{Layout, OVERRIDE_SUFFIX};

/// The operation that a script applies to every key of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<'r> {
    Check,
    /// Of one check only.
    Refund(Refund<'r>),
    Force,
    Reset,
    /// See [`RenewalCall`].
    Renew,
}

impl Operation<'_> {
    const fn code(self) -> u8 {
        match self {
            Self::Check => 1,
            Self::Refund(refund) if refund.only_newest() => 3,
            Self::Refund(_) => 2,
            Self::Force => 4,
            Self::Reset => 5,
            Self::Renew => 6,
        }
    }
}

/// The keys or the arguments of a call.
pub(crate) type Words = SmallVec<[Bytes; 2]>;

/// The keys and the arguments of a call that makes one decision: the keys of the checks, in the same order, and the request and the
/// instant of a scenario. All but the instant share one buffer. `near` is an instant near that of the server, for calendar windows.
/// The `guards` are checks of the overrides, after those of the states.
///
/// Mirrors: the comment of `lua/driver.lua`.
pub(crate) fn encode<'a>(
    layout: &Layout,
    operation: Operation<'_>,
    now: Option<Timestamp>,
    near: Timestamp,
    checks: impl Iterator<Item = &'a Check> + Clone,
    guards: &[Guard],
) -> (Words, Words) {
    let strategies = checks.clone().map(|check| (check.policy.strategy(), check.units()));
    let mut request = Request::new(operation, near, strategies);
    for guard in guards {
        request.add(guard.record());
    }
    let names: usize = checks.clone().map(|check| layout.longest_name(&check.policy)).sum();
    let names = if guards.is_empty() { names } else { 2 * names + guards.len() * OVERRIDE_SUFFIX.len() };
    let mut buffer = Vec::with_capacity(request.len() + names);
    request.write(&mut buffer);
    let mut ends: SmallVec<[usize; 2]> = SmallVec::new();
    for check in checks.clone() {
        layout.write_name(&mut buffer, &check.policy, check.key);
        ends.push(buffer.len());
    }
    // Guards are in the order of the checks.
    let has_guard = |index: usize| guards.iter().any(|guard| guard.check == index);
    for (_, check) in checks.enumerate().filter(|(index, _)| has_guard(*index)) {
        layout.write_override_name(&mut buffer, &check.policy, check.key);
        ends.push(buffer.len());
    }
    let (buffer, mut from) = (Bytes::from(buffer), request.len());
    let keys = ends.into_iter().map(|end| buffer.slice(std::mem::replace(&mut from, end)..end)).collect();
    (keys, with_instant(buffer.slice(..request.len()), now))
}

pub(crate) fn with_instant(request: Bytes, now: Option<Timestamp>) -> Words {
    let instant = now.map(|now| Bytes::copy_from_slice(&double(now.as_micros())));
    std::iter::once(request).chain(instant).collect()
}

/// What a script does to the keys of a call.
struct Request {
    operation: u8,
    records: Records,
    numbers: Numbers,
    runs: Runs,
}

impl Request {
    fn new<'a>(
        operation: Operation<'_>,
        near: Timestamp,
        checks: impl Iterator<Item = (&'a Strategy, u64)>,
    ) -> Self {
        let (mut records, mut numbers, mut runs) = (Records::new(), Numbers::new(), Runs::new());
        for (strategy, cost) in checks {
            numbers.push(number_of(&mut records, record(operation, strategy, cost, near)));
            if let Operation::Refund(refund) = operation {
                runs.extend(refund.runs().map(|run| run_bytes(strategy, run)));
            }
        }
        Self { operation: operation.code(), records, numbers, runs }
    }

    fn add(&mut self, record: Record) {
        self.numbers.push(number_of(&mut self.records, record));
    }

    fn len(&self) -> usize {
        let (record, _) = length_of_records(&self.records);
        HEAD + 2 * self.numbers.len() + record * self.records.len() + RUN * self.runs.len()
    }

    fn write(&self, buffer: &mut Vec<u8>) {
        let checks = self.numbers.len();
        let (record, flag) = length_of_records(&self.records);
        buffer.extend_from_slice(&[self.operation | flag, byte(checks), byte(self.records.len())]);
        for (key, number) in (1_u8..).zip(&self.numbers) {
            let ends_decision = if usize::from(key) == checks { LAST } else { 0 };
            buffer.extend_from_slice(&[number | ends_decision, key]);
        }
        self.records.iter().for_each(|parameters| buffer.extend_from_slice(&parameters[..record]));
        self.runs.iter().for_each(|run| buffer.extend_from_slice(run));
    }
}

/// A byte for the algorithm, and its parameters.
type Record = [u8; MAX_RECORD];
type Records = SmallVec<[Record; 2]>;

/// Returns the index of a record, which is added if it is new.
fn number_of(records: &mut Records, record: Record) -> u8 {
    let number = records.iter().position(|known| *known == record).unwrap_or_else(|| {
        records.push(record);
        records.len() - 1
    });
    byte(number)
}

/// By check, the index of its record.
type Numbers = SmallVec<[u8; Checks::MAX]>;

type Runs = SmallVec<[[u8; RUN]; 1]>;

fn record(operation: Operation<'_>, strategy: &Strategy, cost: u64, near: Timestamp) -> Record {
    let rate_based = |rate: &Meter| (METER, meter(operation, rate, cost), record::levels(operation, rate));
    let units = bounded(cost);
    // A forced charge needs the most units that a window may hold, a check its limit.
    let most = |limit, ceiling| if operation == Operation::Force { ceiling } else { limit };
    let (algorithm, parameters, levels) = match strategy {
        Strategy::TokenBucket(bucket) => rate_based(bucket.meter()),
        Strategy::Gcra(gcra) => rate_based(gcra.meter()),
        Strategy::LeakyBucket(bucket) => rate_based(bucket.meter()),
        Strategy::FixedWindow(window) => {
            let period = micros(window.period());
            let (phase, most) = (window.phase().unwrap_or(period), most(window.limit(), window.ceiling()));
            (FIXED_WINDOW, [period, phase, most, units, 0, 0], None)
        }
        Strategy::CalendarWindow(window) => {
            let (number, instants) = window.table().nearest_two(near);
            let [start, end, next_end] = instants.map(Timestamp::as_micros);
            let most = most(window.limit(), window.ceiling());
            (CALENDAR_WINDOW, [next_end, most, units, number, start, end], None)
        }
        Strategy::SlidingWindow(window) => {
            // An unlimited one counts nothing.
            let limit = window.limit().min(SlidingWindow::MAX_LIMIT);
            let most = most(limit, window.ceiling());
            (SLIDING_WINDOW, [micros(window.slot()), window.slots().into(), most, units, 0, 0], None)
        }
        Strategy::SlidingLog(log) => {
            (SLIDING_LOG, [micros(log.period()), log.limit(), units, most(0, log.ceiling()), 0, 0], None)
        }
        Strategy::InFlight(limit) => {
            let most = limit.limit().min(InFlight::MAX_LIMIT);
            (IN_FLIGHT, [micros(limit.lease()), most, units, 0, 0, 0], None)
        }
    };
    let mut record = [0; MAX_RECORD];
    record[0] = algorithm;
    doubles(&mut record[1..RECORD], parameters);
    if let Some(levels) = levels {
        doubles(&mut record[RECORD..], levels);
    }
    record
}

type Parameters = [u64; 6];

/// The script needs no burst: a longest wait is room beyond it, and a check of more than the burst costs more than there is room.
fn meter(operation: Operation<'_>, meter: &Meter, cost: u64) -> Parameters {
    let cost = if operation == Operation::Check { meter.span_to_check(cost) } else { meter.span(cost) };
    let highest = meter.highest();
    [meter.denominator(), highest.micros, highest.remainder, cost.micros, cost.remainder, meter.grain()]
}

/// Maximum units passed to the script, so that sums stay below 2^53, exact in a double: more than the limit never fits anyway.
fn bounded(units: u64) -> u64 {
    units.min(2 * Quota::MAX_UNITS)
}

/// A run to refund: for a rate-based algorithm its length and its end, else its units and its position, which for a calendar window
/// is the number of its window, and for requests in flight the epoch and the last serial number.
fn run_bytes(strategy: &Strategy, Run { units, position }: Run) -> [u8; RUN] {
    let length = match strategy {
        Strategy::TokenBucket(bucket) => bucket.meter().span(units),
        Strategy::Gcra(gcra) => gcra.meter().span(units),
        Strategy::LeakyBucket(bucket) => bucket.meter().span(units),
        Strategy::FixedWindow(_)
        | Strategy::CalendarWindow(_)
        | Strategy::SlidingWindow(_)
        | Strategy::SlidingLog(_)
        | Strategy::InFlight(_) => Span { micros: bounded(units), remainder: 0 },
    };
    // No stored state ends later.
    let at = match strategy {
        Strategy::CalendarWindow(window) => window.table().number_at(Timestamp::from_micros(position.micros)),
        _ => position.micros.min(Timestamp::MAX.as_micros()),
    };
    let mut bytes = [0; RUN];
    doubles(&mut bytes, [length.micros, length.remainder, at, position.remainder]);
    bytes
}

fn doubles<const N: usize>(bytes: &mut [u8], numbers: [u64; N]) {
    for (bytes, number) in bytes.chunks_exact_mut(DOUBLE).zip(numbers) {
        bytes.copy_from_slice(&double(number));
    }
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub(super) fn double(number: u64) -> [u8; DOUBLE] {
    (number as f64).to_le_bytes()
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("a decision has at most 16 checks, and as many overrides")
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

const METER: u8 = 1;
const FIXED_WINDOW: u8 = 2;
const SLIDING_WINDOW: u8 = 3;
const SLIDING_LOG: u8 = 4;
const CALENDAR_WINDOW: u8 = 5;
const IN_FLIGHT: u8 = 6;
const OVERRIDE: u8 = 7;
/// The numbers in the reply to the check of an override, besides the status.
const OVERRIDE_NUMBERS: usize = 6;
/// The number of bytes before the checks.
const HEAD: usize = 3;
/// Marks the last check of a decision.
const LAST: u8 = 128;
pub(super) const DOUBLE: usize = 8;
const RUN: usize = 4 * DOUBLE;

#[cfg(test)]
pub(crate) use tests::arguments;

#[cfg(test)]
mod tests {
    use portcullis_core::Policy;

    use super::*;

    /// The arguments alone.
    pub(crate) fn arguments<'a>(
        operation: Operation<'_>,
        now: Option<Timestamp>,
        checks: impl Iterator<Item = (&'a Strategy, u64)>,
    ) -> Words {
        let mut buffer = Vec::new();
        let near = now.unwrap_or_else(|| std::time::SystemTime::now().into());
        Request::new(operation, near, checks).write(&mut buffer);
        with_instant(Bytes::from(buffer), now)
    }

    #[test]
    fn checks_of_equal_parameters_share_a_record() {
        let [minute, hour] =
            [Quota::per_minute(5), Quota::per_hour(5)].map(|quota| Policy::gcra("gcra", quota));
        let checks = [(&minute, 1), (&hour, 1), (&minute, 2), (&minute, 1)];
        let checks = checks.into_iter().map(|(policy, cost)| (policy.strategy(), cost));
        let arguments = arguments(Operation::Check, None, checks);
        let [request] = &arguments[..] else { panic!("{arguments:?}") };
        assert_eq!(request.len(), HEAD + 2 * 4 + 3 * RECORD);
        assert_eq!(request[..HEAD + 2 * 4], [1, 4, 3, 0, 1, 1, 2, 2, 3, LAST, 4]);
    }

    #[test]
    fn records_are_long_for_debts_of_rate_based_policies_alone() {
        let quota = Quota::per_minute(5);
        let request = |operation, policy: &Policy| {
            arguments(operation, None, std::iter::once((policy.strategy(), 1))).swap_remove(0)
        };
        let gcra = Policy::gcra("a", quota);
        let debt = gcra.clone().allow_debt(7);
        for (operation, code) in [(Operation::Check, 1), (Operation::Force, 4)] {
            let (plain, long) = (request(operation, &gcra), request(operation, &debt));
            assert_eq!((plain[0], long[0]), (code, code | 128));
            assert_eq!((plain.len(), long.len()), (HEAD + 2 + RECORD, HEAD + 2 + MAX_RECORD));
            assert_eq!(plain[1..], long[1..plain.len()]);
            // A burst of one and a debt of seven, in 12 s each.
            assert_eq!(long[plain.len()..][..8], 96_000_000_f64.to_le_bytes());
        }
        assert_eq!(request(Operation::Reset, &gcra), request(Operation::Reset, &debt));
        let window = Policy::fixed_window("a", quota);
        let window_in_debt = window.clone().allow_debt(7);
        assert_eq!(request(Operation::Check, &window), request(Operation::Check, &window_in_debt));
    }
}
