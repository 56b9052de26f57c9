//! The future of the service.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use pin_project_lite::pin_project;
use portcullis_core::{Outcome, StoreError, StoreFuture};
use tokio::time::Sleep;
use tower_service::Service;

use crate::answer::Note;
use crate::rules::{Conclusion, Looked, Lookups, Otherwise, Question, Rules, ShadowChecks, Watching};
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
        Watching { watching: Option<Box<Watched<S, B>>> },
        Delayed { delayed: Option<Box<Delayed<S, B>>> },
        Called { #[pin] future: S::Future, note: Note },
        Answered { response: Option<Response<Full<Bytes>>> },
    }
}

/// A request and the ready service that it waits for.
pub(crate) struct Held<S, B> {
    pub(crate) inner: S,
    pub(crate) parts: Parts,
    pub(crate) body: B,
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
    shadow: ShadowChecks,
    held: Held<S, B>,
}

/// Waits for policies that only watch.
struct Watched<S, B> {
    watching: Watching,
    rules: Arc<Rules>,
    note: Note,
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
        shadow: ShadowChecks,
    ) -> Self {
        Self { state: State::asking(Asking { store, rules, otherwise, shadow, held }) }
    }

    pub(crate) fn watching(watching: Watching, held: Held<S, B>, rules: Arc<Rules>, note: Note) -> Self {
        Self { state: State::watching(Watched { watching, rules, note, held }) }
    }

    pub(crate) fn delayed(held: Held<S, B>, note: Note) -> Self {
        Self { state: State::delayed(held, note) }
    }

    pub(crate) fn called(future: S::Future, note: Note) -> Self {
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
    fn identified(callers: Result<Vec<Looked>, KeyError>, rules: Arc<Rules>, mut held: Held<S, B>) -> Self {
        let question = callers.and_then(|callers| rules.question(&held.parts, &callers));
        let Question { enforced, shadow } = match question {
            Ok(question) => question,
            Err(error) => return Self::answered(rules.refuse_key(&error, &held.parts)),
        };
        let Some((checks, otherwise)) = enforced else {
            let conclusion = rules.watch(Note::default(), shadow, &mut held.parts);
            return Self::concluded(conclusion, rules, held);
        };
        match rules.ask(checks).into_ready() {
            Ok(answer) => Self::decided(answer, rules, otherwise, shadow, held),
            Err(store) => Self::asking(Asking { store, rules, otherwise, shadow, held }),
        }
    }

    fn asking(asking: Asking<S, B>) -> Self {
        Self::Asking { asking: Some(Box::new(asking)) }
    }

    fn decided(
        answer: Result<Outcome, StoreError>,
        rules: Arc<Rules>,
        otherwise: Otherwise,
        shadow: ShadowChecks,
        mut held: Held<S, B>,
    ) -> Self {
        Self::concluded(rules.conclude(answer, otherwise, shadow, &mut held.parts), rules, held)
    }

    fn concluded(conclusion: Conclusion, rules: Arc<Rules>, held: Held<S, B>) -> Self {
        match conclusion {
            Conclusion::Refuse(response) => Self::answered(response),
            Conclusion::Pass(note) => Self::passed(held, note),
            Conclusion::Watch(note, watching) => Self::watching(Watched { watching, rules, note, held }),
        }
    }

    fn watching(watching: Watched<S, B>) -> Self {
        Self::Watching { watching: Some(Box::new(watching)) }
    }

    fn passed(held: Held<S, B>, note: Note) -> Self {
        if note.delay().is_zero() { Self::called(held, note) } else { Self::delayed(held, note) }
    }

    fn delayed(held: Held<S, B>, note: Note) -> Self {
        let sleep = Box::pin(tokio::time::sleep(note.delay()));
        Self::Delayed { delayed: Some(Box::new(Delayed { sleep, note, held })) }
    }

    fn called(mut held: Held<S, B>, note: Note) -> Self {
        Self::Called { future: held.inner.call(Request::from_parts(held.parts, held.body)), note }
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
                    let Asking { rules, otherwise, shadow, held, .. } = *asking.take().expect(LEFT);
                    State::decided(answer, rules, otherwise, shadow, held)
                }
                StateProjection::Watching { watching } => {
                    let Watched { watching: all, rules, .. } = &mut **watching.as_mut().expect(LEFT);
                    ready!(rules.poll_shadows(all, cx));
                    let Watched { watching, rules, mut note, mut held } = *watching.take().expect(LEFT);
                    note.shadow = rules.report(watching, &mut held.parts.extensions);
                    State::passed(held, note)
                }
                StateProjection::Delayed { delayed } => {
                    ready!(delayed.as_mut().expect(LEFT).sleep.as_mut().poll(cx));
                    let Delayed { note, held, .. } = *delayed.take().expect(LEFT);
                    State::called(held, note)
                }
                StateProjection::Called { future, note } => {
                    let mut response = ready!(future.poll(cx))?.map(ResponseBody::inner);
                    mem::take(note).write(&mut response);
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
            State::Watching { .. } => "watching",
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

    use portcullis_core::{
        Checks, Decision, Key, Policy, Quota, Receipt, Report, Secret, Settlement, Store, Timestamp,
    };
    use tokio::time::Instant;

    use super::*;
    use crate::charge::Standing;
    use crate::rules::{KeySource, Rule};
    use crate::{Charge, Gate, Global};

    struct NeverAsked;

    impl Store for NeverAsked {
        fn check(&self, _: Checks) -> StoreFuture<Outcome> {
            unimplemented!()
        }

        fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
            unimplemented!()
        }

        fn settle(&self, _: Receipt, _: u32) -> StoreFuture<Settlement> {
            unimplemented!()
        }

        fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
            unimplemented!()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_request_is_called_when_its_slot_has_come() {
        let delay = Duration::from_millis(1_500);
        let report =
            Report { limit: 5, remaining: 3, reset_after: delay, next_after: delay, retry: None, delay };
        let policy = Policy::gcra("queue", Quota::per_second(1));
        let decision = Decision::new(&policy, Timestamp::EPOCH, report);
        let gate = Arc::new(Gate::new(Arc::new(NeverAsked), Secret::published()));
        let rules = Arc::new(Rules::new(gate, Rule::new(policy, KeySource::Now(Arc::new(Global)))));
        // However the decision came about.
        let charge = Some(Charge::new(rules, Standing::Degraded(vec![decision]), None));
        let start = Instant::now();
        let inner = tower::service_fn(move |_: Request<()>| async move {
            assert!(start.elapsed() >= delay);
            Ok::<_, Infallible>(Response::new(()))
        });
        let (parts, body) = Request::new(()).into_parts();
        let note = Note { charge, shadow: None };
        let response = ResponseFuture::delayed(Held { inner, parts, body }, note).await.unwrap();
        assert_eq!(start.elapsed(), delay);
        assert_eq!(response.headers()["x-ratelimit-reset"], "2");
    }
}
