//! Limited servers that record their responses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::Response;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tower::util::MapResponseLayer;

/// The statuses of a server's responses in order; for gRPC the status of the call.
#[derive(Clone, Default)]
pub(crate) struct Answers(Arc<Mutex<Vec<String>>>);

impl Answers {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn record<B>(&self, answer: Response<B>) -> Response<B> {
        let status = match answer.headers().get("grpc-status") {
            Some(status) => format!("grpc {}", status.to_str().unwrap()),
            None => answer.status().as_u16().to_string(),
        };
        self.0.lock().unwrap().push(status);
        answer
    }
}

/// A server that ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) answers: Answers,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start(app: Router) -> Self {
        let answers = Answers::default();
        let recorder = answers.clone();
        let app = app.layer(MapResponseLayer::new(move |answer| recorder.record(answer)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        Self { address, answers, task: tokio::spawn(axum::serve(listener, app).into_future()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a program and returns its standard output. Panics if it is missing or fails.
pub(crate) async fn output_of(command: &mut Command) -> String {
    let output = command.kill_on_drop(true).output().await;
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
