//! The trait of stores, which keep state.

pub mod protocol;
mod standby;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::{Checks, Decision, Key, Outcome, Policy, Receipt, Settlement};

pub use standby::Standby;

/// Keeps state per policy and key, and decides atomically.
///
/// A store receives data, never closures, so that it can decide on another machine. All checks of one call are charged
/// together or not at all, and a denial charges nothing. A denial is an [`Outcome`]; a store returns a [`StoreError`] only if
/// it cannot answer.
pub trait Store: Send + Sync + 'static {
    /// Decides, and charges if all checks fit.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the charge may or may not have been made.
    fn check(&self, checks: Checks) -> StoreFuture<Outcome>;

    /// Like [`check`](Store::check), with a standby that decides the checks that this store cannot.
    ///
    /// The default implementation calls the standby if the whole check fails. It clones the checks and, if the answer has to
    /// be awaited, boxes a continuation. A store whose own future keeps the checks can override it to save both. A store with
    /// several servers overrides it so that the standby decides only the checks whose server has failed.
    ///
    /// # Cancel safety
    ///
    /// As for [`check`](Store::check); the standby may have charged as well.
    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        let kept = checks.clone();
        self.check(checks).map(move |answer| standby.conclude(kept, answer))
    }

    /// Frees the charges of [`Receipt::refund_to`], as far as the state still holds them, and returns a peek.
    ///
    /// If the policy's quota has changed since the charge, call [`Receipt::with_policy`] with the new policy first: under the
    /// old quota the receipt refers to a state that no longer exists.
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision>;

    /// Changes what was charged to `cost`: refunds the difference, the newest units first, or charges it whether it fits or
    /// not. As for a [refund](Store::refund), the receipt must have the current quota. The result has the
    /// [receipt](Receipt::settled) for what is charged then.
    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement>;

    /// Removes the state of a key under a policy: the next check finds the full limit available.
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()>;

    /// Registers a policy before it is used, so that a store can reserve what it needs, or reject the policy while the service
    /// starts. Layers call this when they are built. Registering a policy again has no effect.
    ///
    /// The default accepts all policies.
    ///
    /// # Errors
    ///
    /// If the store cannot keep the policy's states. The message names the policy and the necessary change.
    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        let _ = policy;
        Ok(())
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        (**self).check(checks)
    }

    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        (**self).check_with(checks, standby)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        (**self).refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement> {
        (**self).settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        (**self).reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        (**self).register(policy)
    }
}

/// The answer of a [`Store`], either ready or a boxed future.
///
/// ```
/// use portcullis_core::StoreFuture;
///
/// let there = StoreFuture::ready(Ok(7));
/// assert_eq!(there.into_ready().ok(), Some(Ok(7)));
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct StoreFuture<T>(Inner<T>);

enum Inner<T> {
    Ready(Option<Result<T, StoreError>>),
    Boxed(Boxed<T>),
    Mapped(Boxed<T>, Option<MapFn<T>>),
}

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
type MapFn<T> = Box<dyn FnOnce(Result<T, StoreError>) -> Result<T, StoreError> + Send>;

impl<T> StoreFuture<T> {
    /// An answer that is ready.
    pub const fn ready(answer: Result<T, StoreError>) -> Self {
        Self(Inner::Ready(Some(answer)))
    }

    /// An answer that has to be awaited.
    pub fn boxed(answer: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(Inner::Boxed(Box::pin(answer)))
    }

    /// Applies `next` to the answer, for a store that decorates another.
    ///
    /// If the answer is ready, `next` is called at once, without an allocation. Otherwise `next` is boxed, and the future that
    /// it waits for is not boxed again.
    ///
    /// ```
    /// use portcullis_core::{StoreError, StoreErrorKind, StoreFuture};
    ///
    /// let failed = StoreFuture::<u8>::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "no connection")));
    /// let answer = failed.map(|answer| answer.or(Ok(7)));
    /// assert_eq!(answer.into_ready().ok(), Some(Ok(7)));
    /// ```
    pub fn map(
        self,
        next: impl FnOnce(Result<T, StoreError>) -> Result<T, StoreError> + Send + 'static,
    ) -> Self
    where
        T: 'static,
    {
        match self.0 {
            Inner::Ready(answer) => Self(Inner::Ready(answer.map(next))),
            Inner::Boxed(future) => Self(Inner::Mapped(future, Some(Box::new(next)))),
            Inner::Mapped(future, None) => Self(Inner::Mapped(future, None)),
            Inner::Mapped(future, Some(first)) => {
                Self(Inner::Mapped(future, Some(Box::new(move |answer| next(first(answer))))))
            }
        }
    }

