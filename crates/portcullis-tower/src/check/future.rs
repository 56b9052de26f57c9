//! The future of a check.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use portcullis_core::Key;
use smallvec::SmallVec;

use super::Limited;
use super::decide::{self, Checked, Pending};
use crate::config::LayerConfig;
use crate::{Charge, KeyError};
use portcullis_engine::CallerPolicies;

/// The future of a [`Check`](crate::Check). See there for what happens if it is dropped.
#[must_use = "a check limits nothing until it is awaited"]
pub struct CheckFuture(State);

/// The indexes of policies, with the keys and costs.
pub(super) type Given = SmallVec<[(usize, Result<Key, KeyError>, u64); 2]>;

enum State {
    New {
        config: Arc<LayerConfig>,
        callers: CallerPolicies,
        checks: Given,
        max_wait: Option<Duration>,
        accept: HeaderMap,
    },
    Deciding {
        config: Arc<LayerConfig>,
        pending: Pending,
        accept: HeaderMap,
    },
    Refused(Limited),
    Over,
}

impl CheckFuture {
    pub(super) fn new(
        config: Arc<LayerConfig>,
        callers: CallerPolicies,
        checks: Given,
        max_wait: Option<Duration>,
        accept: HeaderMap,
    ) -> Self {
        Self(State::New { config, callers, checks, max_wait, accept })
    }

    pub(super) fn refused(limited: Limited) -> Self {
        Self(State::Refused(limited))
    }
}

impl Future for CheckFuture {
    type Output = Result<Charge, Limited>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (config, accept, checked) = match std::mem::replace(&mut self.0, State::Over) {
            State::New { config, callers, checks, max_wait, accept } => {
                match decide::begin(&config, &callers, checks, max_wait) {
                    Ok(checked) => (config, accept, checked),
                    Err(pending) => {
                        self.0 = State::Deciding { config, pending, accept };
                        return self.poll(cx);
                    }
                }
            }
            State::Deciding { config, mut pending, accept } => match pending.as_mut().poll(cx) {
                Poll::Ready(checked) => (config, accept, checked),
                Poll::Pending => {
                    self.0 = State::Deciding { config, pending, accept };
                    return Poll::Pending;
                }
            },
            State::Refused(limited) => return Poll::Ready(Err(limited)),
            State::Over => panic!("a check is polled after its end"),
        };
        Poll::Ready(match checked {
            Ok(Checked { basis, permits }) => Ok(Charge::new(&config, || basis, None, permits)),
            Err(cause) => Err(Limited::new(Arc::clone(&config.responses), cause, accept)),
        })
    }
}

impl fmt::Debug for CheckFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckFuture").finish_non_exhaustive()
    }
}
