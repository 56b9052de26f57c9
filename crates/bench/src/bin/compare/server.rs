//! A Redis server whose CPU time and commands are recorded.

use anyhow::{Context as _, Result, bail, ensure};
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Strategy};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use redis::{Cmd, Connection, Value};
use std::ops::Range;
use std::time::Duration;
use tokio::runtime::Runtime;

use crate::memory_bytes::key;

/// A server, a plain connection to it, and a store.
pub(crate) struct Server {
    pub(crate) connection: Connection,
    pub(crate) store: RedisStore,
    pub(crate) runtime: Runtime,
    process: RedisServer,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let process = RedisServer::start()?;
        let runtime = Runtime::new()?;
        let connection = redis::Client::open(process.admin_url())?.get_connection()?;
        let store = RedisStore::builder(process.url()).deadline(DEADLINE).denial_memory(0).connect();
        Ok(Self { connection, store: runtime.block_on(store)?, runtime, process })
    }

    pub(crate) fn version(&mut self) -> Result<String> {
        self.info("server", "redis_version")
    }

    /// Deletes all keys, but no script.
    pub(crate) fn clear(&mut self) -> Result<()> {
        redis::cmd("FLUSHALL").arg("SYNC").exec(&mut self.connection)?;
        Ok(())
    }

    /// Returns a value of `INFO`.
    pub(crate) fn info(&mut self, section: &str, name: &str) -> Result<String> {
        let info: String = redis::cmd("INFO").arg(section).query(&mut self.connection)?;
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value.with_context(|| format!("INFO {section} has no {name}"))?.trim().to_owned())
    }

    /// User and system time of the process, in microseconds.
    fn cpu(&mut self) -> Result<f64> {
        let user: f64 = self.info("cpu", "used_cpu_user")?.parse()?;
        let system: f64 = self.info("cpu", "used_cpu_sys")?.parse()?;
        Ok((user + system) * 1e6)
    }

    /// Sends commands in batches, each with one write. Returns the server's CPU time per command in
    /// microseconds, and the replies.
    pub(crate) fn run(&mut self, commands: &[Cmd], batch: usize) -> Result<(f64, Vec<Value>)> {
        let batches: Vec<_> = commands
            .chunks(batch)
            .map(|commands| {
                let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
                (packed, commands.len())
            })
            .collect();
        let mut replies = Vec::with_capacity(commands.len());
        let before = self.cpu()?;
        for (packed, count) in &batches {
            replies.extend(redis::ConnectionLike::req_packed_commands(
                &mut self.connection,
                packed,
                0,
                *count,
            )?);
        }
        let spent = self.cpu()? - before;
        Ok((spent / commands.len() as f64, replies))
    }

    /// Records what the store sends for a check of `user`, with `MONITOR`.
    pub(crate) fn recorded(&mut self, strategy: Strategy, user: u32, cost: u64) -> Result<Recorded> {
        let policy = Policy::literal("p", strategy);
        let checks = || Checks::one(policy.clone(), key(user), cost);
        // Once before the recording, which loads the script.
        drop(self.runtime.block_on(self.store.check(checks()))?);
        let mut monitor = redis::Client::open(self.process.admin_url())?.get_connection()?;
        redis::cmd("MONITOR").exec(&mut monitor)?;
        drop(self.runtime.block_on(self.store.check(checks()))?);
        loop {
            let Value::SimpleString(line) = monitor.recv_response()? else { bail!("MONITOR shows lines") };
            if let Some(call) = line.split_once("\"EVALSHA\"") {
                let words = call.1.split_whitespace().map(|word| word.trim_matches('"').to_owned()).collect();
                return Recorded::new(words, user);
            }
        }
    }
}

/// A call of a script as the store sends it, for any user.
#[derive(Debug)]
pub(crate) struct Recorded {
    words: Vec<String>,
    fingerprint: String,
}

impl Recorded {
    fn new(words: Vec<String>, user: u32) -> Result<Self> {
        let fingerprint = format!("{:032x}", key(user).fingerprint());
        ensure!(words.get(2).is_some_and(|key| key.contains(&fingerprint)), "{words:?} names no key");
        Ok(Self { words, fingerprint })
    }

    /// The key of a user.
    pub(crate) fn key(&self, user: u32) -> String {
        self.words[2].replace(&self.fingerprint, &format!("{:032x}", key(user).fingerprint()))
    }

    /// One decision over the keys of several users.
    pub(crate) fn over(&self, users: Range<u32>) -> Cmd {
        let (head, check) = self.words.split_at(5);
        let mut command = redis::cmd("EVALSHA");
        command.arg(&head[0]).arg(users.len());
        for user in users.clone() {
            command.arg(self.key(user));
        }
        command.arg(&head[3..]);
        for _ in users {
            command.arg(check);
        }
        command
    }

    /// The same check with another cost.
    pub(crate) fn with_cost(&self, user: u32, cost: u32) -> Cmd {
        let mut other = Self { words: self.words.clone(), fingerprint: self.fingerprint.clone() };
        *other.words.last_mut().expect("a call has words") = cost.to_string();
        other.of(user)
    }

    pub(crate) fn of(&self, user: u32) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        for (index, word) in self.words.iter().enumerate() {
            if index == 2 {
                command.arg(word.replace(&self.fingerprint, &format!("{:032x}", key(user).fingerprint())));
            } else {
                command.arg(word);
            }
        }
        command
    }
}

/// Whether a script's reply admits the check.
pub(crate) fn admits(reply: &Value) -> bool {
    matches!(reply, Value::Array(fields) if fields.get(1) == Some(&Value::Int(1)))
}

/// Long, because a late answer is not an error here.
const DEADLINE: Duration = Duration::from_secs(10);
