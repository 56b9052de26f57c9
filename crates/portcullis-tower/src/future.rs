//! The future of the service.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use pin_project_lite::pin_project;
use portcullis_core::{Outcome, StoreError, StoreFuture};
use tokio::time::Sleep;
use tower_service::Service;

use crate::answer::Note;
use crate::rules::{Caller, Conclusion, Lookups, Otherwise, Rules};
use crate::{KeyError, ResponseBody};

pin_project! {
    /// The response future of [`RateLimit`](crate::RateLimit).
    ///
    /// # Cancel safety
    ///
    /// Dropped before the inner service is called, it gives the ready inner instance back. What the store was asked to
    /// charge may stay charged.
    ///
    /// # Panics
    ///
    /// If an admitted request has to wait first and there is no tokio runtime with a timer.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    // Whoever waits is boxed: an answer that is there at once, as of a store in memory, moves a small future.
    #[project = StateProjection]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Identifying { identifying: Option<Box<Identifying<S, B>>> },
        Asking { asking: Option<Box<Asking<S, B>>> },
        Delayed { delayed: Option<Box<Delayed<S, B>>> },
        Called { #[pin] future: S::Future, note: Option<Note> },
        Answered { response: Option<Response<Full<Bytes>>> },
    }
}

/// A request and the ready service that it waits for.
pub(crate) struct Held<S, B> {
    pub(crate) inner: S,
    pub(crate) request: Request<B>,
}

/// Waits to hear who is calling.
struct Identifying<S, B> {
    lookups: Lookups,
    rules: Arc<Rules>,
    held: Held<S, B>,
}

/// Waits for the store.
struct Asking<S, B> {
    store: StoreFuture<Outcome>,
    rules: Arc<Rules>,
    otherwise: Otherwise,
    held: Held<S, B>,
}

/// Waits for its slot.
struct Delayed<S, B> {
    sleep: Pin<Box<Sleep>>,
    note: Note,
    held: Held<S, B>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(crate) fn identifying(lookups: Lookups, held: Held<S, B>, rules: Arc<Rules>) -> Self {
        let identifying = Some(Box::new(Identifying { lookups, rules, held }));
        Self { state: State::Identifying { identifying } }
    }

    pub(crate) fn asking(
        store: StoreFuture<Outcome>,
        held: Held<S, B>,
        rules: Arc<Rules>,
        otherwise: Otherwise,
    ) -> Self {
        Self { state: State::asking(Asking { store, rules, otherwise, held }) }
    }

    pub(crate) fn delayed(held: Held<S, B>, note: Note) -> Self {
        Self { state: State::delayed(held, note) }
    }

    pub(crate) fn called(future: S::Future, note: Option<Note>) -> Self {
        Self { state: State::Called { future, note } }
    }

    pub(crate) fn answered(response: Response<Full<Bytes>>) -> Self {
        Self { state: State::answered(response) }
    }
}

impl<S, B> State<S, B>
where
    S: Service<Request<B>>,
{
    fn identified(
        callers: Result<Vec<Option<Caller>>, KeyError>,
        rules: Arc<Rules>,
        mut held: Held<S, B>,
    ) -> Self {
        let (parts, body) = held.request.into_parts();
        let question = callers.and_then(|callers| rules.question(&parts, &callers));
        held.request = Request::from_parts(parts, body);
        let question = match question {
            Ok(Some(question)) => question,
            Ok(None) => return Self::called(held, None),
            Err(error) => return Self::answered(rules.refuse_key(&error, held.request.headers())),
        };
        let otherwise = question.otherwise;
        match rules.ask(question.checks).into_ready() {
            Ok(answer) => Self::decided(answer, otherwise, &rules, held),
            Err(store) => Self::asking(Asking { store, rules, otherwise, held }),
        }
    }

    fn asking(asking: Asking<S, B>) -> Self {
        Self::Asking { asking: Some(Box::new(asking)) }
    }

    fn decided(
        answer: Result<Outcome, StoreError>,
        otherwise: Otherwise,
        rules: &Rules,
        mut held: Held<S, B>,
    ) -> Self {
        match rules.conclude(answer, otherwise, &mut held.request) {
            Conclusion::Refuse(response) => Self::answered(response),
            Conclusion::Pass(note) if note.decision.delay().is_zero() => Self::called(held, Some(note)),
            Conclusion::Pass(note) => Self::delayed(held, note),
        }
    }

    fn delayed(held: Held<S, B>, note: Note) -> Self {
        let sleep = Box::pin(tokio::time::sleep(note.decision.delay()));
        Self::Delayed { delayed: Some(Box::new(Delayed { sleep, note, held })) }
    }

    fn called(mut held: Held<S, B>, note: Option<Note>) -> Self {
        Self::Called { future: held.inner.call(held.request), note }
    }

    fn answered(response: Response<Full<Bytes>>) -> Self {
        Self::Answered { response: Some(response) }
    }
}

impl<S, B, ResBody> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<ResBody>>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Identifying { identifying } => {
                    let callers = ready!(identifying.as_mut().expect(LEFT).lookups.as_mut().poll(cx));
                    let Identifying { rules, held, .. } = *identifying.take().expect(LEFT);
                    State::identified(callers, rules, held)
                }
                StateProjection::Asking { asking } => {
                    let answer = ready!(Pin::new(&mut asking.as_mut().expect(LEFT).store).poll(cx));
                    let Asking { rules, otherwise, held, .. } = *asking.take().expect(LEFT);
                    State::decided(answer, otherwise, &rules, held)
                }
                StateProjection::Delayed { delayed } => {
                    ready!(delayed.as_mut().expect(LEFT).sleep.as_mut().poll(cx));
                    let Delayed { note, held, .. } = *delayed.take().expect(LEFT);
                    State::called(held, Some(note))
                }
                StateProjection::Called { future, note } => {
                    let mut response = ready!(future.poll(cx))?.map(ResponseBody::inner);
                    if let Some(note) = note.take() {
                        note.write(&mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProjection::Answered { response } => {
                    let response = response.take().expect("a future is not polled after it has answered");
                    return Poll::Ready(Ok(response.map(ResponseBody::answer)));
                }
            };
            state.set(next);
        }
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Identifying { .. } => "identifying",
            State::Asking { .. } => "asking",
            State::Delayed { .. } => "delayed",
            State::Called { .. } => "called",
            State::Answered { .. } => "answered",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}

const LEFT: &str = "a state is left as soon as its wait is over";

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use portcullis_core::{Decision, Policy, Quota, Report, Timestamp};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_delayed_request_is_called_when_its_slot_has_come() {
        let delay = Duration::from_millis(1_500);
        let report =
            Report { limit: 5, remaining: 3, reset_after: delay, next_after: delay, retry: None, delay };
        let policy = Policy::gcra("queue", Quota::per_second(1));
        let decision = Decision::new(&policy, Timestamp::EPOCH, report);
        let start = Instant::now();
        let inner = tower::service_fn(move |_: Request<()>| async move {
            assert!(start.elapsed() >= delay);
            Ok::<_, Infallible>(Response::new(()))
        });
        let held = Held { inner, request: Request::new(()) };
        let response = ResponseFuture::delayed(held, Note { decision, in_extensions: false }).await.unwrap();
        assert_eq!(start.elapsed(), delay);
        assert_eq!(response.headers()["x-ratelimit-reset"], "2");
    }
}
