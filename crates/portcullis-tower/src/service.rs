//! The service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::answer::Note;
use crate::future::Held;
use crate::rules::{Conclusion, Question, Rules};
use crate::{ResponseBody, ResponseFuture};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Its clones share their budgets. The request body and the error are those of the inner service: a rejection is a
/// response. The body has to be an [`http_body::Body`], which says whether a request
/// [can be a preflight](crate::RateLimitLayer::limit_preflights); nothing is read from it.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without the limit.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ReqBody: Body,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let preflight = self.rules.preflight(&parts, &body);
        if preflight.is_none()
            && let Some(lookups) = self.rules.look_up(&parts)
        {
            return ResponseFuture::identifying(lookups, self.hold(parts, body), Arc::clone(&self.rules));
        }
        let question = preflight.map_or_else(|| self.rules.question(&parts, &[]), Ok);
        let Question { enforced, shadow } = match question {
            Ok(question) => question,
            Err(error) => return ResponseFuture::answered(self.rules.refuse_key(&error, &parts)),
        };
        let conclusion = match enforced {
            None => self.rules.watch(Note::default(), shadow, &mut parts),
            Some((checks, otherwise)) => match self.rules.ask(checks).into_ready() {
                Ok(answer) => self.rules.conclude(answer, otherwise, shadow, &mut parts),
                Err(pending) => {
                    let held = self.hold(parts, body);
                    return ResponseFuture::asking(pending, held, Arc::clone(&self.rules), otherwise, shadow);
                }
            },
        };
        match conclusion {
            Conclusion::Refuse(response) => ResponseFuture::answered(response),
            Conclusion::Pass(note) if note.delay().is_zero() => {
                ResponseFuture::called(self.inner.call(Request::from_parts(parts, body)), note)
            }
            Conclusion::Pass(note) => ResponseFuture::delayed(self.hold(parts, body), note),
            Conclusion::Watch(note, watching) => {
                ResponseFuture::watching(watching, self.hold(parts, body), Arc::clone(&self.rules), note)
            }
        }
    }
}

impl<S: Clone> RateLimit<S> {
    fn hold<B>(&mut self, parts: Parts, body: B) -> Held<S, B> {
        Held { inner: self.take_ready(), parts, body }
    }

    fn take_ready(&mut self) -> S {
        // Only this instance was polled ready: it is called later, and the clone stays to be polled.
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for RateLimit<S> {
    const NAME: &'static str = S::NAME;
}
