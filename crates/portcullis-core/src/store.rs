//! Where state is kept.

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
/// A store is given data, never closures, so that it can decide on another machine. All checks of one call are charged
/// together or not at all, and nothing is charged by a denial. "Limited" is an [`Outcome`]; only a store that cannot
/// answer returns a [`StoreError`].
pub trait Store: Send + Sync + 'static {
    /// Decides, and charges if all checks fit.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may or may not have charged.
    fn check(&self, checks: Checks) -> StoreFuture<Outcome>;

    /// Like [`check`](Store::check), with a standby that decides what this store cannot answer.
    ///
    /// The default asks it when the whole check has failed. It clones the checks and, where the answer has to be awaited, boxes
    /// a continuation. A store whose own future keeps the checks saves both by overriding it; one that is spread over
    /// several servers overrides it to have only those checks decided whose server has failed.
    ///
    /// # Cancel safety
    ///
    /// As for [`check`](Store::check), and the standby may have charged as well.
    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        let kept = checks.clone();
        self.check(checks).map(move |answer| standby.conclude(kept, answer))
    }

    /// Takes charges back, as far as the state still holds them, and peeks: [`Receipt::refund_to`] says what there is to take
    /// back.
    ///
    /// If the policy's quota has changed since the charge, the receipt has to be brought [under](Receipt::with_policy) the new
    /// one first: under the old one it would speak of a state that is no more.
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision>;

    /// Corrects what was charged to `cost`: the difference is taken back, the newest units first, or charged whether it fits
    /// or not. As for a [refund](Store::refund), the receipt is under the present quota. The answer has the
    /// [receipt](Receipt::settled) of what is charged then.
    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement>;

    /// Forgets a key under a policy: the next check finds it as if it had never come.
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()>;

    /// Makes a policy known before it is used, so that a store can set aside what it needs, or refuse it while the service
    /// starts. Layers do this when they are built. To register a policy again does nothing.
    ///
    /// The default accepts all policies.
    ///
    /// # Errors
    ///
    /// If the store cannot keep the policy's states. The message names the policy and what has to be changed.
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

/// The answer of a [`Store`]: there already, or on its way.
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
    Then(Boxed<T>, Option<Next<T>>),
}

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
type Next<T> = Box<dyn FnOnce(Result<T, StoreError>) -> Result<T, StoreError> + Send>;

impl<T> StoreFuture<T> {
    /// An answer that is there already.
    pub const fn ready(answer: Result<T, StoreError>) -> Self {
        Self(Inner::Ready(Some(answer)))
    }

    /// An answer that is on its way.
    pub fn boxed(answer: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(Inner::Boxed(Box::pin(answer)))
    }

    /// The answer that `next` makes of this one: for a store that decorates another.
    ///
    /// An answer that is there already is handed over at once, without an allocation; else `next` is boxed, and the
    /// future that it waits for is not boxed again.
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
            Inner::Boxed(future) => Self(Inner::Then(future, Some(Box::new(next)))),
            Inner::Then(future, None) => Self(Inner::Then(future, None)),
            Inner::Then(future, Some(first)) => {
                Self(Inner::Then(future, Some(Box::new(move |answer| next(first(answer))))))
            }
        }
    }

    /// The answer, if it is there already.
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
            Inner::Then(future, next) => {
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

/// Why a store cannot answer. It is never a verdict.
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
    /// Too much is waiting already, in this process. Nothing was charged.
    Overloaded,
    /// No answer came in time, although calls that were sent later were answered: something is overloaded, and nothing is
    /// gone. Whether the charge was made is unknown.
    Overtaken,
    /// The store's server does not permit what is needed.
    Forbidden,
    /// The store cannot do this, and never will: another set-up is needed.
    Unsupported,
    /// The answer made no sense, or the server reported an error of its own.
    Failed,
}

impl StoreErrorKind {
    /// Whether the store is there and too much is asked of it. The request is rejected then: a policy's
    /// [answer to a failed store](crate::FailureMode) is for outages, and pressure must not open a second budget.
    #[must_use]
    pub const fn is_overload(self) -> bool {
        matches!(self, Self::Overloaded | Self::Overtaken)
    }

    /// Whether the charge may have been made all the same.
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

    /// Says for how long the part of the store that was asked has answered nobody.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis_core::{StoreError, StoreErrorKind};
    ///
    /// let error = StoreError::new(StoreErrorKind::Unavailable, "no connection");
    /// assert_eq!(error.outage(), None);
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(error.lasting(minute).outage(), Some(minute));
    /// ```
    #[must_use]
    pub fn lasting(self, outage: Duration) -> Self {
        Self { outage: Some(outage), ..self }
    }

    /// What kind of error it is.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// For how long the part of the store that was asked has answered nobody; `None` if the store does not say.
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
    fn what_comes_next_is_asked_once_in_order_when_the_answer_is_there() {
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
