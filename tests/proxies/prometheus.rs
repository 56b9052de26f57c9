//! A real Prometheus scrapes the example with metrics: it accepts the alerts, and finds what the panels of the dashboard ask for. Its counters
//! are what the clients of the example have seen.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Request;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::process::{Proxy, directory, free_address};

const DASHBOARD: &str = include_str!("../../docs/grafana/portcullis.json");
const CONFIGURATION: &str = include_str!("../../docs/prometheus/prometheus.yml");
const ALERTS: &str = include_str!("../../docs/prometheus/alerts.yml");
/// Fewer than wait too long in the queue of the example, and fewer than may be in flight there.
const EXPORTS: usize = 3;

/// The example, on a Redis.
struct Example {
    url: String,
    /// Whether Redis has answered a request too late, so that the example has counted it by itself.
    is_degraded: AtomicBool,
    _child: Child,
    _redis: RedisServer,
}

impl Example {
    async fn start() -> Self {
        let redis = RedisServer::start().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_metrics-under-test"));
        command.env("PORT", "0").env("REDIS_URL", redis.url()).env_remove("PORTCULLIS_SECRET");
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        while let Some(line) = within_a_minute("address", output.next_line()).await.unwrap() {
            if let Some(address) = line.strip_prefix("listening on http://") {
                let address = address.split(',').next().unwrap();
                let url = format!("http://{address}");
                // Read to its end, so that the example never writes into a closed pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = output.next_line().await {} });
                return Self { url, is_degraded: AtomicBool::new(false), _child: child, _redis: redis };
            }
        }
        panic!("the example exited without printing its address");
    }

    /// Sends requests at the same time. Returns how many were answered with each status.
    async fn send(&self, path: &str, requests: usize) -> BTreeMap<u16, u64> {
        let client = HttpClient::http_1();
        let mut sent = tokio::task::JoinSet::new();
        for _ in 0..requests {
            let (client, url) = (client.clone(), format!("{}{path}", self.url));
            sent.spawn(async move { client.send(Request::get(url), ()).await });
        }
        let mut seen = BTreeMap::new();
        for response in sent.join_all().await {
            *seen.entry(response.status().as_u16()).or_default() += 1;
            self.is_degraded
                .fetch_or(response.headers().contains_key("x-ratelimit-degraded"), Ordering::Relaxed);
        }
        seen
    }
}

/// A Prometheus that scrapes an example, with the configuration and the alerts of the docs.
struct Prometheus {
    address: SocketAddr,
    _process: Proxy,
}

impl Prometheus {
    fn scraping(example: &str) -> Self {
        let address = free_address();
        let directory = directory(address);
        let target = example.strip_prefix("http://").unwrap();
        let configuration = CONFIGURATION
            .replace("127.0.0.1:3000", target)
            .replace("scrape_interval: 15s", "scrape_interval: 100ms")
            .replace("evaluation_interval: 15s", "evaluation_interval: 100ms");
        assert!(configuration.matches("100ms").count() == 2 && configuration.contains(target));
        fs::write(directory.join("prometheus.yml"), configuration).unwrap();
        fs::write(directory.join("alerts.yml"), ALERTS).unwrap();
        Self { address, _process: Proxy::prometheus(&directory, address) }
    }

    /// The `data` of an answer of the API; an error while Prometheus is starting.
    async fn get(&self, path: &str) -> Result<Value, String> {
        let response = portcullis_tests::get(&format!("http://{}{path}", self.address)).await;
        let answer: Value = serde_json::from_slice(response.body()).map_err(|error| error.to_string())?;
        if answer["status"] == "success" { Ok(answer["data"].clone()) } else { Err(answer.to_string()) }
    }

    /// The values of an instant query.
    async fn query(&self, expression: &str) -> Result<Vec<f64>, String> {
        let data = self.get(&format!("/api/v1/query?query={}", encoded(expression))).await?;
        let value = |series: &Value| series["value"][1].as_str().unwrap().parse().unwrap();
        Ok(data["result"].as_array().unwrap().iter().map(value).collect())
    }

