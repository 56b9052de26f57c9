//! Leases: units that one process charges in advance and spends without asking its store.
//!
//! The protocol has no I/O and no clock. A [`KeyLease`] is what one process has in lease of one key under one policy; a caller
//! passes the time, sends what it has to send, and reports the answers. [`Sizing`] decides how much to lease; whatever it
//! decides, the bound below holds.
//!
//! | step | method |
//! |---|---|
//! | take a cost from the lease, without a call | [`KeyLease::spend`] |
//! | undo that, or return a refunded charge | [`KeyLease::put_back`] |
//! | charge a lease together with a request's own cost | [`KeyLease::ask`], then [`granted`](KeyLease::granted) or [`not_granted`](KeyLease::not_granted) |
//! | return what is left | [`KeyLease::take_expired`], [`KeyLease::take`], then [`returned`](KeyLease::returned) |
//! | return what was spent for a denied request, after its lease | [`KeyLease::refunding`], then [`returned`](KeyLease::returned) |
//! | change the quota, remove the key's state | [`KeyLease::adapt`], [`KeyLease::reset`] |
//!
//! # Time
//!
//! Times of the process are durations since any fixed instant of its monotonic clock; times of the store are [`Timestamp`](crate::Timestamp)s. A
//! lease ends after the time that its window had left when it was charged, and after [`MAX_LIFETIME`] at the latest, both
//! counted from before the call was sent. So it ends no later than on the store's clock, however long the call took.
//!
//! # Bound
//!
//! In any period all processes together admit at most what the policy promises, plus the units that are in lease when the
//! period begins: at most the number of processes times the units per lease, and the units of requests that another policy
//! has yet to decide about. Units count as in lease from their charge until a request is admitted with them, or they are refunded at the
//! store, or lost with a process.
//!
//! Proof: each admitted unit was charged in the store once. If it was charged in the period, it counts in the promise; if it was
//! charged before, it was in lease when the period began. Units that are charged before the period and refunded in it, net of
//! which the store's promise holds, were in lease then as well. The positions of refunds are chosen so that units
//! which the store has replenished are not freed again: the n-th spent unit has the position that it would have if the units of the
//! lease had been charged one after the other, and a unit that is spent a second time has the position of the first ones.
//!
//! ```
//! use core::time::Duration;
//! use portcullis_core::lease::{Answer, KeyLease};
//! use portcullis_core::{Policy, Quota, Timestamp};
//!
//! let pages = Policy::fixed_window("pages", Quota::per_minute(100));
//! let (strategy, at) = (pages.strategy(), Timestamp::from_micros(60_000_000));
//! let mut lease = KeyLease::new(*strategy, 10);
//!
//! // A request of cost 1 charges a lease of 10 units as well.
//! let sent = Duration::from_millis(5);
//! assert_eq!(lease.ask(10), 10);
//! let mut state = None;
//! strategy.charge(&mut state, at, 1 + 10);
//! let snapshot = strategy.snapshot(state.as_ref(), at, 11, true);
//! let position = strategy.position(state.as_ref(), at);
//! let answer = Answer { units: 10, sent, at, snapshot, position };
//! assert_eq!(lease.granted(strategy, answer, Duration::from_millis(6)), None);
//!
//! // The next ten requests cost no call.
//! for _ in 0..10 {
//!     let spend = lease.spend(strategy, 1, Duration::from_millis(7)).ok_or("the lease is used up")?;
//!     assert_eq!(spend.snapshot.remaining, 89);
//! }
//! assert!(lease.spend(strategy, 1, Duration::from_millis(7)).is_none());
//! # Ok::<(), &str>(())
//! ```

mod grant;
mod key_lease;
mod sizing;

use core::time::Duration;

pub use grant::{Answer, Returned, Spend};
pub use key_lease::KeyLease;
pub use sizing::Sizing;

/// The longest time for which units are in lease: one second.
pub const MAX_LIFETIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
