//! The future of a check.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::HeaderMap;
use portcullis_core::Key;

use super::Limited;
use crate::admission::HandlerCheck;
use crate::config::LayerConfig;
use crate::{Charge, KeyError};

/// The future of a [`Check`](crate::Check). See there for what happens if it is dropped.
#[must_use = "a check limits nothing until it is awaited"]
pub struct CheckFuture {
    state: State,
    accept: HeaderMap,
}

#[expect(clippy::large_enum_variant, reason = "nearly every check is the first variant")]
enum State {
    Deciding(HandlerCheck),
    /// `None` once it was returned.
    Refused(Option<Limited>),
}

impl CheckFuture {
    pub(super) fn new(
        config: Arc<LayerConfig>,
        checks: impl IntoIterator<Item = (usize, Result<Key, KeyError>, u64)>,
        max_wait: Option<Duration>,
        accept: HeaderMap,
    ) -> Self {
        Self { state: State::Deciding(HandlerCheck::new(config, checks, max_wait)), accept }
    }

    pub(super) fn refused(limited: Limited) -> Self {
        Self { state: State::Refused(Some(limited)), accept: HeaderMap::new() }
    }
}

impl Future for CheckFuture {
    type Output = Result<Charge, Limited>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { state, accept } = &mut *self;
        let check = match state {
            State::Deciding(check) => check,
            State::Refused(limited) => {
                return Poll::Ready(Err(limited.take().expect("polled after completion")));
            }
        };
        let answer = ready!(check.poll(cx));
        let permits = check.take_permits();
        let config = check.config();
        Poll::Ready(match answer {
            Ok(basis) => Ok(match permits {
                None => Charge::new(config, || basis, None),
                Some(permits) => Charge::holding(config, basis, None, permits),
            }),
            Err(cause) => Err(Limited::new(Arc::clone(&config.responses), cause, std::mem::take(accept))),
        })
    }
}

impl fmt::Debug for CheckFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckFuture").finish_non_exhaustive()
    }
}
