//! Values that are damaged between decisions: equal decisions that the script makes in one step repair them as decisions that are sent
//! one by one do, and leave the same values in the server.

use fastrand::Rng;
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Timestamp};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, timeline};

use super::{arrivals, next_instant, policies, receipts, users};

use crate::support::patient;

/// Two servers with the same values. In one the decisions of a step arrive together, in the other one after another.
struct Pair {
    servers: [RedisServer; 2],
    stores: [RedisStore; 2],
}

impl Pair {
    async fn start(clock: &ManualClock) -> Self {
        let servers = [(); 2].map(|()| RedisServer::start().unwrap());
        let open = async |server: &RedisServer| {
            let store = patient(server).scenario_clock(clock.clone());
            store.denial_memory(0).connect().await.unwrap()
        };
        let stores = [open(&servers[0]).await, open(&servers[1]).await];
        Self { servers, stores }
    }

    /// Runs a script on both servers, whose replies are equal.
    fn run(&self, script: &str, arguments: &[&str]) -> String {
        let replies = self
            .servers
            .each_ref()
            .map(|server| server.cli(&[&["EVAL", script, "0"], arguments].concat()).unwrap());
        assert_eq!(replies[0], replies[1], "the values differ");
        let [reply, _] = replies;
        assert!(!reply.contains("ERR"), "{reply}");
        reply
    }
}

/// The tasks of a runtime with one thread begin in the order in which they are spawned.
#[tokio::test]
async fn damaged_values_are_repaired_as_by_single_decisions() {
    let (clock, seed) = (ManualClock::default(), timeline::seed());
    println!("seed {seed}");
    let pair = Pair::start(&clock).await;
    let mut rng = Rng::with_seed(seed);
    let (policies, users) = (policies::all(), users());
    let (mut now, mut made, mut denied, mut damaged) = (1_600_000_000_000_000_u64, 0_u64, 0_u64, 0_u64);
    let steps = timeline::steps().min(50_000);
    while made < steps {
        // A few policies at a time, so that decisions meet damaged values.
        let first = rng.usize(..policies.len());
        let few: Vec<Policy> = policies.iter().cycle().skip(first).take(3).cloned().collect();
        let names = few.iter().map(|policy| policy.name().as_str()).collect::<Vec<_>>().join(",");
        let mut charged = Vec::new();
        for _ in 0..8 {
            now = next_instant(now, &mut rng);
            clock.set(Timestamp::from_micros(now));
            for _ in 0..rng.usize(..3) {
                let (seed, now) = (rng.usize(..1 << 30).to_string(), now.to_string());
                let reply = pair.run(DAMAGE, &[&seed, &now, &names]);
                damaged += u64::from(!reply.trim().is_empty());
            }
            let decisions = arrivals(&few, &users, &mut rng);
            let tasks: Vec<_> =
                decisions.iter().map(|checks| tokio::spawn(pair.stores[0].check(checks.clone()))).collect();
            for (checks, task) in decisions.into_iter().zip(tasks) {
                let single = pair.stores[1].check(checks.clone()).await;
                let outcome = task.await.unwrap();
                made += 1;
                let (single, outcome) = match (single, outcome) {
                    (Ok(single), Ok(outcome)) => (single, outcome),
                    (single, outcome) => panic!("{single:?}, together {outcome:?}: {checks:?} at {now}"),
                };
                assert_eq!(outcome.decisions(), single.decisions(), "{checks:?} at {now}");
                assert_limits(&checks, outcome.decision().is_allowed());
                denied += u64::from(!outcome.is_allowed());
                let (own, expected) = (receipts(outcome), receipts(single));
                assert_eq!(own, expected, "{checks:?} at {now}");
                charged.extend(own.into_iter().zip(expected));
            }
            pair.run(VALUES, &[]);
            if !charged.is_empty() && rng.usize(..3) == 0 {
                let (own, expected) = charged.swap_remove(rng.usize(..charged.len()));
                let cost = [0, own.cost() / 2, own.cost() + 3][rng.usize(..3)];
                let settled = pair.stores[0].settle(own, cost).await.unwrap();
                let expected = pair.stores[1].settle(expected, cost).await.unwrap();
                assert_eq!((settled.decision, settled.uncharged), (expected.decision, expected.uncharged));
            }
        }
    }
    let calls = pair.servers.each_ref().map(|server| server.calls("evalsha").unwrap());
    println!("{made} decisions in {calls:?} calls, {denied} denied, {damaged} values damaged");
    assert!(
        calls[0] * 2 < calls[1] && denied * 10 > made && damaged > 0,
        "{made} in {calls:?} calls, {denied} denied"
    );
}

/// No value makes a policy admit more than its limit at once.
fn assert_limits(checks: &Checks, is_allowed: bool) {
    let fits = |policy: &Policy, cost| cost <= policy.strategy().limit();
    assert!(!is_allowed || checks.iter().all(|check| fits(&check.policy, check.cost)), "{checks:?}");
}

/// All keys with their values. An empty one is no state, and expires after a millisecond.
const VALUES: &str = r"
local keys = redis.call('KEYS', '*')
table.sort(keys)
local values = {}
for _, key in ipairs(keys) do
  local value = redis.pcall('GET', key)
  if value ~= '' then
    values[#values + 1] = key .. '=' .. (type(value) == 'table' and 'other type' or redis.sha1hex(value))
  end
end
return table.concat(values, ' ')";

/// Damages a random value under some policies: changes or adds bytes, truncates it, replaces a number of it or the whole, or changes
/// its type. The key keeps its expiry.
const DAMAGE: &str = r"
local keys = {}
for name in string.gmatch(ARGV[3], '[^,]+') do
  for _, key in ipairs(redis.call('KEYS', '*:' .. name .. ':*')) do
    if redis.pcall('GET', key) ~= '' then keys[#keys + 1] = key end
  end
end
if #keys == 0 then return '' end
table.sort(keys)
math.randomseed(tonumber(ARGV[1]))
local key, kind = keys[math.random(#keys)], math.random(7)
local value = redis.pcall('GET', key)
if type(value) == 'table' then value = '' end
local at = math.random(1, math.max(#value, 1))
if kind == 1 then
  value = string.sub(value, 1, at - 1)
elseif kind == 2 then
  value = string.sub(value, 1, at - 1) .. string.char(math.random(0, 255)) .. string.sub(value, at + 1)
elseif kind == 3 then
  value = value .. string.rep(string.char(math.random(0, 255)), math.random(1, 17))
elseif kind == 4 then
  redis.call('DEL', key)
  redis.call('RPUSH', key, 'x')
  redis.call('PEXPIRE', key, 600000)
  return key .. ' list'
elseif kind == 5 then
  value = 'gibberish'
else
  local now = tonumber(ARGV[2])
  local numbers = { 0, 1, 1.5, -1, 2^31, 2^34 - 1, 2^34, 2^50, 2^53 - 1, 2^53, 1/0, 0/0, now, now + 1, now + 2e6, now + 6e7,
    now + 1.2e8, now + 1e9, now - 1, now - 6e7, 6e7, 5, 7 }
  local number = struct.pack('<d', numbers[math.random(#numbers)])
  local places = math.max(math.floor(#value / 8), 1)
  local place = 8 * math.random(0, places - 1)
  value = string.sub(value, 1, place) .. number .. string.sub(value, place + 9)
end
redis.call('SET', key, value, 'KEEPTTL')
return key .. ' ' .. kind";
