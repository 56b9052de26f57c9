//! A Redis server, a plain connection to it, and a store.

use std::time::Duration;

use portcullis_core::{Clock, Key, Policy};
use portcullis_redis::RedisStore;
pub(crate) use portcullis_servers::Reply;
use portcullis_servers::{Connection, RedisServer, encode_command};
use tokio::runtime::{Builder, Runtime};

/// A server that ends with this process.
pub(crate) struct Server {
    process: RedisServer,
    connection: Connection,
}

impl Server {
    pub(crate) fn start() -> Self {
        let process = RedisServer::start().expect("redis-server is installed");
        let connection = Connection::open(process.port()).expect("the server listens");
        Self { process, connection }
    }

    /// A store on this server, with a clock of its own, and the runtime of its connection.
    pub(crate) fn store(&self, clock: impl Clock) -> (Runtime, RedisStore) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let builder = RedisStore::builder(self.process.url())
            .deadline(DEADLINE)
            .connect_wait(DEADLINE)
            .scenario_clock(clock);
        let store = runtime.block_on(builder.connect()).expect("the server runs scripts");
        (runtime, store)
    }

    /// Sends all commands at once, and reads their replies. A script that does not end is a finding.
    pub(crate) fn call(&mut self, commands: &[Vec<&[u8]>]) -> Vec<Reply> {
        let request: Vec<u8> = commands.iter().flat_map(|command| encode_command(command)).collect();
        self.connection.send(&request).expect("the server is there");
        commands.iter().map(|_| self.connection.receive().expect("the server replies in time")).collect()
    }
}

pub(crate) fn number(reply: &Reply) -> i64 {
    if let Reply::Integer(number) = reply { *number } else { panic!("{reply:?} is not a number") }
}

/// The name under which the store keeps what belongs to a key and `structure`, the algorithm or a record beside it.
pub(crate) fn name_of(policy: &Policy, key: Key, structure: &str) -> Vec<u8> {
    format!("portcullis-scenario:v2:0:{{{:032x}}}:{}:{structure}", key.slot(), policy.name()).into_bytes()
}

const DEADLINE: Duration = Duration::from_secs(20);
