//! Servers in their own processes, killed when dropped.

use std::path::Path;
use std::process::Stdio;

use axum::body::Bytes;
use axum::http::{Request, Response};
use portcullis_servers::within_a_minute;
use portcullis_tests::HttpClient;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{Mutex, MutexGuard};

/// Serializes tests that depend on how fast a server answers.
pub(crate) async fn timing_lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::const_new(());
    LOCK.lock().await
}

/// The token of the admin API that [`Process::admin`] has.
pub(crate) const ADMIN_TOKEN: &str = "9f86d081884c7d65";

/// A running server and the address it listens on.
pub(crate) struct Process {
    pub(crate) url: String,
    child: Child,
    /// Kept open, so that the server never writes into a closed pipe.
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Runs the quickstart on a free port, with Redis if there is a URL.
    pub(crate) async fn quickstart(redis_url: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart-under-test"));
        command.env("PORT", "0").env_remove("REDIS_URL").env_remove("PORTCULLIS_SECRET");
        if let Some(url) = redis_url {
            command.env("REDIS_URL", url);
        }
        Self::start(command).await
    }

    /// Runs the example with rules in a file, with Redis if there is a URL.
    pub(crate) async fn rules(file: &Path, redis_url: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rules-under-test"));
        command.env("PORT", "0").env("RULES", file);
        for name in ["REDIS_URL", "PORTCULLIS_SECRET", "SEARCH_LIMIT"] {
            command.env_remove(name);
        }
        if let Some(url) = redis_url {
            command.env("REDIS_URL", url);
        }
        Self::start(command).await
    }

    /// Runs the example with OpenTelemetry in memory, which prints its spans.
    pub(crate) async fn opentelemetry() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opentelemetry-under-test"));
        command.env("PORT", "0");
        for name in ["REDIS_URL", "PORTCULLIS_SECRET", "OTEL_EXPORTER_OTLP_ENDPOINT"] {
            command.env_remove(name);
        }
        Self::start(command).await
    }

    /// Runs the example with the admin API and its own traffic, with Redis if there is a URL.
    pub(crate) async fn admin(redis_url: Option<&str>) -> Self {
        let mut command = Self::admin_command();
        command.env("PORTCULLIS_ADMIN_TOKEN", ADMIN_TOKEN).arg("--traffic");
        if let Some(url) = redis_url {
            command.env("REDIS_URL", url).env("PORTCULLIS_SECRET", "test:000102030405060708090a0b0c0d0e0f");
        }
        Self::start(command).await
    }

    /// The command of the example, without a token.
    pub(crate) fn admin_command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin-under-test"));
        command.env("PORT", "0").kill_on_drop(true);
        for name in ["REDIS_URL", "PORTCULLIS_SECRET"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the gateway in front of a model.
    pub(crate) async fn llm_gateway() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llm-gateway-under-test"));
        command.env("PORT", "0").env_remove("PORTCULLIS_SECRET");
        Self::start(command).await
    }

    /// Reads what the server writes, up to a line with a text.
    pub(crate) async fn line_with(&mut self, text: &str) -> String {
        while let Some(line) = within_a_minute(text, self.output.next_line()).await.unwrap() {
            if line.contains(text) {
                return line;
            }
        }
        panic!("the server ended without {text}");
    }

    /// Runs one of several servers that share a budget.
    pub(crate) async fn shared_budget(redis_url: &str, burst: u64) -> Self {
        Self::start(Self::shared_budget_command(redis_url, burst)).await
    }

    /// Like [`shared_budget`](Self::shared_budget), but with trust in the certificates of a file.
    pub(crate) async fn shared_budget_trusting(certificates: &Path, redis_url: &str, burst: u64) -> Self {
        let mut command = Self::shared_budget_command(redis_url, burst);
        command.env("SSL_CERT_FILE", certificates);
        Self::start(command).await
    }

    fn shared_budget_command(redis_url: &str, burst: u64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shared-budget"));
        command.args([redis_url, &burst.to_string()]).env_remove("PORTCULLIS_SECRET");
        command
    }

    /// Waits until the server prints its address.
    async fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        while let Some(line) = within_a_minute("address", output.next_line()).await.unwrap() {
            let listening = line.strip_prefix("listening on http://");
            if let Some(address) = listening.and_then(|rest| rest.split(',').next()) {
                return Self { url: format!("http://{address}"), child, output };
            }
        }
        panic!("the server exited without printing its address");
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Bytes> {
        portcullis_tests::get(&format!("{}{path}", self.url)).await
    }

    /// Kills the server, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        within_a_minute("end", self.child.kill()).await.unwrap();
    }

    /// Stops one of several servers that share a budget, which ends its streams and settles what is left. Returns the numbers of
    /// settlements that are left and lost.
    pub(crate) async fn stop(mut self) -> (usize, usize) {
        let stop = Request::post(format!("{}/stop", self.url));
        assert_eq!(HttpClient::http_1().send(stop, ()).await.status(), 200);
        let drained = within_a_minute("end", self.output.next_line()).await.unwrap();
        assert!(within_a_minute("exit", self.child.wait()).await.unwrap().success());
        let drained = drained.expect("the server prints what it has drained");
        let mut numbers =
            drained.strip_prefix("drained ").unwrap().split(' ').map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }
}
