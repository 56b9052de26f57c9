//! A Redis server whose CPU time and commands are recorded.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Key, Policy, Secret, Strategy};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use tokio::runtime::Runtime;

use crate::calls;
use crate::redis::{self, Cmd, Connection, Value};

/// A server, a plain connection to it, and a store.
#[derive(Debug)]
pub struct Server {
    /// The connection of the default user, which has all rights.
    pub connection: Connection,
    /// A store without a denial memory, so that every decision is made by the server.
    pub store: RedisStore,
    /// The runtime of the store's connection.
    pub runtime: Runtime,
    process: RedisServer,
}

impl Server {
    /// Starts a server with additional arguments, such as `["--loadmodule", "/usr/lib/module.so"]`.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let process = RedisServer::start_with(arguments)?;
        let runtime = Runtime::new()?;
        let connection = Connection::open(process.port())?;
        let store = runtime.block_on(connect(&process))?;
        Ok(Self { connection, store, runtime, process })
    }

    /// Connects another store like [`store`](Self::store), on the runtime that polls the future.
    pub async fn connect(&self) -> Result<RedisStore> {
        connect(&self.process).await
    }

    /// The URL of the default user, which has all rights.
    pub fn admin_url(&self) -> String {
        self.process.admin_url()
    }

    /// The version of the server.
    pub fn version(&mut self) -> Result<String> {
        self.info("server", "redis_version")
    }

    /// Deletes all keys, but no script.
    pub fn clear(&mut self) -> Result<()> {
        redis::cmd("FLUSHALL").arg("SYNC").query(&mut self.connection).map(drop)
    }

    /// Returns a value of `INFO`.
    pub fn info(&mut self, section: &str, name: &str) -> Result<String> {
        let info = redis::text(redis::cmd("INFO").arg(section).query(&mut self.connection)?)?;
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value.with_context(|| format!("INFO {section} has no {name}"))?.trim().to_owned())
    }

    /// User and system time of the process, in microseconds.
    pub fn cpu(&mut self) -> Result<f64> {
        let user: f64 = self.info("cpu", "used_cpu_user")?.parse()?;
        let system: f64 = self.info("cpu", "used_cpu_sys")?.parse()?;
        Ok((user + system) * 1e6)
    }

    /// Calls the server in tasks as [`calls`] describes, and measures what the process gets and what the server spends.
    pub fn calls<F>(
        &mut self,
        runtime: &Runtime,
        tasks: usize,
        length: Duration,
        call: impl Fn(usize, usize) -> F + Clone + Send + 'static,
    ) -> Result<Calls>
    where
        F: Future<Output = Result<()>> + Send,
    {
        let before = self.cpu()?;
        let start = Instant::now();
        let mut latencies = runtime.block_on(calls(tasks, length, call))?;
        let elapsed = start.elapsed().as_secs_f64();
        let cpu = self.cpu()? - before;
        ensure!(!latencies.is_empty(), "nothing was decided");
        latencies.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let count = latencies.len() as f64;
        let latency = latencies[latencies.len() / 2].as_secs_f64() * 1e6;
        Ok(Calls { rate: count / elapsed, latency, cpu: cpu / count })
    }

    /// Measures decisions as [`run`](Self::run) does, on an empty server after the commands `before`. One decision of a hundred may be
    /// another than expected, because a unit may be refilled meanwhile.
    pub fn decisions(
        &mut self,
        before: &[Cmd],
        decisions: &[Cmd],
        is_expected: impl Fn(&Value) -> bool,
    ) -> Result<f64> {
        self.clear()?;
        self.run(before, BATCH)?;
        let (spent, replies) = self.run(decisions, BATCH)?;
        let others = replies.iter().filter(|reply| !is_expected(reply)).count();
        ensure!(others * 100 <= replies.len(), "{others} of {} were decided otherwise", replies.len());
        Ok(spent)
    }

    /// Stops the server at once.
    pub fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill()?)
    }

    /// Sends commands in batches, each with one write. Returns the server's CPU time per command in
    /// microseconds, and the replies.
    pub fn run(&mut self, commands: &[Cmd], batch: usize) -> Result<(f64, Vec<Value>)> {
        let batches: Vec<_> = commands
            .chunks(batch)
            .map(|commands| {
                let packed: Vec<u8> = commands.iter().flat_map(Cmd::packed).collect();
                (packed, commands.len())
            })
            .collect();
        let mut replies = Vec::with_capacity(commands.len());
        let before = self.cpu()?;
        for (packed, count) in &batches {
            self.connection.send(packed).context("the commands were not sent")?;
            for _ in 0..*count {
                replies.push(redis::receive(&mut self.connection)?);
            }
        }
        let spent = self.cpu()? - before;
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let count = commands.len() as f64;
        Ok((spent / count, replies))
    }

    /// Records what the store sends for a check of `user`, with `MONITOR`.
    pub fn recorded(&mut self, strategy: Strategy, user: u32, cost: u64) -> Result<Recorded> {
        let policy = Policy::literal("p", strategy);
        let checks = || Checks::one(policy.clone(), key(user), cost);
        // Once before the recording, which loads the script.
        drop(self.runtime.block_on(self.store.check(checks()))?);
        let mut monitor = Connection::open(self.process.port())?;
        redis::cmd("MONITOR").query(&mut monitor)?;
        drop(self.runtime.block_on(self.store.check(checks()))?);
        loop {
            let Value::SimpleString(line) = redis::receive(&mut monitor)? else {
                bail!("MONITOR shows lines")
            };
            if let Some(call) = String::from_utf8(line)?.split_once("\"EVALSHA\"") {
                return Recorded::new(words(call.1), user);
            }
        }
    }
}

