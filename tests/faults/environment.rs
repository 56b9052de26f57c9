//! The servers of a run, the network in front of them, and the record of injected faults.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use portcullis_core::store::{Checks, Store as _};
use portcullis_histories::checker::{Extent, Loss};
use portcullis_histories::{Family, KeyId, monotonic_micros};
use portcullis_redis::RedisStore;
use portcullis_servers::{FaultProxy, RedisCluster, RedisSentinels, RedisServer};

/// The servers under test and the faults injected so far.
pub(crate) struct Environment {
    pub(crate) servers: Servers,
    pub(crate) losses: Vec<Loss>,
    /// From the first fault to the last repair, in microseconds.
    pub(crate) fault_span: Option<(u64, u64)>,
}

/// The servers that the workers call.
pub(crate) enum Servers {
    /// A server behind a proxy, with an optional replica that can replace it.
    Pair(Pair),
    Cluster(RedisCluster),
    Sentinels(RedisSentinels),
}

pub(crate) struct Pair {
    pub(crate) primary: RedisServer,
    pub(crate) replica: Option<RedisServer>,
    pub(crate) proxy: FaultProxy,
}

impl Servers {
    /// Puts a single server behind a proxy.
    pub(crate) fn single(primary: RedisServer) -> Result<Self> {
        let proxy = FaultProxy::start(primary.port())?;
        Ok(Self::Pair(Pair { primary, replica: None, proxy }))
    }

    /// The URL for the workers, with a user of minimal rights.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Pair(pair) => {
                let (port, proxy) = (pair.primary.port().to_string(), pair.proxy.port().to_string());
                pair.primary.url().replace(&port, &proxy)
            }
            Self::Cluster(cluster) => cluster.url(),
            Self::Sentinels(sentinels) => sentinels.url(),
        }
    }

    fn admin_url(&self) -> String {
        match self {
            Self::Pair(pair) => pair.primary.admin_url(),
            Self::Cluster(cluster) => cluster.admin_url(),
            Self::Sentinels(sentinels) => sentinels.admin_url(),
        }
    }

    /// The servers that are running.
    fn running(&self) -> Vec<&RedisServer> {
        let servers: Vec<&RedisServer> = match self {
            Self::Pair(pair) => [&pair.primary].into_iter().chain(&pair.replica).collect(),
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
            Self::Sentinels(sentinels) => sentinels.servers().iter().collect(),
        };
        servers.into_iter().filter(|server| server.is_running()).collect()
    }
}

impl Environment {
    pub(crate) fn new(servers: Servers) -> Self {
        Self { servers, losses: Vec::new(), fault_span: None }
    }

    /// Records that a fault begins.
    pub(crate) fn begin_fault(&mut self) -> u64 {
        let now = monotonic_micros();
        self.fault_span.get_or_insert((now, now));
        now
    }

    /// Records that everything is repaired.
    pub(crate) fn end_fault(&mut self) {
        if let Some((_, end)) = &mut self.fault_span {
            *end = monotonic_micros();
        }
    }

    /// Records that state may have been lost since the instant `from`.
    pub(crate) fn record_loss(&mut self, from: u64, extent: Extent) {
        self.losses.push(Loss { from, to: monotonic_micros(), extent });
    }

    pub(crate) fn pair(&mut self) -> Result<&mut Pair> {
        if let Servers::Pair(pair) = &mut self.servers { Ok(pair) } else { anyhow::bail!("there is no pair") }
    }

    pub(crate) fn cluster(&mut self) -> Result<&mut RedisCluster> {
        if let Servers::Cluster(cluster) = &mut self.servers {
            Ok(cluster)
        } else {
            anyhow::bail!("there is no cluster")
        }
    }

    pub(crate) fn sentinels(&mut self) -> Result<&mut RedisSentinels> {
        if let Servers::Sentinels(sentinels) = &mut self.servers {
            Ok(sentinels)
        } else {
            anyhow::bail!("there are no sentinels")
        }
    }

    /// Counts the workers' connections. Waits up to five seconds for at most `max` of them.
    pub(crate) fn connections(&self, max: usize) -> Result<usize> {
        let mut count = usize::MAX;
        for _ in 0..50 {
            count = 0;
            for server in self.servers.running() {
                let list = server.cli(&["CLIENT", "LIST"])?;
                count += list.lines().filter(|line| line.contains(WORKER_USER)).count();
            }
            if count <= max {
                break;
            }
            wait(100);
        }
        Ok(count)
    }

    /// Counts the keys without an expiry.
    pub(crate) fn keys_without_expiry(&self) -> Result<u64> {
        let mut count = 0;
        for server in self.servers.running() {
            if server.cli(&["ROLE"])?.starts_with("master") {
                let reply = server.cli(&["EVAL", WITHOUT_EXPIRY, "0"])?;
                count += reply.parse::<u64>().with_context(|| format!("`{reply}` is not a count"))?;
            }
        }
        Ok(count)
    }

    /// Reads the servers' count for each of `key_ids`: of units that do not expire, and of permits that are held.
    pub(crate) fn counts(&self, key_ids: impl Iterator<Item = KeyId>) -> Result<BTreeMap<KeyId, u64>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let deadline = Duration::from_secs(5);
            let store = RedisStore::builder(self.servers.admin_url()).deadline(deadline).connect().await?;
            let mut counts = BTreeMap::new();
            for key_id in key_ids {
                let is_counted =
                    matches!(key_id.family, Family::Count | Family::MixedCount | Family::InFlight);
                ensure!(is_counted, "only counts do not expire");
                let peek = store.check(Checks::one(key_id.family.policy(), key_id.key(), 0)).await?;
                let decision = peek.decision();
                counts.insert(key_id, decision.limit() - decision.remaining());
            }
            Ok(counts)
        })
    }
}

/// Waits while the workers go on.
pub(crate) fn wait(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// The workers' user in the client list. Other connections are those of servers and of this program.
const WORKER_USER: &str = " user=portcullis ";
/// A call can fail: a cluster node cannot read keys left over in a slot that it has lost.
const WITHOUT_EXPIRY: &str = "
    local count = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do
        if redis.pcall('PTTL', key) == -1 then count = count + 1 end
    end
    return count";
