//! Calls of the scripts with keys and arguments that the store would not send.

mod repeated;

use std::sync::{Mutex, PoisonError};

use crate::server::{Reply, Server, number};

use self::repeated::Repeated;

/// Checks the properties of any call of a script. The first line of the input is a digit for the clock, the second has the keys,
/// each perhaps with `=` and its value. Then follow, with the clock of scenarios, the eight bytes of the instant, and the request.
///
/// Either the reply is an error of the scripts and nothing has changed, or it has the right shape and all written keys expire.
/// No call ends in a Lua error or does not end; the same holds for a second call on the keys that the first has left. On the clock of
/// scenarios, decisions that are made several times have the result of as many decisions.
pub fn script_arguments(input: &[u8]) {
    script_arguments_repeated(input);
}

/// Does what [`script_arguments`] does, and returns whether decisions that are made several times were compared with as many decisions.
pub fn script_arguments_repeated(input: &[u8]) -> bool {
    static SUBJECT: Mutex<Option<ScriptsUnderTest>> = Mutex::new(None);
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let (Some(clock), Some(keys), Some(rest)) = (lines.next(), lines.next(), lines.next()) else {
        return false;
    };
    let keys: Vec<_> =
        keys.split(|byte| *byte == b' ').filter(|key| !key.is_empty()).take(MAX_KEYS).collect();
    let script = usize::from(clock == b"1");
    let arguments = match rest.split_at_checked(DOUBLE) {
        Some((instant, request)) if script == 1 => vec![request, instant],
        _ => vec![rest],
    };
    // Ignores poisoning: each run starts with an empty server.
    let mut subject = SUBJECT.lock().unwrap_or_else(PoisonError::into_inner);
    let subject = subject.get_or_insert_with(ScriptsUnderTest::new);
    let are_compared = script == 1 && subject.compare_with_single_decisions(&keys, &arguments);
    subject.begin(&keys);
    for _ in 0..2 {
        subject.call(script, &keys, &arguments);
    }
    are_compared
}

struct ScriptsUnderTest {
    server: Server,
    /// The digests of the scripts, with the server's clock and with that of scenarios.
    scripts: Vec<Vec<u8>>,
}

impl ScriptsUnderTest {
    fn new() -> Self {
        let mut server = Server::start();
        let clocks = [
            include_str!("../../../crates/portcullis-redis/lua/server_clock.lua"),
            include_str!("../../../crates/portcullis-redis/lua/scenario_clock.lua"),
        ];
        let driver = include_str!("../../../crates/portcullis-redis/lua/driver.lua");
        let single_meter = include_str!("../../../crates/portcullis-redis/lua/single_meter.lua");
        let driver = driver.replace("-- SINGLE METER\n", single_meter);
        let driver = driver.replace("  -- ALGORITHMS\n", &ALGORITHMS.concat());
        let scripts = clocks.map(|clock| {
            let script = [clock, &driver].concat();
            match server.call(&[vec![b"SCRIPT", b"LOAD", script.as_bytes()]]).pop() {
                Some(Reply::BulkString(name)) => name,
                other => panic!("the script does not load: {other:?}"),
            }
        });
        Self { server, scripts: scripts.to_vec() }
    }

    fn begin(&mut self, keys: &[&[u8]]) {
        self.server.call(&[vec![b"FLUSHALL"]]);
        for key in keys {
            if let (name, Some(value)) = parts(key) {
                self.server.call(&[vec![b"SETEX", name, b"600", value]]);
            }
        }
    }