async fn connect(process: &RedisServer) -> Result<RedisStore> {
    Ok(RedisStore::builder(process.url()).deadline(DEADLINE).denial_memory(0).connect().await?)
}

/// What tasks got that make one call after the other.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Calls per second.
    pub rate: f64,
    /// Microseconds from a call to its answer, the median.
    pub latency: f64,
    /// Microseconds of the server per call.
    pub cpu: f64,
}

/// The key of a user.
pub fn key(user: u32) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", &user.to_le_bytes());
    hasher.finish().expect("a part of four bytes is a key")
}

/// A call of a script as the store sends it for one key, for any user.
#[derive(Debug)]
pub struct Recorded {
    sha: String,
    key: String,
    fingerprint: String,
    /// The operation, one check of one record, and the record: the comment of `lua/driver.lua` describes them.
    request: Vec<u8>,
}

impl Recorded {
    fn new(words: Vec<Vec<u8>>, user: u32) -> Result<Self> {
        let fingerprint = format!("{:032x}", key(user).fingerprint());
        let Ok([sha, count, key, request]) = <[Vec<u8>; 4]>::try_from(words) else {
            bail!("a call has four words")
        };
        let (sha, key) = (String::from_utf8(sha)?, String::from_utf8(key)?);
        ensure!(count == b"1" && key.contains(&fingerprint), "{key} is not the key");
        ensure!(request.len() == RECORD + 49 && request[1..3] == [1, 1], "{request:?} has one check");
        Ok(Self { sha, key, fingerprint, request })
    }

    /// The key of a user in Redis.
    pub fn key(&self, user: u32) -> String {
        self.key.replace(&self.fingerprint, &format!("{:032x}", key(user).fingerprint()))
    }

    /// One decision over the keys of several users or, `separately`, a decision about each of them in one call.
    pub fn several(&self, users: Range<u32>, separately: bool) -> Cmd {
        let mut command = redis::cmd("EVALSHA").arg(&self.sha).arg(users.len());
        let count = u8::try_from(users.len()).expect("a call has at most 255 checks");
        let mut request = vec![self.request[0], count, 1];
        for (key, user) in (1..=count).zip(users) {
            command = command.arg(self.key(user));
            let ends_decision = separately || key == count;
            request.extend([if ends_decision { LAST } else { 0 }, key]);
        }
        request.extend(&self.request[RECORD..]);
        command.bytes(request)
    }

    /// Like [`of`](Self::of), but with another cost for a sliding log, which is its third parameter.
    pub fn with_cost(&self, user: u32, cost: u32) -> Cmd {
        let mut request = self.request.clone();
        request[RECORD + 17..RECORD + 25].copy_from_slice(&f64::from(cost).to_le_bytes());
        self.send(user, &request)
    }

    /// The check for this user.
    pub fn of(&self, user: u32) -> Cmd {
        self.send(user, &self.request)
    }

    fn send(&self, user: u32, request: &[u8]) -> Cmd {
        redis::cmd("EVALSHA").arg(&self.sha).arg(1).arg(self.key(user)).bytes(request)
    }
}

/// The words that `MONITOR` shows in quotes, with escapes.
fn words(line: &str) -> Vec<Vec<u8>> {
    let (mut words, mut bytes) = (Vec::new(), line.bytes());
    while bytes.any(|byte| byte == b'"') {
        let mut word = Vec::new();
        while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
            if byte != b'\\' {
                word.push(byte);
                continue;
            }
            match bytes.next() {
                Some(b'x') => {
                    let digits = [bytes.next(), bytes.next()].map(|digit| digit.unwrap_or(b'0'));
                    let digit =
                        |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
                    word.push(digit(digits[0]).unwrap_or(0) * 16 + digit(digits[1]).unwrap_or(0));
                }
                Some(b'n') => word.push(b'\n'),
                Some(b'r') => word.push(b'\r'),
                Some(b't') => word.push(b'\t'),
                Some(b'a') => word.push(7),
                Some(b'b') => word.push(8),
                other => word.extend(other),
            }
        }
        words.push(word);
    }
    words
}

/// Whether a script's reply admits the check: its status, which follows the instant, is odd.
pub fn admits(reply: &Value) -> bool {
    let Value::BulkString(bytes) = reply else { return false };
    let status = bytes.get(8..16).and_then(|status| status.try_into().ok()).map(f64::from_le_bytes);
    status.is_some_and(|status| status % 2.0 > 0.0)
}

/// Commands per write, so that they share the server's cost of the network.
pub const BATCH: usize = 100;
/// Is added to the record of the last check of a decision.
const LAST: u8 = 128;
/// The position of the record in a request of one check.
const RECORD: usize = 5;
/// Long, because a late answer is not an error here.
const DEADLINE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitored_words_are_read_to_the_byte() {
        let shown = r#" "1" "a:{0f}:p" "\x01\x80\" \\ \n\r\t\a\bx""#;
        assert_eq!(words(shown), [&b"1"[..], b"a:{0f}:p", b"\x01\x80\" \\ \n\r\t\x07\x08x"]);
    }
}
