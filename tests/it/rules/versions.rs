//! Instances that have the old and the new version of a file, as during a roll-out.

use portcullis::Limiter;
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;

use super::{Limits, on_redis, serve};

/// One policy for all clients. All windows are longer than the test.
fn limits(strategy: &str, quota: &str, more: &str) -> String {
    format!(
        "[layer]\nshow_generation = \"x-rules\"\nwith_charge = true\n\
         [policy.search]\nstrategy = \"{strategy}\"\nquota = \"{quota}\"\nkey = \"global\"\n\
         match = {{ path = \"/search\" }}\n{more}\n"
    )
}

/// An instance with its file.
struct Instance {
    file: Limits,
    limiter: Limiter,
    url: String,
    client: HttpClient,
}

impl Instance {
    async fn start(redis: &RedisServer, name: &str, text: &str) -> Self {
        let file = Limits::new(name, text);
        let limiter = on_redis(redis, file.rules()).await;
        let url = format!("{}/search", serve(&limiter).await);
        Self { file, limiter, url, client: HttpClient::http_1() }
    }

    /// The status, the limit, and what remains.
    async fn call(&self) -> (u16, u64, u64) {
        let (status, limit, remaining, _) = super::call(&self.client, &self.url).await;
        (status, limit, remaining)
    }

    fn reload(&self, text: &str) {
        self.file.write(text);
        self.limiter.rules().unwrap().reload().unwrap();
    }
}

/// The state of each version is its own, and neither resets that of the other, however their requests alternate.
#[tokio::test]
async fn versions_with_other_windows_enforce_each_its_own_limit() {
    for (case, old, new) in [
        ("window", limits("fixed_window", "4/w", ""), limits("fixed_window", "7/9w", "")),
        ("slots", limits("sliding_window", "4/w", "slots = 7"), limits("sliding_window", "7/w", "slots = 6")),
        ("sliding", limits("sliding_window", "4/w", ""), limits("sliding_window", "7/9w", "")),
        ("algorithm", limits("fixed_window", "4/w", ""), limits("sliding_log", "7/w", "")),
    ] {
        let redis = RedisServer::start().unwrap();
        let before = Instance::start(&redis, &format!("old-{case}"), &old).await;
        let after = Instance::start(&redis, &format!("new-{case}"), &new).await;
        let mut passed = [0, 0];
        for _ in 0..20 {
            for (index, (instance, limit)) in [(&before, 4), (&after, 7)].into_iter().enumerate() {
                let (status, shown, remaining) = instance.call().await;
                passed[index] += u64::from(status == 200);
                assert_eq!((shown, remaining), (limit, limit - passed[index]), "{case}");
            }
        }
        assert_eq!(passed, [4, 7], "{case}");

        // The last instance gets the new file, and with it the state of the others.
        before.reload(&new);
        assert_eq!(before.call().await, (429, 7, 0), "{case}");
        // Back again, its former state is still there.
        before.reload(&old);
        assert_eq!(before.call().await, (429, 4, 0), "{case}");
    }
}

/// The state stays, so that all instances count together, each to its limit.
#[tokio::test]
async fn versions_with_other_limits_have_one_state() {
    for strategy in ["fixed_window", "sliding_window", "sliding_log"] {
        let redis = RedisServer::start().unwrap();
        let (old, new) = (limits(strategy, "4/w", ""), limits(strategy, "10/w", "mode = \"enforce\""));
        let before = Instance::start(&redis, &format!("few-{strategy}"), &old).await;
        let after = Instance::start(&redis, &format!("many-{strategy}"), &new).await;
        for used in [1, 3] {
            assert_eq!(before.call().await, (200, 4, 4 - used), "{strategy}");
            assert_eq!(after.call().await, (200, 10, 10 - used - 1), "{strategy}");
        }
        assert_eq!(before.call().await, (429, 4, 0), "{strategy}");
        for used in 5..=10 {
            assert_eq!(after.call().await, (200, 10, 10 - used), "{strategy}");
        }
        assert_eq!(after.call().await, (429, 10, 0), "{strategy}");
        before.reload(&new);
        assert_eq!(before.call().await, (429, 10, 0), "{strategy}");
    }
}
