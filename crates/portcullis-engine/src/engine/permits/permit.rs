//! The permits of one request, which its charge and its response share, and the guard for tasks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::PolicyName;

use super::HeldPermit;
use crate::engine::Limits;
use crate::limit::HeldUntil;

/// The permits of a request that is admitted, which its `Charge` and its response share.
#[derive(Clone)]
pub struct Permits(Arc<Mutex<Slot>>);

struct Slot {
    permits: Vec<HeldPermit>,
    /// Whether the request asks for a tunnel.
    is_connect: bool,
}

opaque_debug!(Permits);

impl Permits {
    /// `is_connect` is whether the request asks for a tunnel.
    pub fn new(permits: Vec<HeldPermit>, is_connect: bool) -> Self {
        Self(Arc::new(Mutex::new(Slot { permits, is_connect })))
    }

    /// Moves the permits of one policy, or all, into a guard.
    pub fn take_permit(&self, policy: Option<&PolicyName>) -> Option<InFlightPermit> {
        let taken = self.take_if(|permit| policy.is_none_or(|policy| permit.policy == *policy));
        (!taken.is_empty()).then_some(InFlightPermit(taken))
    }

    /// Releases the permits that are held until there are headers.
    pub fn release_at_headers(&self) {
        drop(self.take_if(|permit| permit.until == HeldUntil::Headers));
    }

    /// Releases all permits.
    pub fn release(&self) {
        drop(self.take_if(|_| true));
    }

    /// Whether the request asks for a tunnel.
    pub fn is_connect(&self) -> bool {
        self.lock().is_connect
    }

    /// The layer and the policy of a permit that nothing can hold any more, because no charge of the request is left.
    pub fn unreachable(&self) -> Option<(Arc<Limits>, PolicyName)> {
        let is_last = Arc::strong_count(&self.0) == 1;
        let slot = is_last.then(|| self.lock())?;
        slot.permits.iter().find_map(|permit| Some((permit.store()?, permit.policy.clone())))
    }

    /// Not dropped under the lock, because a release calls observers.
    fn take_if(&self, is_taken: impl Fn(&HeldPermit) -> bool) -> Vec<HeldPermit> {
        let mut slot = self.lock();
        let (taken, kept) = std::mem::take(&mut slot.permits).into_iter().partition(is_taken);
        slot.permits = kept;
        taken
    }

    /// The slot is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of a request in flight, for a task that outlives the response. Made by `Charge::take_permit`.
///
/// As long as it exists, the request counts as in flight, and its lease is renewed. It is released when it is dropped, once, in the
/// background: a release that the store has not made is repeated, and `Limiter::drain` waits for it.
///
/// ```
/// use http::{Request, Response};
/// use portcullis::key::Global;
/// use portcullis::layer::Concurrency;
/// use portcullis::{Charge, Limiter, PolicyExt as _};
/// use tokio::sync::mpsc;
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let exports = Concurrency::new("exports", 1);
/// let (permits, mut tasks) = mpsc::channel(1);
/// let service = Limiter::memory().layer(exports.by(Global)).layer(service_fn(move |request: Request<String>| {
///     let permit = request.extensions().get::<Charge>().and_then(Charge::take_permit);
///     permits.try_send(permit).expect("the channel has room");
///     async { Ok::<_, std::convert::Infallible>(Response::new(String::from("accepted"))) }
/// }));
/// let request = || Request::new(String::new());
/// assert_eq!(service.clone().oneshot(request()).await?.status(), 200);
/// let permit = tasks.recv().await; // by the task that does the work
/// assert_eq!(service.clone().oneshot(request()).await?.status(), 429);
/// drop(permit);
/// assert_eq!(service.oneshot(request()).await?.status(), 200);
/// # Ok(())
/// # }
/// ```
#[must_use = "the permit is released when it is dropped"]
pub struct InFlightPermit(Vec<HeldPermit>);

impl InFlightPermit {
    /// Returns the names of the policies whose permits it holds.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyName> {
        self.0.iter().map(|permit| &permit.policy)
    }

    /// Whether a lease has lapsed: the store could not be asked to renew it in time, so it counts the task no longer, and may admit
    /// another one in its place. A task that must not run beside another one asks from time to time, and stops then.
    ///
    /// It is `true` once the lease has ended by the clock of this process, during an outage as well, or the store has
    /// reported it, which emits [`EventKind::PermitLapsed`](crate::EventKind::PermitLapsed). The first lease counts from the answer of the
    /// store, later ones from the call that renews them.
    pub fn has_lapsed(&self) -> bool {
        !self.0.iter().all(HeldPermit::is_counted)
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightPermit").field(&self.policies().collect::<Vec<_>>()).finish()
    }
}
