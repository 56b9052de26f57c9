//! Values of the store's keys that the store did not write, or that were damaged.

use bytes::Bytes;
use portcullis_core::{Policy, Quota};

use super::{RedisStore, Server, check, name, open_url, patient, policies_and_permits};
use crate::protocol::script::Script;
use crate::protocol::value::Value;

#[tokio::test]
async fn corrupt_values_are_repaired_and_admit_at_most_the_limit() {
    let server = Server::start(&[]);
    let (store, admin) = (open(&server).await, admin(&server).await);
    for policy in policies_and_permits(QUOTA) {
        let limit = policy.strategy().limit();
        for command in corrupt_commands() {
            let shown = format!("{} under {}", shown(&command), policy.name());
            // Even a peek and a denial repair: the result has an expiry and equals no state.
            put(&admin, &policy, &command).await;
            assert_eq!(check(&store, &policy, 0).await.decision().remaining(), limit, "{shown}");
            assert!(expires(&admin, &policy).await, "{shown}");
            put(&admin, &policy, &command).await;
            assert!(!check(&store, &policy, limit + 1).await.is_allowed(), "{shown}");
            assert!(expires(&admin, &policy).await, "{shown}");
            put(&admin, &policy, &command).await;
            assert_eq!(check(&store, &policy, limit).await.decision().remaining(), 0, "{shown}");
            assert!(!check(&store, &policy, limit).await.is_allowed(), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_damaged_state_is_no_error_and_admits_at_most_the_limit() {
    let server = Server::start(&[]);
    let (store, admin) = (open(&server).await, admin(&server).await);
    for policy in policies_and_permits(QUOTA) {
        for seed in 0..portcullis_testing::timeline::steps() / 1_000 {
            call(&admin, "return redis.call('DEL', KEYS[1])", &policy, Vec::new()).await;
            for cost in [40, 9, 21] {
                let _ = check(&store, &policy, cost).await;
            }
            call(&admin, DAMAGE, &policy, vec![seed.to_string().into()]).await;
            let admitted = admitted(&store, &policy).await;
            assert!(admitted <= policy.strategy().limit(), "{}, seed {seed}: {admitted}", policy.name());
            assert!(expires(&admin, &policy).await, "{}, seed {seed}", policy.name());
        }
    }
}

/// How many units are admitted, by tens and the rest by ones.
async fn admitted(store: &RedisStore, policy: &Policy) -> u64 {
    let mut admitted = 0;
    for cost in [10, 1] {
        while admitted <= policy.strategy().limit() && check(store, policy, cost).await.is_allowed() {
            admitted += cost;
        }
    }
    admitted
}

async fn call(store: &RedisStore, script: &str, policy: &Policy, arguments: Vec<Bytes>) -> Value {
    store.0.connection.call(&Script::new(script), vec![name(policy)], arguments).await.unwrap()
}

/// Opens a store without a denial memory, because a remembered denial would hide the changed value.
async fn open(server: &Server) -> RedisStore {
    patient(server.url()).denial_memory(0).connect().await.unwrap()
}

/// Opens a store as a user with all permissions.
async fn admin(server: &Server) -> RedisStore {
    open_url(server.admin_url()).await
}

async fn put(store: &RedisStore, policy: &Policy, command: &[Vec<u8>]) {
    let words = command.iter().map(|word| Bytes::copy_from_slice(word)).collect();
    call(store, PUT, policy, words).await;
}

/// Whether the key has an expiry, or does not exist any more.
async fn expires(store: &RedisStore, policy: &Policy) -> bool {
    call(store, "return redis.call('PTTL', KEYS[1])", policy, Vec::new()).await.as_integer() != Some(-1)
}

/// Commands, without the key, that set a key to a corrupt value.
fn corrupt_commands() -> Vec<Vec<Vec<u8>>> {
    let texts = [
        "gibberish",
        "-1",
        "1e300",
        "1e400",
        "nan",
        "inf",
        "-inf",
        "0x10",
        "17 -4",
        "1 2 3 4 5 x",
        "1.5",
        " ",
        "9007199254740992",
        "9007199254740992 1 1 1",
        "1\t2",
        "1\n2",
        "log1",
        "log1garbage",
        "٣",
        "60000000 60000000 1 1",
    ];
    let long = ["9".repeat(40_000), "0 ".repeat(2_000)];
    let numbers = [
        // Neither a whole microsecond nor exact.
        &[1.5][..],
        &[-1.0],
        &[f64::NAN],
        &[f64::INFINITY],
        &[EXACT],
        &[60e6, 0.5],
        &[60e6, -1.0],
        &[60e6, EXACT],
        &[60e6, 60e6, 1.5],
        &[60e6, f64::NAN, 1.0],
        &[EXACT, 60e6, 1.0],
        &[60e6, 60e6, 1.0, 1.0],
    ];
    let numbers = numbers.map(|numbers| window(numbers, &[]));
    let windows = [
        // An invalid slot end, a slot of zero width, impossible counts, more counts than slots, no counts, counts of no bytes and
        // of too many, and a part of a count.
        window(&[60e6 + 1.0, 60e6, 1.0], &[1, 1]),
        window(&[1.0, 60e6, 1.0], &[1, 1]),
        window(&[60e6, 0.0, 1.0], &[1, 1]),
        window(&[60e6, 60e6, 1.0], &[5, 0, 0, 0, 0, 4]),
        window(&[60e6, 60e6, 1.0], &[1, 1, 1, 1]),
        window(&[60e6, 60e6, 1.0], &[1]),
        window(&[60e6, 60e6, 1.0], &[0, 1]),
        window(&[60e6, 60e6, 1.0], &[6, 1, 1, 1, 1, 1, 1]),
        window(&[60e6, 60e6, 1.0], &[2, 1]),
        window(&[60e6, 60e6, 1.5], &[1, 1]),
        window(&[f64::NAN, 60e6, 1.0], &[1, 1]),
        window(&[60e6, f64::INFINITY, 1.0], &[1, 1]),
    ];
    let binary = [
        vec![0],
        vec![0xff; 5_000],
        [&b"log1"[..], &[0; 1_000]].concat(),
        // Without stamps, truncated, with an end out of range, with more stamps than capacity, with a first index beyond the
        // capacity, with more than the maximum capacity, with a stamp out of range.
        log(NOW, 0, 1, 1, &[]),
        log(NOW, 0, 9, 9, &[0; 71]),
        log(1 << 53, 0, 1, 1, &[0; 8]),
        log(NOW, 0, 9, 8, &[0; 72]),
        log(NOW, 9, 1, 9, &[0; 72]),
        log(NOW, 0, 200_001, 200_001, &vec![0; 1_600_008]),
        log(NOW, 0, 1, 1, &[0xff; 8]),
        // An epoch, a serial number or an expiry out of range, a permit that expires after its state, and a part of a permit.
        permits(&[-1.0, 2.0, 4e15]),
        permits(&[1e15, 0.0, 4e15]),
        permits(&[1e15, 1.5, 4e15]),
        permits(&[1e15, 2.0, f64::NAN]),
        permits(&[1e15, 2.0, EXACT, 4e15, 1.0]),
        permits(&[1e15, 2.0, 4e15, EXACT, 1.0]),
        permits(&[1e15, 2.0, 4e15, f64::NAN, 1.0]),
        permits(&[1e15, 2.0, 4e15, 3.5, 1.0]),
        permits(&[1e15, 2.0, 4e15, 5e15, 1.0]),
        permits(&[1e15, 2.0, 4e15, 4e15]),
        permits(&vec![4e15; 3 + 2 * 2_001]),
    ];
    let texts = texts.into_iter().map(str::to_owned).chain(long);
    let values = texts
        .map(String::into_bytes)
        .chain(binary)
        .chain(numbers)
        .chain(windows)
        .map(|value| vec![b"SET".to_vec(), value]);
    let types = ["LPUSH x", "SADD x", "HSET x y", "ZADD 1 x", "XADD * x y"];
    let types = types.map(|words| words.split(' ').map(|word| word.as_bytes().to_vec()).collect());
    values.chain(types).collect()
}

/// A log with a header of these fields.
fn log(newest: u64, first: u32, count: u32, room: u32, stamps: &[u8]) -> Vec<u8> {
    let header = [&newest.to_be_bytes()[..], &first.to_be_bytes(), &count.to_be_bytes(), &room.to_be_bytes()];
    [b"log1", &header.concat()[..], stamps].concat()
}

/// A state of permits.
fn permits(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Doubles, and the bytes after them.
fn window(numbers: &[f64], counts: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).chain(counts.iter().copied()).collect()
}

fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|word| word[..word.len().min(40)].escape_ascii().to_string());
    words.collect::<Vec<_>>().join(" ")
}

/// No units become available during a test.
const QUOTA: Quota = Quota::per_week(100);
/// Whole numbers below it are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// In the year 2255, so that it has not expired.
const NOW: u64 = (1 << 53) - 1;

const PUT: &str = "redis.call('DEL', KEYS[1]) return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";

/// Changes up to three bytes of a value, or truncates it, by a seed. The key keeps its expiry.
const DAMAGE: &str = r"
local value, seed = redis.call('GET', KEYS[1]), tonumber(ARGV[1])
math.randomseed(seed)
if seed % 4 == 0 then
  value = string.sub(value, 1, math.random(0, #value - 1))
else
  for _ = 1, seed % 4 do
    local at = math.random(1, seed % 3 == 0 and math.min(#value, 24) or #value)
    local byte = string.find(value, '^%d') and math.random(48, 57) or math.random(0, 255)
    value = string.sub(value, 1, at - 1) .. string.char(byte) .. string.sub(value, at + 1)
  end
end
return redis.call('SET', KEYS[1], value, 'KEEPTTL')";