    /// Compares a request whose decisions are made several times with one that has as many decisions: their replies to the last of each,
    /// and the values that they leave. Returns whether there was something to compare.
    fn compare_with_single_decisions(&mut self, keys: &[&[u8]], arguments: &[&[u8]]) -> bool {
        let &[request, instant] = arguments else { return false };
        let (Some(repeated), Ok(now)) = (Repeated::of(request), instant.try_into()) else { return false };
        if !repeated.is_sane(f64::from_le_bytes(now)) {
            return false;
        }
        let Some(single) = repeated.one_by_one() else { return false };
        let names: Vec<&[u8]> = keys.iter().map(|key| parts(key).0).collect();
        let mut run = |request: &[u8]| {
            self.begin(keys);
            let reply = self.evaluate(1, &names, &[request, instant]);
            let values = self.held(&names).into_iter().map(|(value, _)| value);
            // An empty text is no state, and expires after a millisecond.
            let is_empty =
                |value: &Reply| matches!(value, Reply::BulkString(dump) if dump.starts_with(&[0, 0]));
            (
                reply,
                values.map(|value| if is_empty(&value) { Reply::Null } else { value }).collect::<Vec<_>>(),
            )
        };
        let (Some(Reply::BulkString(reply)), left) = run(request) else { return false };
        let (Some(Reply::BulkString(single)), left_by_single) = run(&single) else {
            panic!("the same decisions are not made one by one")
        };
        assert_eq!(repeated.last_states(&reply, true), repeated.last_states(&single, false));
        assert_eq!(left, left_by_single);
        true
    }

    fn evaluate(&mut self, script: usize, names: &[&[u8]], arguments: &[&[u8]]) -> Option<Reply> {
        let count = names.len().to_string();
        let head: [&[u8]; 3] = [b"EVALSHA", &self.scripts[script], count.as_bytes()];
        let command = [&head, names, arguments].concat();
        self.server.call(&[command]).pop()
    }

    fn call(&mut self, script: usize, keys: &[&[u8]], arguments: &[&[u8]]) {
        let names: Vec<&[u8]> = keys.iter().map(|key| parts(key).0).collect();
        let before = self.held(&names);
        let reply = self.evaluate(script, &names, arguments);
        let after = self.held(&names);
        match reply {
            Some(Reply::Error(error)) => {
                assert!(error.starts_with("PORTCULLIS "), "{error}");
                assert_eq!(after, before, "{error}");
            }
            Some(Reply::BulkString(reply)) => has_the_right_shape(arguments[0], &reply),
            other => panic!("{other:?}"),
        }
        for (held, former) in after.iter().zip(&before) {
            assert!(held.0 == former.0 || held.1, "{held:?} never expires");
        }
    }

    /// The value of each key, and whether it expires.
    fn held(&mut self, names: &[&[u8]]) -> Vec<(Reply, bool)> {
        let size: Vec<Vec<&[u8]>> = vec![vec![b"DBSIZE"]];
        let queries = names.iter().flat_map(|name| [vec![b"DUMP", *name], vec![b"PTTL", *name]]);
        let mut replies = self.server.call(&size.into_iter().chain(queries).collect::<Vec<_>>()).into_iter();
        let count = replies.next().map_or(0, |count| number(&count));
        assert!(usize::try_from(count).is_ok_and(|count| count <= names.len()), "{count} keys");
        let replies: Vec<_> = replies.collect();
        replies.chunks(2).map(|pair| (pair[0].clone(), number(&pair[1]) != NEVER)).collect()
    }
}

/// A key's name, and its value.
fn parts(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match key.iter().position(|byte| *byte == b'=') {
        Some(end) => (&key[..end], Some(&key[end + 1..])),
        None => (key, None),
    }
}

