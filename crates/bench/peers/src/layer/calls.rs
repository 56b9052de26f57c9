//! Requests in process, on one thread, without a socket.

use std::convert::Infallible;
use std::time::Instant;

use anyhow::{Error, ensure};
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode};
use portcullis_bench::Round;
use tokio::runtime::Runtime;
use tower::{Service, ServiceExt as _};

use super::apps::X_USER;

/// The values of `x-user`.
pub(super) fn users(count: usize) -> Vec<HeaderValue> {
    let user =
        |number| HeaderValue::from_str(&format!("user-{number:07}")).expect("letters and digits are a value");
    (0..count).map(user).collect()
}

/// Requests of the users in turns, beginning with the one at `first`.
pub(super) fn requests(users: &[HeaderValue], first: usize, count: usize) -> Vec<Request<Body>> {
    let request = |user: &HeaderValue| {
        let request = Request::get("/").header(&X_USER, user.clone());
        request.body(Body::empty()).expect("the parts of the request are valid")
    };
    (first..first + count).map(|number| request(&users[number % users.len()])).collect()
}

/// A router, or a service around one.
pub(super) trait App {
    /// Sends each request to a clone of the app, as a server does, and returns the number of responses with another status.
    fn send(&self, runtime: &Runtime, requests: Vec<Request<Body>>, status: StatusCode) -> usize;
}

impl<S> App for S
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    fn send(&self, runtime: &Runtime, requests: Vec<Request<Body>>, status: StatusCode) -> usize {
        runtime.block_on(async {
            let mut others = 0;
            for request in requests {
                let response = self.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
                others += usize::from(response.status() != status);
            }
            others
        })
    }
}

/// A round that sends requests that were made before.
pub(super) fn round<'a>(
    runtime: &'a Runtime,
    app: &'a dyn App,
    users: &'a [HeaderValue],
    count: usize,
    status: StatusCode,
) -> Round<'a, f64, Error> {
    let mut first = 0;
    Box::new(move || {
        let requests = requests(users, first, count);
        first += count;
        let start = Instant::now();
        let others = app.send(runtime, requests, status);
        let elapsed = start.elapsed();
        ensure!(others == 0, "{others} of {count} requests were answered with another status than {status}");
        Ok(elapsed.as_secs_f64() * 1e9 / count as f64)
    })
}
