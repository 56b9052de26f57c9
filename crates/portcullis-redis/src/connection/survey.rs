//! What is found out about a server when it is first reached, for one line of the log and for warnings.

use std::fmt;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::task::JoinSet;

use super::error::ConnectError;
use super::script::command_options;

/// What the servers of a connection say of themselves.
#[derive(Debug)]
pub(super) struct ServerInfo(Vec<Findings>);

/// What one server says. Whatever its user may not ask is unknown, and no failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Findings {
    product: Option<String>,
    version: Option<String>,
    mode: Option<String>,
    role: Option<String>,
    persistence: Option<&'static str>,
    eviction: Option<String>,
    /// In bytes; 0 is none.
    memory_limit: Option<u64>,
}

impl ServerInfo {
    /// Asks servers about themselves, by one command each that many users are not allowed.
    pub(super) async fn of(clients: Vec<Client>) -> Self {
        let asked: JoinSet<_> = clients.into_iter().map(ask).collect();
        Self(asked.join_all().await)
    }

    /// What time does not heal. `is_cluster` says whether the connection knows its way about a cluster.
    pub(super) fn refusal(&self, server: &str, is_cluster: bool) -> Option<ConnectError> {
        let url = server.to_owned();
        let is_lost =
            !is_cluster && self.0.iter().any(|findings| findings.mode.as_deref() == Some("cluster"));
        let lost = is_lost.then_some(ConnectError::Cluster { url });
        lost.or_else(|| self.0.iter().find_map(|findings| findings.refusal(server)))
    }

    /// Writes one line about what was found, and one for each thing that should be changed.
    pub(super) fn log(&self, server: &str) {
        tracing::info!(%server, "redis found: {self}");
        for warning in distinct(self.0.iter().flat_map(Findings::warnings)) {
            tracing::warn!(%server, "{warning}");
        }
    }
}

impl fmt::Display for ServerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts: Vec<_> = self.0.iter().map(Findings::facts).collect();
        for (place, name) in FACTS.iter().enumerate() {
            let values = distinct(facts.iter().map(|facts| facts[place].clone()));
            write!(f, "{name} {}, ", values.join(" and "))?;
        }
        f.write_str("scripts run")
    }
}

