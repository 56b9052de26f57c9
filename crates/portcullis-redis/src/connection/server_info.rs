//! Reads a server's properties when it is first reached, for one log line and for warnings.

use std::fmt;
use std::time::Duration;

use portcullis_log::codes;
use tokio::task::JoinSet;

use crate::fred::live::Live;
use crate::transport::ConnectError;

/// The properties of the servers of a connection.
#[derive(Debug)]
pub(crate) struct ServerInfo(Vec<Properties>);

/// The properties of one server. A property that the user may not read is unknown, which is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Properties {
    product: Option<String>,
    version: Option<String>,
    mode: Option<String>,
    role: Option<String>,
    persistence: Option<&'static str>,
    eviction: Option<String>,
    /// In bytes; 0 is no limit.
    memory_limit: Option<u64>,
}

impl ServerInfo {
    /// Reads the properties by one `INFO` command per server, which many users may not run.
    pub(crate) async fn of(servers: Vec<Live>) -> Self {
        let read = |server: Live| async move {
            server.info(INFO_TIMEOUT).await.map(|info| Properties::read(&info)).unwrap_or_default()
        };
        Self(servers.into_iter().map(read).collect::<JoinSet<_>>().join_all().await)
    }

    /// Returns the permanent error, if any. `is_cluster` tells whether the connection can route in a cluster.
    pub(crate) fn refusal(&self, server: &str, is_cluster: bool) -> Option<ConnectError> {
        let url = server.to_owned();
        let is_lost =
            !is_cluster && self.0.iter().any(|properties| properties.mode.as_deref() == Some("cluster"));
        let lost = is_lost.then_some(ConnectError::Cluster { url });
        lost.or_else(|| self.0.iter().find_map(|properties| properties.refusal(server)))
    }

    /// Logs one line with the properties, and one warning for each that should be changed.
    pub(crate) fn log(&self, server: &str) {
        tracing::info!(%server, "redis found: {self}");
        for (code, warning) in distinct(self.0.iter().flat_map(Properties::warnings)) {
            tracing::warn!(%code, %server, "{warning}");
        }
    }
}

impl fmt::Display for ServerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in FACTS.iter().enumerate() {
            let values = distinct(self.0.iter().map(|properties| properties.facts()[index].clone()));
            write!(f, "{name} {}, ", values.join(" and "))?;
        }
        f.write_str("scripts run")
    }
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

impl Properties {
    fn read(info: &str) -> Self {
        let value = |name: &str| {
            let of_line = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
            // The server's text goes to the log: it is short and has no line breaks.
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

    /// Warnings about settings that should be changed, with their codes.
    fn warnings(&self) -> Vec<(&'static str, String)> {
        let mut warnings = Vec::new();
        if let (Some(policy), Some(bytes @ 1..)) = (&self.eviction, self.memory_limit)
            && policy != "noeviction"
        {
            let warning = format!(
                "when its memory of {bytes} bytes is full, redis evicts active limits (maxmemory-policy is {policy}), \
                 and their clients get the full limit again: set maxmemory-policy to noeviction, or keep limits on a \
                 server of their own"
            );
            warnings.push((codes::REDIS_EVICTS, warning));
        }
        if let Some((major, minor)) = self.redis_version().filter(|version| *version < OLDEST_TESTED) {
            let warning = format!(
                "redis {major}.{minor} is older than the oldest tested version, {}.{}: update it",
                OLDEST_TESTED.0, OLDEST_TESTED.1
            );
            warnings.push((codes::REDIS_OLD, warning));
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
        let [version, mode, role] = [&self.version, &self.mode, &self.role].map(|value| value.as_deref());
        let (memory, eviction) = (memory.as_deref(), self.eviction.as_deref());
        [product, version, mode, role, memory, eviction, self.persistence].map(known)
    }

    /// The version, if the server is Redis; other products number their versions differently.
    fn redis_version(&self) -> Option<(u32, u32)> {
        let version = self.version.as_ref().filter(|_| self.product.is_none())?;
        let mut numbers = version.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

const INFO_TIMEOUT: Duration = Duration::from_secs(1);
const FACTS: [&str; 7] = ["product", "version", "mode", "role", "memory", "eviction", "persistence"];
const LONGEST_VALUE: usize = 64;
/// In older versions a script that has read the clock cannot write.
const FIRST_WITH_EFFECTS: (u32, u32) = (5, 0);
const OLDEST_TESTED: (u32, u32) = (7, 0);

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:1000\r\n\
        maxmemory_human:1000B\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:0\r\n# Replication\r\nrole:master\r\n";

    fn line(infos: &[&str]) -> String {
        ServerInfo(infos.iter().map(|info| Properties::read(info)).collect()).to_string()
    }

    #[test]
    fn the_line_lists_known_and_unknown_properties() {
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
        let nothing = Properties::default();
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
    fn eviction_is_a_warning_only_with_a_memory_limit() {
        assert_eq!(Properties::read(REDIS).warnings(), []);
        for policy in ["allkeys-lru", "volatile-ttl"] {
            let evicting = REDIS.replace("noeviction", policy);
            let [(codes::REDIS_EVICTS, warning)] = &Properties::read(&evicting).warnings()[..] else {
                panic!("one warning")
            };
            assert!(
                warning.contains(policy) && warning.contains("set maxmemory-policy to noeviction"),
                "{warning}"
            );
            let unlimited = evicting.replace("maxmemory:1000", "maxmemory:0");
            assert_eq!(Properties::read(&unlimited).warnings(), []);
        }
    }

    #[test]
    fn an_old_server_is_a_warning_and_an_unusable_one_an_error() {
        let version = |version: &str| Properties::read(&REDIS.replace("7.0.15", version));
        let (code, warning) = &version("6.2.1").warnings()[0];
        assert!(*code == codes::REDIS_OLD && warning.contains("redis 6.2 is older"), "{code} {warning}");
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
