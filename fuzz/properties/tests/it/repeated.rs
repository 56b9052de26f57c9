//! Requests whose decisions are made several times, which a fuzzer of bytes finds seldom: numbers at the edges of every algorithm, on
//! values that are valid, old, damaged or from the future.

use portcullis_fuzz::script_arguments_repeated;
use portcullis_testing::timeline;

const NOW: f64 = 1_600_000_000_000_000.0;
const MINUTE: f64 = 60_000_000.0;
/// The first number that may not be sent.
const EXACT: f64 = 9_007_199_254_740_992.0;

struct Rng(fastrand::Rng);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

#[test]
fn decisions_made_in_one_step_equal_single_ones() {
    let seed = timeline::seed();
    println!("seed {seed}");
    let mut rng = Rng(fastrand::Rng::with_seed(seed));
    let runs = timeline::steps() / 5;
    let compared = (0..runs).filter(|_| script_arguments_repeated(&input(&mut rng))).count() as u64;
    println!("{compared} of {runs} requests are compared");
    assert!(compared * 2 > runs, "{compared} of {runs}");
}

/// A call on the clock of scenarios.
fn input(rng: &mut Rng) -> Vec<u8> {
    let now = NOW + rng.pick(&[0.0, 1.0, 17.0, MINUTE - 1.0, 31.0 * MINUTE]);
    let records: Vec<Record> = (0..=rng.below(3)).map(|_| Record::random(rng, now)).collect();
    let is_long = records.iter().any(|record| record.numbers[6] > 0.0);
    // Each key has values of one record, and checks by any.
    let keys: Vec<Vec<u8>> = (0..=rng.below(2))
        .flat_map(|_| [b" k".to_vec(), records[rng.below(records.len())].value(rng, now)])
        .collect();
    let key_count = keys.len() / 2;
    let names = keys.chunks(2).zip(b'a'..).flat_map(|(key, name)| [&key[0][..], &[name], &key[1]].concat());
    let names: Vec<u8> = names.collect();
    let count = 1 + rng.below(4);
    let checks = (0..count).flat_map(|_| {
        let key = u8::try_from(1 + rng.below(key_count)).unwrap();
        [128 | u8::try_from(rng.below(records.len())).unwrap(), key]
    });
    let checks: Vec<u8> = checks.collect();
    let times: Vec<u8> = (0..count).map(|_| rng.pick(&[1, 2, 3, 7, 30, 60])).collect();
    let [count, record_count] = [count, records.len()].map(|count| u8::try_from(count).unwrap());
    let operation = if is_long { 0xc1 } else { 0x41 };
    let mut input =
        [b"1\n", &names[..], b"\n", &now.to_le_bytes(), &[operation, count, record_count]].concat();
    input.extend([checks, times].concat());
    for record in &records {
        record.write(&mut input, is_long);
    }
    input
}

struct Record {
    algorithm: u8,
    numbers: [f64; 9],
}

impl Record {
    fn random(rng: &mut Rng, now: f64) -> Self {
        let limit: f64 = rng.pick(&[0.0, 1.0, 5.0, 100.0, 4_294_967_295.0]);
        let cost = rng.pick(&[0.0, 1.0, 1.0, 2.0, 3.0, (limit / 7.0).floor(), limit, limit + 1.0]);
        let (algorithm, parameters) = match rng.below(4) {
            0 => {
                let q: f64 = rng.pick(&[1.0, 2.0, 7.0, 999_999_999_999_999.0]);
                let rest = |rng: &mut Rng| rng.pick(&[0.0, 0.0, q - 1.0, (q / 2.0).floor()]);
                let (full, span): (f64, f64) =
                    (rng.pick(&[0.0, 1.0, MINUTE, EXACT / 8.0]), rng.pick(&[0.0, 1.0, 8.0, MINUTE]));
                let span =
                    rng.pick(&[span, (full / 3.0).floor(), (full / 50.0).floor(), full, 2.0 * full + 1.0]);
                let grain = rng.pick(&[1.0, 1.0, 1_000_000.0, MINUTE]);
                let (ceiling, deepest) =
                    rng.pick(&[(0.0, 0.0), (full + 1.0, full), (3.0 * full + 9.0, 2.0 * full)]);
                let numbers = [q, full, rest(rng), span, rest(rng), grain, ceiling, deepest, 0.0];
                (1, numbers)
            }
            1 => {
                let phase = rng.pick(&[0.0, 17.0, MINUTE]);
                (2, [MINUTE, phase, limit, cost, 0.0, 0.0, 0.0, 0.0, 0.0])
            }
            2 => {
                let start = now - rng.pick(&[0.0, 5.0, MINUTE]);
                let (end, next) = (start + MINUTE, start + 2.0 * MINUTE);
                (5, [limit.max(1.0), cost, 77.0, start, end, next, 0.0, 0.0, 0.0])
            }
            _ => {
                let (slots, width) =
                    rng.pick(&[(1.0, MINUTE), (10.0, 7.0), (60.0, 1_000_000.0), (1_000.0, 60_000.0)]);
                (3, [width, slots, limit, cost, 0.0, 0.0, 0.0, 0.0, 0.0])
            }
        };
        Self { algorithm, numbers: parameters }
    }

    fn write(&self, request: &mut Vec<u8>, is_long: bool) {
        request.push(self.algorithm);
        let count = if is_long { 9 } else { 6 };
        self.numbers[..count].iter().for_each(|number| request.extend(number.to_le_bytes()));
    }

    /// An equals sign and a value, or nothing for a key without one. A value has neither the byte of a line nor that of a space, which
    /// end it.
    fn value(&self, rng: &mut Rng, now: f64) -> Vec<u8> {
        let Self { numbers: [p1, p2, ..], .. } = *self;
        let edges = [
            -2.0 * p1,
            -p1,
            -1.0,
            0.0,
            1.0,
            p1,
            2.0 * p1,
            2.0 * p1 + 1.0,
            p2,
            2.0 * p2,
            2.0 * p2 + 1.0,
            1e12,
        ];
        let near = now + rng.pick(&edges);
        let units = rng.pick(&[0.0, 1.0, 4.0, 99.0, 4_294_967_294.0, 17_179_869_183.0, EXACT - 1.0]);
        let grid = |period: f64| near - near % period + period;
        let mut value: Vec<u8> = match self.algorithm {
            1 => doubles(&[near, rng.pick(&[0.0, 1.0, p1 - 1.0, p1])]),
            2 => doubles(&[grid(p1) + rng.pick(&[0.0, p2 % p1]), p1, units]),
            5 => doubles(&[rng.pick(&[76.0, 77.0, 78.0, 79.0]), near, units]),
            _ => {
                let counts = 1 + rng.below(12);
                let each = (0..counts * 2).map(|_| u8::try_from(rng.below(256)).unwrap());
                [doubles(&[grid(p1), p1, p2]), vec![2], each.collect()].concat()
            }
        };
        match rng.below(8) {
            0 => value.clear(),
            1 => value.truncate(rng.below(value.len() + 1)),
            2 if !value.is_empty() => {
                let at = rng.below(value.len());
                value[at] = u8::try_from(rng.below(256)).unwrap();
            }
            _ => {}
        }
        if value.is_empty() || value.contains(&b' ') || value.contains(&b'\n') {
            return Vec::new();
        }
        [b"=".to_vec(), value].concat()
    }
}

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