async fn ask(client: Client) -> Findings {
    let command = CustomCommand::new_static("INFO", ClusterHash::Random, false);
    let options = command_options(PATIENCE);
    let reply = client.with_options(&options).custom::<Value, Value>(command, Vec::new()).await;
    reply.ok().and_then(|reply| reply.as_string()).map(|info| Findings::read(&info)).unwrap_or_default()
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

impl Findings {
    fn read(info: &str) -> Self {
        let value = |name: &str| {
            let of_line = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
            // Somebody else's words in our log: a few, and none that break a line.
            info.lines().find_map(of_line).filter(|value| value.len() <= LONGEST_VALUE)
        };
        let number = |name: &str| value(name)?.parse().ok();
        let valkey = value("valkey_version");
        let appends = |enabled| if enabled == 1 { "append-only file" } else { "no append-only file" };
        Self {
            product: valkey.as_ref().map(|_| "valkey".to_owned()).or_else(|| value("server_name")),
            mode: value("redis_mode").or_else(|| value("server_mode")),
            version: valkey.or_else(|| value("redis_version")),
            role: value("role"),
            persistence: number("aof_enabled").map(appends),
            eviction: value("maxmemory_policy"),
            memory_limit: number("maxmemory"),
        }
    }

    fn refusal(&self, server: &str) -> Option<ConnectError> {
        let version = self.redis_version().filter(|version| *version < FIRST_WITH_EFFECTS)?;
        Some(ConnectError::Outdated {
            url: server.to_owned(),
            version: format!("{}.{}", version.0, version.1),
        })
    }

    /// What to change before it hurts.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let (Some(policy), Some(bytes @ 1..)) = (&self.eviction, self.memory_limit)
            && policy != "noeviction"
        {
            warnings.push(format!(
                "when its memory of {bytes} bytes is full, redis drops living limits (maxmemory-policy is {policy}) and \
                 their callers start anew: set maxmemory-policy to noeviction, or keep limits on a server of their own"
            ));
        }
        if let Some((major, minor)) = self.redis_version().filter(|version| *version < OLDEST_TESTED) {
            warnings.push(format!(
                "redis {major}.{minor} is older than the oldest that is tested, {}.{}: update it",
                OLDEST_TESTED.0, OLDEST_TESTED.1
            ));
        }
        warnings
    }

    /// In the order of [`FACTS`].
    fn facts(&self) -> [String; 7] {
        let known = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
        let product = self.product.as_deref().or(self.version.is_some().then_some("redis"));
        let memory = self.memory_limit.map(|bytes| match bytes {
            0 => "not limited".to_owned(),
            bytes => format!("{bytes} bytes"),
        });
        [
            known(product),
            known(self.version.as_deref()),
            known(self.mode.as_deref()),
            known(self.role.as_deref()),
            known(memory.as_deref()),
            known(self.eviction.as_deref()),
            known(self.persistence),
        ]
    }

    /// The version of a Redis; others count by themselves.
    fn redis_version(&self) -> Option<(u32, u32)> {
        let version = self.version.as_ref().filter(|_| self.product.is_none())?;
        let mut numbers = version.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

const PATIENCE: Duration = Duration::from_secs(1);
const FACTS: [&str; 7] = ["product", "version", "mode", "role", "memory", "eviction", "persistence"];
const LONGEST_VALUE: usize = 64;
/// Before it a script that has read the clock may not write.
const FIRST_WITH_EFFECTS: (u32, u32) = (5, 0);
const OLDEST_TESTED: (u32, u32) = (7, 0);

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:1000\r\n\
        maxmemory_human:1000B\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:0\r\n# Replication\r\nrole:master\r\n";

    fn line(infos: &[&str]) -> String {
        ServerInfo(infos.iter().map(|info| Findings::read(info)).collect()).to_string()
    }

    #[test]
    fn a_line_says_what_is_known_and_what_is_not() {
        assert_eq!(
            line(&[REDIS]),
            "product redis, version 7.0.15, mode standalone, role master, memory 1000 bytes, eviction noeviction, \
             persistence no append-only file, scripts run"
        );
        assert_eq!(
            line(&[""]),
            "product unknown, version unknown, mode unknown, role unknown, memory unknown, eviction unknown, \
             persistence unknown, scripts run"
        );
        let nothing = Findings::default();
        assert_eq!((nothing.warnings(), nothing.refusal("redis://a")), (Vec::new(), None));
        let valkey =
            "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\nserver_name:valkey\r\nserver_mode:cluster\r\n";
        assert!(line(&[valkey]).starts_with("product valkey, version 9.1.2, mode cluster, role unknown"));
        assert!(line(&[&format!("redis_version:{}\r\n", "7".repeat(100))]).contains("version unknown"));
        let newer = REDIS.replace("7.0.15", "7.2.4");
        assert!(
            line(&[REDIS, &newer, REDIS])
                .starts_with("product redis, version 7.0.15 and 7.2.4, mode standalone,")
        );
    }

    #[test]
    fn an_eviction_policy_that_drops_living_limits_is_a_warning_only_where_memory_is_limited() {
        assert_eq!(Findings::read(REDIS).warnings(), Vec::<String>::new());
        for policy in ["allkeys-lru", "volatile-ttl"] {
            let evicting = REDIS.replace("noeviction", policy);
            let [warning] = &Findings::read(&evicting).warnings()[..] else { panic!("one warning") };
            assert!(
                warning.contains(policy) && warning.contains("set maxmemory-policy to noeviction"),
                "{warning}"
            );
            let unlimited = evicting.replace("maxmemory:1000", "maxmemory:0");
            assert_eq!(Findings::read(&unlimited).warnings(), Vec::<String>::new());
        }
    }

    #[test]
    fn an_old_server_is_a_warning_and_one_that_cannot_do_it_an_error() {
        let version = |version: &str| Findings::read(&REDIS.replace("7.0.15", version));
        assert!(version("6.2.1").warnings()[0].contains("redis 6.2 is older"));
        assert_eq!(version("6.2.1").refusal("redis://a"), None);
        let refusal = version("4.0.14").refusal("redis://a").unwrap().to_string();
        assert!(
            refusal.contains("redis://a") && refusal.contains("4.0") && refusal.contains("5.0"),
            "{refusal}"
        );
        let unreadable = version("seven");
        assert_eq!((unreadable.warnings(), unreadable.refusal("redis://a")), (Vec::new(), None));
    }
}