    /// The values of a query, once they satisfy `expected`. Panics after a minute.
    async fn query_until(&self, expression: &str, expected: impl Fn(&[f64]) -> bool) {
        let mut last = Ok(vec![]);
        let asking = async {
            loop {
                last = self.query(expression).await;
                if last.as_ref().is_ok_and(|values| expected(values)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let is_expected = tokio::time::timeout(Duration::from_secs(60), asking).await;
        assert!(is_expected.is_ok(), "{expression}: {last:?}");
    }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| encoded + &format!("%{byte:02x}"))
}

/// What no policy of the example counts, because it has no such option, or no request without an address.
const UNUSED: [&str; 6] = [
    "portcullis_denied_charges_total",
    "portcullis_exempt_total",
    "portcullis_identity_errors_total",
    "portcullis_lock_outs_total",
    "portcullis_soft_limit_total",
    "portcullis_uncharged_units_total",
];

/// The expressions of all panels, for all instances and policies.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let replaced = |text: String| {
        text.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$policy", ".*")
    };
    expressions.map(replaced).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_has_data_for_each_panel_and_exact_counters() {
    for _ in 0..5 {
        if panels_have_data_and_counters_are_exact().await {
            return;
        }
    }
    panic!("never within the deadline of the example");
}

/// Returns false if the machine was too busy for the example's deadline, so that the example counted a request by itself.
async fn panels_have_data_and_counters_are_exact() -> bool {
    let example = Example::start().await;
    let prometheus = Prometheus::scraping(&example.url);
    prometheus.query_until("up", |values| values == [1.0]).await;
    // The series exist before the first request, so that their first increase is seen.
    prometheus.query_until("count(portcullis_charged_units_total)", |values| values == [5.0]).await;

    let search = example.send("/search", 40).await;
    let login = example.send("/login", 12).await;
    let exports = example.send("/exports", EXPORTS).await;
    if example.is_degraded.load(Ordering::Relaxed) {
        return false;
    }
    assert_eq!(login, [(200, 5), (429, 7)].into());
    assert_eq!(exports, [(200, 3)].into());
    let admitted = [&search, &login, &exports].iter().map(|seen| seen[&200]).sum::<u64>();
    let limited = search[&429] + login[&429];
    for (series, expected) in [
        ("portcullis_requests_total{outcome=\"admitted\"}", admitted),
        ("portcullis_requests_total{outcome=\"limited\"}", limited),
        ("portcullis_decisions_total{policy=\"search\",outcome=\"allowed\"}", search[&200]),
        ("portcullis_decisions_total{policy=\"search\",outcome=\"denied\"}", search[&429]),
        ("portcullis_decisions_total{policy=\"login\",outcome=\"denied\"}", 7),
        ("portcullis_charged_units_total{policy=\"login\"}", 5),
        ("portcullis_would_reject_total{policy=\"search strict\",cause=\"limited\"}", search[&200] - 10),
        ("portcullis_permits_total{policy=\"exports in flight\",event=\"released\"}", 3),
    ] {
        prometheus
            .query_until(series, |values| {
                values.len() == 1 && format!("{}", values[0]) == expected.to_string()
            })
            .await;
    }
    for expression in expressions() {
        if UNUSED.iter().any(|unused| expression.contains(unused)) {
            assert_eq!(prometheus.query(&expression).await, Ok(vec![]), "{expression}");
            continue;
        }
        let has_data = |values: &[f64]| !values.is_empty() && values.iter().any(|value| value.is_finite());
        prometheus.query_until(&expression, has_data).await;
    }

    let scrape = portcullis_tests::get(&format!("{}/metrics", example.url)).await.into_body();
    let complaints = promtool_on(&["check", "metrics"], &scrape);
    assert_eq!(complaints, Ok(String::new()), "{}", String::from_utf8_lossy(&scrape));

    // Prometheus evaluates all alerts, and one of them fires.
    prometheus
        .query_until("ALERTS{alertname=\"PortcullisShadowWouldReject\"}", |values| values == [1.0])
        .await;
    let rules = prometheus.get("/api/v1/rules").await.unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), ALERTS.matches("- alert:").count());
    assert!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:#?}");
    true
}

/// What promtool prints when it reads an input: nothing, if it has no complaints.
fn promtool_on(arguments: &[&str], input: &[u8]) -> Result<String, String> {
    let mut promtool = StdCommand::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(input).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(printed) } else { Err(printed) }
}

#[test]
fn promtool_complains_of_names_against_the_conventions() {
    let odd = b"# TYPE portcullis_odd counter\nportcullis_odd 1\n";
    assert!(promtool_on(&["check", "metrics"], odd).is_err_and(|complaints| complaints.contains("_total")));
}

#[test]
fn the_unit_tests_of_the_alerts_pass() {
    let directory: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/prometheus");
    for arguments in [["check", "config", "prometheus.yml"], ["test", "rules", "alerts.test.yml"]] {
        let output = StdCommand::new("promtool").args(arguments).current_dir(&directory).output().unwrap();
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
