//! The answer of a store.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::StoreError;

/// The answer of a [`Store`](crate::store::Store), either ready or a boxed future.
///
/// ```
/// use portcullis::store::StoreFuture;
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
    #[inline]
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
    /// use portcullis::StoreError;
    /// use portcullis::store::{StoreErrorKind, StoreFuture};
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

    /// The answer, if it is ready, in its place.
    ///
    /// ```
    /// use portcullis::store::StoreFuture;
    ///
    /// assert_eq!(StoreFuture::ready(Ok(7)).as_ready(), Some(&Ok(7)));
    /// ```
    #[inline]
    pub const fn as_ready(&self) -> Option<&Result<T, StoreError>> {
        match &self.0 {
            Inner::Ready(answer) => answer.as_ref(),
            Inner::Boxed(_) | Inner::Mapped(..) => None,
        }
    }

    /// Takes the answer from its place, if it is ready. A future whose answer was taken panics if it is polled.
    ///
    /// ```
    /// use portcullis::store::StoreFuture;
    ///
    /// let mut there = StoreFuture::ready(Ok(7));
    /// assert_eq!(there.take_ready(), Some(Ok(7)));
    /// assert_eq!(there.take_ready(), None);
    /// ```
    #[inline]
    pub const fn take_ready(&mut self) -> Option<Result<T, StoreError>> {
        match &mut self.0 {
            Inner::Ready(answer) => answer.take(),
            Inner::Boxed(_) | Inner::Mapped(..) => None,
        }
    }

    /// The answer, if it is ready.
    ///
    /// # Errors
    ///
    /// The future itself, if it has to be awaited.
    #[inline]
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
    #[inline]
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

#[cfg(test)]
mod tests {
    use crate::StoreErrorKind;
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
