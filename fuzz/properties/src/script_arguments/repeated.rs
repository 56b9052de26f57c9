//! Requests whose decisions are made several times: in one step, with the same result as one after another.

use super::{
    CALENDAR_WINDOW, CHECK, DOUBLE, FIXED_WINDOW, LAST, LONG_RECORD, LONG_RECORDS, METER, RECORD, REPEATS,
    SLIDING_WINDOW, fields_of,
};

/// The parts of a request with times.
pub(super) struct Repeated<'a> {
    operation: u8,
    checks: &'a [u8],
    /// By check, how often it is made.
    times: &'a [u8],
    record_count: u8,
    records: &'a [u8],
}

impl<'a> Repeated<'a> {
    /// Returns `None` for a request that states no times.
    pub(super) fn of(request: &'a [u8]) -> Option<Self> {
        let [operation, count, record_count, rest @ ..] = request else { return None };
        if operation & !LONG_RECORDS != CHECK | REPEATS {
            return None;
        }
        let (checks, rest) = rest.split_at_checked(2 * usize::from(*count))?;
        let (times, records) = rest.split_at_checked(usize::from(*count))?;
        Some(Self { operation: *operation, checks, times, record_count: *record_count, records })
    }

    pub(super) fn times(&self) -> &'a [u8] {
        self.times
    }

    /// The request without times: each check as often as it is made. `None` if these are too many.
    pub(super) fn one_by_one(&self) -> Option<Vec<u8>> {
        let checks: Vec<u8> = self
            .checks
            .chunks(2)
            .zip(self.times)
            .flat_map(|(check, times)| check.repeat(usize::from(*times)))
            .collect();
        let count = u8::try_from(checks.len() / 2).ok()?;
        let head = [self.operation & !REPEATS, count, self.record_count];
        Some([&head[..], &checks, self.records].concat())
    }

    /// The instant of a reply, and for each check whether its last decision fits, and the state after it: of the reply to this request if
    /// it `is_repeated`, else of that to the one without times. Expiries are left out, because each single decision states its own.
    pub(super) fn last_states(&self, reply: &[u8], is_repeated: bool) -> Vec<Vec<f64>> {
        let (doubles, _) = reply.as_chunks::<DOUBLE>();
        let mut numbers = doubles.iter().map(|double| f64::from_le_bytes(*double));
        let mut states = vec![vec![numbers.next().unwrap_or(-1.0)]];
        for (check, times) in self.checks.chunks(2).zip(self.times) {
            let algorithm = self.records[self.record_length() * usize::from(check[0] % LAST)];
            let mut last = Vec::new();
            for _ in 0..if is_repeated { 1 } else { *times } {
                let fits = numbers.next().unwrap_or(-1.0) % 2.0;
                last = [vec![fits], state(algorithm, &mut numbers)].concat();
            }
            if is_repeated && *times > 1 {
                // The one before.
                state(algorithm, &mut numbers);
            }
            states.push(last);
        }
        states
    }

    fn record_length(&self) -> usize {
        if self.operation & LONG_RECORDS == 0 { RECORD } else { LONG_RECORD }
    }

    /// Whether the numbers of all records are such as a store sends: with others, a state that was written is not always read again.
    pub(super) fn is_sane(&self, now: f64) -> bool {
        let mut records = self.records.chunks(self.record_length()).take(usize::from(self.record_count));
        now < HALF && records.all(|record| is_sane(record, now))
    }
}

/// The numbers of a state in a reply.
fn state(algorithm: u8, numbers: &mut impl Iterator<Item = f64>) -> Vec<f64> {
    let mut state = Vec::new();
    let mut left = fields_of(algorithm, || {
        let counts = numbers.next().unwrap_or(0.0);
        state.push(counts);
        counts
    });
    while left > 0.0 {
        state.push(numbers.next().unwrap_or(-1.0));
        left -= 1.0;
    }
    state
}

fn is_sane(record: &[u8], now: f64) -> bool {
    let (algorithm, parameters) = record.split_first().expect("a record is not empty");
    let (doubles, _) = parameters.as_chunks::<DOUBLE>();
    let p: Vec<f64> = doubles.iter().map(|double| f64::from_le_bytes(*double)).collect();
    let [p1, p2, p3, p4, p5, p6, rest @ ..] = &p[..] else { return false };
    let ceiling = rest.first().copied().unwrap_or(0.0);
    p.iter().all(|parameter| *parameter < HALF)
        && match *algorithm {
            METER => p3 < p1 && p5 < p1 && now + p2 + p6 < HALF && (ceiling <= 0.0 || ceiling > *p2),
            FIXED_WINDOW => p2 <= p1 && now + 2.0 * p1 < HALF,
            CALENDAR_WINDOW => p4 <= p5 && p5 <= p6,
            SLIDING_WINDOW => now + p1 * (p2 + 2.0) < HALF,
            _ => true,
        }
}

/// Sums of a few numbers below it are exact.
const HALF: f64 = 4_503_599_627_370_496.0;
