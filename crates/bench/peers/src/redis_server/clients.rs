//! The clients of the server, with the same connection settings and the same rights: the server looks at the rights of a user with few of
//! them for each key of each command.
//!
//! All have the same quota: a unit per second, and a burst that is never used up.

use std::time::Duration;

use anyhow::Result;
use fred::clients::Client;
use fred::interfaces::{ClientLike as _, KeysInterface as _, LuaInterface as _};
use fred::types::config::{Config, ConnectionConfig, TcpConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use portcullis::redis::RedisStore;
use portcullis::store::{Checks, Store as _};
use portcullis::{Policy, Quota, Secret};
use portcullis_bench::server::Server;

use super::SCRIPT;

/// What decides, for the user with a number. `Increment` is one command that counts, which is less than a limiter.
#[allow(clippy::large_enum_variant, reason = "there is one of each")]
pub(super) enum Limit {
    Ours { store: RedisStore, policy: Policy, secret: Secret },
    Script { client: Client, sha: String },
    Increment(Client),
    RedisCell(Client),
}

impl Limit {
    pub(super) async fn ours(server: &Server) -> Result<Self> {
        let policy = Policy::gcra("bench", Quota::per_second(1).burst(BURST));
        // Without a denial memory, so that every decision is made by the server.
        let store = RedisStore::builder(server.admin_url()).deadline(DEADLINE).denial_memory(0);
        Ok(Self::Ours { store: store.connect().await?, policy, secret: Secret::published() })
    }

    pub(super) async fn script(server: &Server) -> Result<Self> {
        let client = connect(server).await?;
        let sha = client.script_load::<String, _>(SCRIPT.to_owned()).await?;
        Ok(Self::Script { client, sha })
    }

    pub(super) async fn is_allowed(&self, user: usize) -> Result<bool> {
        let user = format!("user-{user:07}");
        match self {
            Self::Ours { store, policy, secret } => {
                let mut hasher = secret.hasher();
                hasher.writer().part("user", user.as_bytes());
                let checks = Checks::one(policy.clone(), hasher.finish()?, 1);
                Ok(store.check(checks).await?.is_allowed())
            }
            Self::Script { client, sha } => {
                let arguments = ["1".to_owned(), BURST.to_string(), "1".to_owned()];
                let key = format!("script:{user}");
                let reply: Vec<i64> = client.evalsha(sha.clone(), key, arguments).await?;
                Ok(reply.first() == Some(&1))
            }
            Self::Increment(client) => Ok(client.incr::<i64, _>(format!("count:{user}")).await? > 0),
            Self::RedisCell(client) => {
                let command = CustomCommand::new_static("CL.THROTTLE", ClusterHash::FirstKey, false);
                let burst = (BURST - 1).to_string();
                let words = [format!("cell:{user}"), burst, "1".to_owned(), "1".to_owned()].map(Value::from);
                let reply: Vec<i64> = client.custom(command, Vec::from(words)).await?;
                Ok(reply.first() == Some(&0))
            }
        }
    }
}

pub(super) async fn connect(server: &Server) -> Result<Client> {
    let tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
    let connection = ConnectionConfig { tcp, ..ConnectionConfig::default() };
    let client = Client::new(Config::from_url(&server.admin_url())?, None, Some(connection), None);
    drop(client.init().await?);
    Ok(client)
}

/// Long, because a late answer is not an error here.
const DEADLINE: Duration = Duration::from_secs(10);
/// Three years to refill.
const BURST: u64 = 100_000_000;
