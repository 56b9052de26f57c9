//! Servers, the way there, and what has been done to them.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use portcullis_core::{Checks, Store as _};
use portcullis_redis::RedisStore;
use portcullis_testing::{RedisCluster, RedisSentinels, RedisServer};
use portcullis_tests::faults::checker::{Extent, Loss};
use portcullis_tests::faults::{Family, KeyId, monotonic_micros};

use crate::proxy::Proxy;

/// Where faults happen.
pub(crate) struct Field {
    pub(crate) servers: Servers,
    pub(crate) losses: Vec<Loss>,
    /// From the first harm to the last repair, in microseconds.
    pub(crate) hurt: Option<(u64, u64)>,
}

/// What the processes ask.
pub(crate) enum Servers {
    /// A server behind a proxy, and maybe one that can take its place.
    Pair(Pair),
    Cluster(RedisCluster),
    Sentinels(RedisSentinels),
}

pub(crate) struct Pair {
    pub(crate) primary: RedisServer,
    pub(crate) replica: Option<RedisServer>,
    pub(crate) proxy: Proxy,
}

impl Servers {
    /// One server behind a proxy.
    pub(crate) fn single(primary: RedisServer) -> Result<Self> {
        let proxy = Proxy::start(primary.port())?;
        Ok(Self::Pair(Pair { primary, replica: None, proxy }))
    }

    /// Where the processes ask, as a user with the least rights.
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

    /// Those that run.
    fn running(&self) -> Vec<&RedisServer> {
        let servers: Vec<&RedisServer> = match self {
            Self::Pair(pair) => [&pair.primary].into_iter().chain(&pair.replica).collect(),
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
            Self::Sentinels(sentinels) => sentinels.servers().iter().collect(),
        };
        servers.into_iter().filter(|server| server.is_running()).collect()
    }
}

impl Field {
    pub(crate) fn new(servers: Servers) -> Self {
        Self { servers, losses: Vec::new(), hurt: None }
    }

    /// Notes that harm begins.
    pub(crate) fn harm(&mut self) -> u64 {
        let now = monotonic_micros();
        self.hurt.get_or_insert((now, now));
        now
    }

    /// Notes that everything is repaired.
    pub(crate) fn repair(&mut self) {
        if let Some((_, end)) = &mut self.hurt {
            *end = monotonic_micros();
        }
    }

    /// Notes that state may have been lost since an instant.
    pub(crate) fn lost(&mut self, from: u64, extent: Extent) {
        self.losses.push(Loss { from, to: monotonic_micros(), extent });
    }

    pub(crate) fn pair(&mut self) -> Result<&mut Pair> {
        if let Servers::Pair(pair) = &mut self.servers { Ok(pair) } else { anyhow::bail!("there is no pair") }
    }

    pub(crate) fn cluster(&mut self) -> Result<&mut RedisCluster> {
        if let Servers::Cluster(cluster) = &mut self.servers {
            Ok(cluster)
        } else {
            anyhow::bail!("no cluster")
        }
    }

    pub(crate) fn sentinels(&mut self) -> Result<&mut RedisSentinels> {
        if let Servers::Sentinels(sentinels) = &mut self.servers {
            Ok(sentinels)
        } else {
            anyhow::bail!("there are no sentinels")
        }
    }

    /// How many connections of the processes there are, once there are no more than `most` or a while has passed.
    pub(crate) fn connections(&self, most: usize) -> Result<usize> {
        let mut count = usize::MAX;
        for _ in 0..50 {
            count = 0;
            for server in self.servers.running() {
                let list = server.cli(&["CLIENT", "LIST"])?;
                count += list.lines().filter(|line| line.contains(OURS)).count();
            }
            if count <= most {
                break;
            }
            wait(100);
        }
        Ok(count)
    }

    /// How many keys have no expiry.
    pub(crate) fn keys_without_expiry(&self) -> Result<u64> {
        let mut count = 0;
        for server in self.servers.running() {
            if server.cli(&["ROLE"])?.starts_with("master") {
                let reply = server.cli(&["EVAL", WITHOUT_EXPIRY, "0"])?;
                count += reply.parse::<u64>().with_context(|| format!("`{reply}` is no count"))?;
            }
        }
        Ok(count)
    }

    /// What the servers have counted for each of `spots`.
    pub(crate) fn counts(&self, spots: impl Iterator<Item = KeyId>) -> Result<BTreeMap<KeyId, u64>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let patient = Duration::from_secs(5);
            let store = RedisStore::builder(self.servers.admin_url()).deadline(patient).connect().await?;
            let mut counts = BTreeMap::new();
            for spot in spots {
                ensure!(spot.family == Family::Count, "only counts are not forgotten");
                let peek = store.check(Checks::one(spot.family.policy(), spot.key(), 0)).await?;
                let decision = peek.decision();
                counts.insert(spot, u64::from(decision.limit() - decision.remaining()));
            }
            Ok(counts)
        })
    }
}

/// Lets time pass under load.
pub(crate) fn wait(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// The user of the URLs. Others are servers and those who ask.
const OURS: &str = " user=portcullis ";
/// A node of a cluster may not look at keys that are left of a slot that it has lost.
const WITHOUT_EXPIRY: &str = "
    local count = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do
        if redis.pcall('PTTL', key) == -1 then count = count + 1 end
    end
    return count";