/// Checks the shape: the instant, and for every check its status and one or two states, or a number for each run to renew.
fn has_the_right_shape(request: &[u8], reply: &[u8]) {
    let [operation, count, record_count, rest @ ..] = request else {
        panic!("a request of {} bytes", request.len())
    };
    let (checks, records) = rest.split_at(2 * usize::from(*count));
    let times = Repeated::of(request).map(|repeated| repeated.times());
    let records = &records[times.map_or(0, <[u8]>::len)..];
    let record = if *operation & LONG_RECORDS == 0 { RECORD } else { LONG_RECORD };
    let operation = *operation & !LONG_RECORDS;
    let (runs, _) = records[record * usize::from(*record_count)..].as_chunks::<DOUBLE>();
    let mut run_checks = runs.chunks(RUN).map(|run| run[1]).peekable();
    let (doubles, []) = reply.as_chunks::<DOUBLE>() else { panic!("{} bytes", reply.len()) };
    let mut numbers = doubles.iter().map(|double| f64::from_le_bytes(*double));
    let mut next = |max: f64| {
        let number = numbers.next().expect("a reply is complete");
        assert!((0.0..=max).contains(&number) && number.fract() == 0.0, "{number} in {reply:?}");
        number
    };
    next(EXACT);
    for (index, check) in (1_u8..).zip(checks.chunks(2)) {
        next(MAX);
        if operation == RENEW {
            while run_checks.next_if(|check| *check == f64::from(index).to_le_bytes()).is_some() {
                next(MAX_PERMITS);
            }
            continue;
        }
        let is_repeated = times.is_some_and(|times| times[usize::from(index) - 1] > 1);
        for _ in 0..if operation == FORCE || is_repeated { 2 } else { 1 } {
            let algorithm = records[record * usize::from(check[0] % LAST)];
            let mut fields = fields_of(algorithm, || next(MAX_COUNTS));
            while fields > 0.0 {
                next(MAX);
                fields -= 1.0;
            }
        }
    }
    assert_eq!(numbers.next(), None, "{reply:?}");
}

/// The numbers of a state, without that of its counts, which `counts` reads for a sliding window.
fn fields_of(algorithm: u8, counts: impl FnOnce() -> f64) -> f64 {
    match algorithm {
        METER | FIXED_WINDOW => 2.0,
        CALENDAR_WINDOW => 3.0,
        IN_FLIGHT => 5.0,
        OVERRIDE => 6.0,
        SLIDING_WINDOW => {
            let counts = counts();
            if counts > 0.0 { counts + 1.0 } else { 0.0 }
        }
        _ => 4.0,
    }
}

const ALGORITHMS: &[&str] = &[
    include_str!("../../../crates/portcullis-redis/lua/meter.lua"),
    include_str!("../../../crates/portcullis-redis/lua/window.lua"),
    include_str!("../../../crates/portcullis-redis/lua/sliding_window.lua"),
    include_str!("../../../crates/portcullis-redis/lua/sliding_log.lua"),
    include_str!("../../../crates/portcullis-redis/lua/in_flight.lua"),
    include_str!("../../../crates/portcullis-redis/lua/override.lua"),
];
const MAX_KEYS: usize = 4;
const DOUBLE: usize = 8;
const RECORD: usize = 1 + 6 * DOUBLE;
const LONG_RECORD: usize = RECORD + 3 * DOUBLE;
/// Is added to the operation of a request with such records.
const LONG_RECORDS: u8 = 128;
/// Is added to the record of the last check of a decision.
const LAST: u8 = 128;
/// Is added to the operation of a request that states how often each check is made.
const REPEATS: u8 = 64;
const CHECK: u8 = 1;
const FORCE: u8 = 4;
const RENEW: u8 = 6;
/// The numbers of a run.
const RUN: usize = 4;
/// The most permits of a key.
const MAX_PERMITS: f64 = 2_000.0;
const METER: u8 = 1;
const FIXED_WINDOW: u8 = 2;
const SLIDING_WINDOW: u8 = 3;
const CALENDAR_WINDOW: u8 = 5;
const IN_FLIGHT: u8 = 6;
const OVERRIDE: u8 = 7;
/// One per slot, and one for the slot before them.
const MAX_COUNTS: f64 = 1_001.0;
/// The largest instant, exact in a double.
const EXACT: f64 = 9_007_199_254_740_991.0;
/// The sum of a few such numbers.
const MAX: f64 = 16.0 * EXACT;
/// The result of `PTTL` for a key without an expiry.
const NEVER: i64 = -1;
