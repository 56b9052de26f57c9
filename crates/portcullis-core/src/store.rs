//! Where state is kept.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use crate::{Checks, Decision, Key, Outcome, Policy, Receipt, Settlement};

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

    /// Takes a charge back, as far as the state still holds it, and peeks.
    ///
    /// If the policy's quota has changed since the charge, the receipt has to be brought [under](Receipt::under) the new
    /// one first: under the old one it would speak of a state that is no more.
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision>;

    /// Corrects a charge to `cost`: the difference is taken back, or charged whether it fits or not. As for a
    /// [refund](Store::refund), the receipt is under the present quota.
    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement>;

    /// Forgets a key under a policy: the next check finds it as if it had never come.
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()>;
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
    Boxed(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>),
}

impl<T> StoreFuture<T> {
    /// An answer that is there already.
    pub const fn ready(answer: Result<T, StoreError>) -> Self {
        Self(Inner::Ready(Some(answer)))
    }

    /// An answer that is on its way.
    pub fn boxed(answer: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(Inner::Boxed(Box::pin(answer)))
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
            Inner::Ready(answer) => {
                Poll::Ready(answer.take().expect("a future is not polled after it has answered"))
            }
            Inner::Boxed(future) => future.as_mut().poll(context),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = matches!(self.0, Inner::Ready(_));
        f.debug_struct("StoreFuture").field("ready", &ready).finish()
    }
}

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
    /// Too much is waiting already. Nothing was charged.
    Overloaded,
    /// The store's server does not permit what is needed.
    Forbidden,
    /// The store cannot do this, and never will: another set-up is needed.
    Unsupported,
    /// The answer made no sense, or the server reported an error of its own.
    Failed,
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
