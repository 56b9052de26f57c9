//! Requests that are shed, by their class, and the limit.

use std::convert::Infallible;
use std::future::{Pending, pending};
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use http::{Request, Response};
use portcullis_shed::{Class, ShedLayer};
use tower::{Layer as _, Service};

use crate::support::Recorded;

/// Never answers.
#[derive(Clone)]
struct Silent;

impl Service<Request<String>> for Silent {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pending<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        pending()
    }
}

#[test]
fn shed_requests_are_counted_by_class() {
    let (registry, recorded) = Recorded::registry(100);
    let is_critical = |parts: &Parts| parts.uri.path() == "/pay";
    let enforced = ShedLayer::new(&registry, 1..=1).class(Class::Critical, is_critical);
    let shadow = ShedLayer::new(&registry, 1..=1).class(Class::Background, |_: &Parts| true).shadow();
    let mut context = Context::from_waker(Waker::noop());
    let mut held = Vec::new();
    for (layer, paths) in [(&enforced, ["/", "/", "/pay"]), (&shadow, ["/", "/", "/"])] {
        let mut service = layer.layer(Silent);
        for path in paths {
            assert!(service.poll_ready(&mut context).is_ready());
            held.push(Box::pin(service.call(Request::get(path).body(String::new()).unwrap())));
        }
    }
    let is_answered = held.iter_mut().map(|future| future.as_mut().poll(&mut context).is_ready());
    assert_eq!(is_answered.filter(|is_answered| *is_answered).count(), 2);
    recorded.metrics.refresh(&registry);
    let expected = [
        (r#"portcullis_shed_total{class="critical"}"#, 1),
        (r#"portcullis_shed_total{class="default"}"#, 1),
        ("portcullis_shed_limit", 2),
        ("portcullis_shed_in_flight", 1 + 3),
        (r#"portcullis_would_shed_total{class="background"}"#, 2),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value)).into();
    assert_eq!(recorded.nonzero(&["portcullis_shed", "portcullis_would_shed"]), expected);
}
