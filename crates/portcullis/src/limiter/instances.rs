//! Limiters of instances that share no store.

use portcullis_memory::{InstanceShare, MemoryStore};

use super::Limiter;

impl Limiter {
    /// Like [`Limiter::memory`], for a service that runs as this number of instances without a shared store: each limit is divided
    /// by it, and each instance enforces its share. With 1, each enforces the whole limit, as by [`Limiter::memory`].
    ///
    /// Policies keep the whole limit, and the number is in this one place, so that a change to `Limiter::redis` changes nothing else.
    /// Headers and decisions have the figures of the instance, since they are what its next answer depends on; `RateLimit-Policy` has
    /// the whole limit. See [`Policy::share`](crate::Policy::share) for the share of each algorithm.
    ///
    /// It is exact only if each client's requests are spread evenly over exactly this number of instances. A client that reaches a
    /// single instance is limited to one share, and twice as many instances admit twice the limit.
    /// A cost above the share is rejected with 400.
    ///
    /// A number from the environment is parsed to a [`NonZeroU32`](std::num::NonZeroU32), whose [`get`](std::num::NonZeroU32::get) is at least 1.
    ///
    /// For other bounds of the memory, use [`InstanceShare`](crate::store::InstanceShare) and [`Limiter::new`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::memory_among(4);
    /// let exports = Policy::fixed_window("exports", Quota::per_day(100));
    /// let ada = limiter.key(|key| key.part("user", b"ada"))?;
    /// assert_eq!(limiter.peek(&exports, ada).await?.remaining(), 25);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `instances` is zero, or the operating system provides no random bytes. A policy whose share takes too long to replenish is
    /// an error of [`Limiter::try_layer`].
    #[track_caller]
    pub fn memory_among(instances: u32) -> Self {
        Self::in_process(InstanceShare::new(MemoryStore::new(), instances))
    }
}
