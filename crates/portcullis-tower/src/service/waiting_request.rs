//! A request that waits for its admission, and then for an instance of the inner service.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tokio::time::Sleep;
use tower_service::Service;

use crate::admission::{Decided, RejectedRequest, Waiting, admit, reject};
use crate::body::discard::discard;
use crate::charge::response_context::ResponseContext;
use crate::config::LayerConfig;
use portcullis_engine::{Admitted, Refunds};

/// A request that waits, with an instance of the inner service.
pub(crate) struct WaitingRequest<S, B> {
    stage: Stage,
    /// The body of the request, and an instance of the inner service; `None` after the end.
    rest: Option<(Instance<S>, B)>,
}

#[expect(clippy::large_enum_variant, reason = "it is boxed together with the request")]
enum Stage {
    Deciding(Waiting),
    /// The inner service is made ready.
    Admitted(Arc<LayerConfig>, Parts, Admitted),
    /// The inner service was not ready in time.
    Refunding(Refunds, Arc<LayerConfig>, Parts, RejectedRequest),
    Over,
}

/// How a request that has waited goes on.
pub(crate) enum WaitEnd<S, B, E> {
    /// The inner service is called with the request.
    Call(S, Request<B>, ResponseContext),
    Respond(Response<Full<Bytes>>),
    /// The inner service has failed.
    Fail(E),
}

impl<S, B> WaitingRequest<S, B> {
    pub(crate) fn new(waiting: Waiting, instance: Instance<S>, body: B) -> Self {
        Self { stage: Stage::Deciding(waiting), rest: Some((instance, body)) }
    }
}

impl<S, B> WaitingRequest<S, B>
where
    S: Service<Request<B>> + Clone,
    B: Body + Send + 'static,
{
    /// Polls for the admission, then for the readiness of the inner service. Emits the admission when both are there.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WaitEnd<S, B, S::Error>> {
        loop {
            match &mut self.stage {
                Stage::Deciding(waiting) => {
                    let Poll::Ready(decided) = waiting.poll(cx) else {
                        if !waiting.keeps_readiness()
                            && let Some((instance, _)) = &mut self.rest
                        {
                            instance.release();
                        }
                        return Poll::Pending;
                    };
                    let Decided { config, parts, result } = decided;
                    match result {
                        Ok(admitted) => self.stage = Stage::Admitted(config, parts, admitted),
                        Err(rejected) => return Poll::Ready(self.reject(&config, &parts, rejected)),
                    }
                }
                Stage::Admitted(config, ..) => {
                    let (instance, _) = self.rest.as_mut().expect(AFTER_END);
                    let ready = ready!(instance.poll_ready(config.ready_deadline, cx));
                    if let Some(end) = self.admitted(ready) {
                        return Poll::Ready(end);
                    }
                }
                Stage::Refunding(refunds, ..) => {
                    ready!(Pin::new(refunds).poll(cx));
                    let Stage::Refunding(_, config, parts, rejected) =
                        mem::replace(&mut self.stage, Stage::Over)
                    else {
                        unreachable!("it is refunding")
                    };
                    return Poll::Ready(self.reject(&config, &parts, rejected));
                }
                Stage::Over => panic!("{AFTER_END}"),
            }
        }
    }

    /// `None` if the inner service is not ready, and the request is refunded.
    fn admitted(&mut self, ready: Result<bool, S::Error>) -> Option<WaitEnd<S, B, S::Error>> {
        let Stage::Admitted(config, mut parts, admitted) = mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("it is admitted")
        };
        match ready {
            Ok(true) => {
                let context = admit::later(&config, admitted, &mut parts);
                let (instance, body) = self.rest.take()?;
                Some(WaitEnd::Call(instance.inner, Request::from_parts(parts, body), context))
            }
            Ok(false) => {
                let rejected = reject::not_ready(&config, &parts, admitted.keys.as_deref());
                let refunds = admitted.refund(&config.limits);
                self.stage = Stage::Refunding(refunds, config, parts, rejected);
                None
            }
            Err(error) => {
                drop(admitted.refund(&config.limits));
                discard(&parts, self.rest.take()?.1, None, config.discarded_bytes);
                Some(WaitEnd::Fail(error))
            }
        }
    }

    fn reject(
        &mut self,
        config: &LayerConfig,
        parts: &Parts,
        rejected: RejectedRequest,
    ) -> WaitEnd<S, B, S::Error> {
        if let Some((_, body)) = self.rest.take() {
            discard(parts, body, rejected.key, config.discarded_bytes);
        }
        WaitEnd::Respond(rejected.response)
    }
}
/// An instance of the inner service for one request.
pub(crate) struct Instance<S> {
    inner: S,
    /// Whether it was polled ready, so that it may be called.
    is_ready: bool,
    /// Made when the instance is not ready at once.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Instance<S> {
    pub(crate) fn ready(inner: S) -> Self {
        Self { inner, is_ready: true, deadline: None }
    }

    pub(crate) fn idle(inner: S) -> Self {
        Self { inner, is_ready: false, deadline: None }
    }

    /// Gets the instance ready. Returns whether it was ready within `limit`.
    fn poll_ready<R>(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<Result<bool, S::Error>>
    where
        S: Service<R> + Clone,
    {
        if !self.is_ready {
            if let Poll::Ready(ready) = self.inner.poll_ready(cx) {
                self.is_ready = ready.is_ok();
                return Poll::Ready(ready.map(|()| true));
            }
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            ready!(deadline.as_mut().poll(cx));
            self.release();
        }
        Poll::Ready(Ok(self.is_ready))
    }

    /// Drops the readiness of the instance, or its place among the instances that wait for it.
    fn release(&mut self)
    where
        S: Clone,
    {
        self.inner = self.inner.clone();
        self.is_ready = false;
    }
}

const AFTER_END: &str = "a request is polled after its end";