    /// The answer, if it is ready.
    ///
    /// # Errors
    ///
    /// The future itself, if it has to be awaited.
    pub fn into_ready(self) -> Result<Result<T, StoreError>, Self> {
        match self.0 {
            Inner::Ready(Some(answer)) => Ok(answer),
            pending => Err(Self(pending)),
        }
    }
}

impl<T: Unpin> Future for StoreFuture<T> {
    type Output = Result<T, StoreError>;

    /// # Panics
    ///
    /// If polled again after it has answered.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Ready(answer) => Poll::Ready(answer.take().expect(ANSWERED)),
            Inner::Boxed(future) => future.as_mut().poll(context),
            Inner::Mapped(future, next) => {
                future.as_mut().poll(context).map(|answer| next.take().expect(ANSWERED)(answer))
            }
        }
    }
}

impl<T> fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = matches!(self.0, Inner::Ready(_));
        f.debug_struct("StoreFuture").field("ready", &ready).finish()
    }
}

const ANSWERED: &str = "a future is not polled after it has answered";

/// Why a store cannot answer. A denial is never an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Cow<'static, str>,
    outage: Option<Duration>,
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot be reached. Nothing was charged.
    Unavailable,
    /// No answer came in time. Whether the charge was made is unknown.
    TimedOut,
    /// Too many calls are waiting in this process. Nothing was charged.
    Overloaded,
    /// No answer came in time, although calls that were sent later were answered: the connection works, but something is
    /// overloaded. Whether the charge was made is unknown.
    Overtaken,
    /// The store's server does not permit a necessary operation.
    Forbidden,
    /// The store does not support this. The error is permanent until the set-up changes.
    Unsupported,
    /// The answer could not be understood, or the server reported an error.
    Failed,
}

impl StoreErrorKind {
    /// Whether the store is available but overloaded. The request is rejected then: a policy's
    /// [failure mode](crate::FailureMode) is for outages, and load must not open a second budget.
    #[must_use]
    pub const fn is_overload(self) -> bool {
        matches!(self, Self::Overloaded | Self::Overtaken)
    }

    /// Whether the charge may have been made in spite of the error.
    #[must_use]
    pub const fn is_fate_unknown(self) -> bool {
        matches!(self, Self::TimedOut | Self::Overtaken)
    }
}

impl StoreError {
    /// An error with a message for the log: lower case, without a full stop, naming no identity.
    pub fn new(kind: StoreErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), outage: None }
    }

    /// Sets how long the part of the store that was asked has not answered any call.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis_core::{StoreError, StoreErrorKind};
    ///
    /// let error = StoreError::new(StoreErrorKind::Unavailable, "no connection");
    /// assert_eq!(error.outage(), None);
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(error.with_outage(minute).outage(), Some(minute));
    /// ```
    #[must_use]
    pub fn with_outage(self, outage: Duration) -> Self {
        Self { outage: Some(outage), ..self }
    }

    /// The kind of the error.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// How long the part of the store that was asked has not answered any call; `None` if the store does not report it.
    pub const fn outage(&self) -> Option<Duration> {
        self.outage
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use core::task::Waker;

    use super::*;

    fn poll<T: Unpin>(mut future: StoreFuture<T>) -> Poll<Result<T, StoreError>> {
        let mut context = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut future).poll(&mut context);
        Pin::new(&mut future).poll(&mut context)
    }

    async fn later(answer: Result<u8, StoreError>) -> Result<u8, StoreError> {
        let mut waited = false;
        core::future::poll_fn(|_| {
            if core::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        answer
    }

    #[test]
    fn map_calls_each_function_once_and_in_order() {
        let double = |answer: Result<u8, StoreError>| answer.map(|answer| answer * 2);
        let add = |answer: Result<u8, StoreError>| answer.map(|answer| answer + 1);
        let there = StoreFuture::ready(Ok(3)).map(double).map(add);
        assert_eq!(there.into_ready().unwrap(), Ok(7));
        let pending = StoreFuture::boxed(later(Ok(3))).map(double).map(add);
        assert_eq!(poll(pending.into_ready().unwrap_err()), Poll::Ready(Ok(7)));
        let failed = StoreFuture::boxed(later(Err(StoreError::new(StoreErrorKind::Failed, "no"))));
        assert_eq!(poll(failed.map(|answer| answer.or(Ok(1)))), Poll::Ready(Ok(1)));
    }
}
