//! Values under our keys that are none of ours, or were.

use portcullis_core::{Policy, Quota};

use super::{RedisStore, Server, check, name, open, policies};

/// Nobody waits an hour here.
const QUOTA: Quota = Quota::per_hour(100);

#[tokio::test]
async fn values_that_are_none_of_ours_are_healed_and_let_nobody_in_twice() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies(QUOTA) {
        let (name, limit) = (name(&policy), policy.strategy().limit());
        let (long, zeros) = ("9".repeat(40_000), "0 ".repeat(2_000));
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
            "9007199254740992",
            "9007199254740992 1 1 1",
            "1\t2",
            "log1",
            "log1garbage",
            "٣",
            &long,
            &zeros,
        ];
        let texts = texts.into_iter().map(|text| vec!["SET", &name, text]);
        let binary = BINARY.into_iter().map(|value| vec!["EVAL", value, "1", &name]);
        let types = [
            vec!["LPUSH", &name, "x"],
            vec!["SADD", &name, "x"],
            vec!["HSET", &name, "x", "y"],
            vec!["ZADD", &name, "1", "x"],
            vec!["XADD", &name, "*", "x", "y"],
        ];
        for command in texts.chain(binary).chain(types) {
            let put = || {
                server.cli(&["DEL", &name]);
                let reply = server.cli(&command);
                assert_eq!(server.cli(&["EXISTS", &name]), "1", "{reply}");
            };
            // Even a peek repairs: what it leaves has an expiry and counts as nothing.
            put();
            let shown = command.iter().map(|word| &word[..word.len().min(80)]).collect::<Vec<_>>();
            assert_eq!(check(&store, &policy, 0).await.decision().remaining(), limit, "{shown:?}");
            assert_ne!(server.cli(&["PTTL", &name]).trim(), "-1", "{shown:?}");
            put();
            assert!(!check(&store, &policy, limit + 1).await.is_allowed(), "{shown:?}");
            assert_ne!(server.cli(&["PTTL", &name]).trim(), "-1", "{shown:?}");
            put();
            assert_eq!(check(&store, &policy, limit).await.decision().remaining(), 0, "{shown:?}");
            assert!(!check(&store, &policy, limit).await.is_allowed(), "{shown:?}");
        }
    }
}

#[tokio::test]
async fn a_value_of_ours_with_a_few_bytes_wrong_is_no_error_and_never_unlimited() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies(QUOTA) {
        let name = name(&policy);
        for seed in 0..40 {
            server.cli(&["DEL", &name]);
            for cost in [40, 9, 21] {
                let _ = check(&store, &policy, cost).await;
            }
            server.cli(&["EVAL", DAMAGE, "1", &name, &seed.to_string()]);
            let admitted = admitted(&store, &policy).await;
            assert!(admitted <= policy.strategy().limit(), "{}, seed {seed}: {admitted}", policy.name());
            assert_ne!(server.cli(&["PTTL", &name]).trim(), "-1", "{}, seed {seed}", policy.name());
        }
    }
}

/// How many units get in, by tens and the rest by ones.
async fn admitted(store: &RedisStore, policy: &Policy) -> u32 {
    let mut admitted = 0;
    for cost in [10, 1] {
        while admitted <= policy.strategy().limit() && check(store, policy, cost).await.is_allowed() {
            admitted += cost;
        }
    }
    admitted
}

/// Binary values, most of them logs that cannot be: without stamps, truncated, of an end beyond time, with more stamps
/// than room, with a beginning beyond the room, with more room than any has, with stamps beyond time.
const BINARY: [&str; 10] = [
    r"return redis.call('SET', KEYS[1], '\0')",
    r"return redis.call('SET', KEYS[1], string.rep('\255', 5000))",
    r"return redis.call('SET', KEYS[1], 'log1' .. string.rep('\0', 1000))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 10^15, 0, 1, 1))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 10^15, 0, 9, 9) .. string.rep('\0', 71))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 2^53, 0, 1, 1) .. string.rep('\0', 8))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 10^15, 0, 9, 8) .. string.rep('\0', 72))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 10^15, 9, 1, 9) .. string.rep('\0', 72))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 10^15, 0, 200001, 200001) .. string.rep('\0', 1600008))",
    r"return redis.call('SET', KEYS[1], 'log1' .. struct.pack('>I8I4I4I4', 10^15, 0, 1, 1) .. string.rep('\255', 8))",
];

/// Changes up to three bytes of a value, or cuts it short, by a seed. The key keeps its expiry.
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
