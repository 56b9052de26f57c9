//! Lock-outs: policies that block the keys of clients which go on after their rejections.

use portcullis_core::overrides::LockOut;

use super::Limit;
use crate::LayerError;
use portcullis_engine::Engine;
use portcullis_engine::policies::reading_overrides;

impl Limit {
    /// Blocks the keys of the policy that are denied again and again: after a number of denials within a time,
    /// all requests with the key are rejected for a time, which doubles with each further block up to a bound. See
    /// [`LockOut`](portcullis_core::overrides::LockOut).
    ///
    /// A request with a blocked key gets 429, in gRPC `RESOURCE_EXHAUSTED`, with `Retry-After` at the end of the block; its reason
    /// is [`Blocked`](crate::Reason::Blocked). It charges nothing, and does not make the block longer. Each beginning of a block is
    /// the event [`LockedOut`](crate::EventKind::LockedOut), without the key.
    ///
    /// **Think of who can cause denials.** Whoever can send a key locks out its owner: by the name of an account, anybody locks out
    /// any user. Use keys that only their owner can send, such as [`ClientIp`](crate::ClientIp) or a verified identity. The guide on
    /// security has a table of keys.
    ///
    /// - **The policy** has the lock-out in all layers of the limiter, and in the [checks](crate::Check) of handlers: their denials
    ///   count, and they reject a blocked key. Another layer may state the same lock-out, and not a different one. It lasts as long
    ///   as a layer has the policy. The policy [allows overrides](portcullis_core::Policy::allow_overrides): its checks read blocks.
    /// - **What counts** is a request that the policy denies and that would fit later, in any algorithm of a rate, also if the denial was
    ///   [remembered](portcullis_core::store::Outcome::is_remembered). What does not count: requests that are denied in
    ///   [shadow](Self::shadow), as all under [`Mode::Off`](crate::Mode::Off) and outside of a [share](Self::enforce); those at a door
    ///   that rejects no request, such as a rate limit service in shadow mode; exempt ones; those with a key that clients
    ///   [share](portcullis_core::Key::is_shared); costs that never fit; requests that are rejected because of another policy alone; and
    ///   those with a blocked key.
    ///   With [`charge_when`](Self::charge_when) failed log-ins use up the limit, and what counts are the denials after that.
    /// - **When a block begins.** A store in memory blocks with the denial that reaches the number. The response to that denial has
    ///   the wait of the limit, and those after it the end of the block. For other stores, denials are
    ///   counted in the process and reported at most once a second per key, in the background, so that no answer is delayed: a block
    ///   begins at most a second, and a call, after that denial. Reports need a tokio runtime with a timer. A report that fails is
    ///   lost and logged, once a minute, and so is one to a [store](portcullis_core::store::Store::record_denials) that keeps no
    ///   blocks; the last second of a process that ends is lost.
    /// - **Bounds.** Per policy up to 16 384 keys are counted between two reports; beyond that a new key takes the place of one with a
    ///   single denial, or is not counted. Up to 32 reports of a policy are in progress at the same time.
    /// - **In an outage** of the store no denial of a [fallback](portcullis_core::FailureMode) is counted, because the fallback has
    ///   a share of the limit, and its own memory of each process.
    /// - **Requests that wait** for a [window](portcullis_core::Policy::wait_at_most) when the block begins are rejected at their turn.
    ///   Those that have a slot in a queue, or are charged already, go on.
    /// - **By hand**, `Limiter::block` and `unblock`.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use std::time::Duration;
    ///
    /// use http::{Request, Response};
    /// use portcullis::layer::LockOut;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{ClientIp, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
    /// let log_ins = Policy::sliding_window("log-ins", Quota::per_minute(5));
    /// let lock_out = LockOut::after(20).within(minute).block_for(minute * 5).up_to(hour * 24);
    /// let layer = testing::limiter(&ManualClock::default()).layer(log_ins.by(ClientIp::peer()).lock_out(lock_out));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let mut waits = Vec::new();
    /// for _ in 0..26 {
    ///     let peer = SocketAddr::from(([192, 0, 2, 1], 1024));
    ///     let response = service.clone().oneshot(Request::builder().extension(peer).body(String::new())?).await?;
    ///     waits.extend(response.headers().get("retry-after").cloned());
    /// }
    /// // Five pass, twenty are denied, and then the address is blocked for five minutes.
    /// assert_eq!((waits.len(), &waits[20]), (21, &300.into()));
    /// assert!(waits[19] != waits[20]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_out(self, lock_out: LockOut) -> Self {
        Self { lock_out: Some(lock_out), ..self }
    }

    /// Registers the lock-out, which all layers with the policy share.
    ///
    /// # Errors
    ///
    /// If another layer has the policy with a different one.
    pub(crate) fn share_lock_out(&mut self, engine: &Engine) -> Result<(), LayerError> {
        if let Some(lock_out) = self.lock_out {
            self.shared_lock_out = Some(engine.set_lock_out(&self.policy, lock_out)?);
            self.policy = reading_overrides(&self.policy)?;
        }
        Ok(())
    }
}
