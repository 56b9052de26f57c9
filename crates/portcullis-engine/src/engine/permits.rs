//! Permits of requests in flight: holds them, renews their leases, and releases each once.
//!
//! ```text
//! decision ──► permit ──► end of the response, or of a task ──► release, in the background
//!                │ ▲
//!  every third   ▼ │ extended, or lapsed: an event
//!  of the lease  Store::renew
//! ```

mod permit;
mod renewal;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::store::Outcome;
use portcullis_core::{Policy, PolicyName, Receipt};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::engine::Limits;
use crate::engine::settler::Settler;
use crate::engine::windows::WindowQueueId;
use crate::limit::{HeldUntil, Limit, is_in_flight};
pub use permit::InFlightPermit;
pub use permit::Permits;

/// The permits that are held under the policies of one limiter. Clones share them.
///
/// There is one for each request or check in progress and each policy that limits it, so the stores bound their number: by the limit
/// of a policy for each key. A permit takes less memory than the request that holds it.
#[derive(Clone)]
pub struct InFlight(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    settler: Settler,
    /// Wakes the task that renews leases, because one may be shorter than it was or than the others are.
    changed: Notify,
}

#[derive(Default)]
struct State {
    held: HashMap<u64, Held>,
    /// By the digest of the policy.
    policies: HashMap<u128, HeldPolicy>,
    next_id: u64,
    /// Whether a task renews leases.
    has_runner: bool,
    /// How long that task waits between two renewals.
    interval: Duration,
    /// The shortest interval of a charge since the last renewal. A charge shortens the leases of the permits that its key has to its own
    /// lease, which may be that of a policy before it was replaced.
    shortest: Option<Duration>,
    /// Whether the task of a runtime that has ended begins in another one.
    is_moving: bool,
}

struct Held {
    store: Arc<Limits>,
    receipt: Receipt,
    /// When the lease began, as far as this process knows.
    since: Instant,
    /// The runtime of the request.
    runtime: Option<Handle>,
}

/// A policy under which permits are held.
struct HeldPolicy {
    policy: Policy,
    /// The store of one of the layers.
    store: Arc<Limits>,
    permits: usize,
}

opaque_debug!(InFlight, HeldPermit);

impl InFlight {
    pub(crate) fn new(settler: Settler) -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), settler, changed: Notify::new() }))
    }

    /// Holds the permits that a decision has taken of policies that limit requests in flight.
    pub(crate) fn hold(&self, store: &Arc<Limits>, charged: &Outcome) -> Vec<HeldPermit> {
        if !store.holds_permits() || !charged.is_allowed() {
            return Vec::new();
        }
        let taken = charged.clone().into_receipts();
        let taken = taken.filter(|receipt| is_in_flight(receipt.policy()) && receipt.cost() > 0);
        taken.map(|receipt| self.hold_one(store, receipt)).collect()
    }

    /// The permits that are held.
    pub fn held(&self) -> usize {
        self.0.lock().held.len()
    }

    /// Looks at the leases again: policies were replaced while permits are held.
    pub fn policies_changed(&self) {
        if self.0.lock().has_runner {
            self.0.changed.notify_one();
        }
    }

    fn hold_one(&self, store: &Arc<Limits>, receipt: Receipt) -> HeldPermit {
        let policy = receipt.policy().name().clone();
        let own = |limit: &&Limit| *limit.policy.name() == policy;
        let until = store.policies().iter().find(own).map(|limit| limit.held_until).unwrap_or_default();
        let id = self.0.add(Held {
            store: Arc::clone(store),
            receipt,
            since: Instant::now(),
            runtime: Handle::try_current().ok(),
        });
        HeldPermit { shared: Arc::clone(&self.0), id, until, policy }
    }
}

impl Shared {
    fn add(self: &Arc<Self>, held: Held) -> u64 {
        let interval = held.lease() / RENEWALS;
        let mut state = self.lock();
        state.shortest = Some(state.shortest.map_or(interval, |shortest| shortest.min(interval)));
        let id = state.add(held);
        let (has_runner, is_shorter) = (state.has_runner, interval < state.interval);
        drop(state);
        if !has_runner {
            self.ensure_runner();
        } else if is_shorter {
            self.changed.notify_one();
        }
        id
    }

    /// Releases a permit in the background, unless its lease has lapsed.
    fn release(&self, id: u64) {
        let released = self.lock().remove(id);
        let Some(Held { store, receipt, .. }) = released else { return };
        let queued = receipt.policy().max_wait().map(|_| WindowQueueId::of(receipt.policy(), receipt.key()));
        self.settler.settle(&store, receipt, 0);
        if let Some(id) = queued {
            store.engine().backlog.window_queues.freed(id);
        }
    }

    /// The state is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, held: Held) -> u64 {
        let policy = held.receipt.policy();
        let new = || HeldPolicy { policy: policy.clone(), store: Arc::clone(&held.store), permits: 0 };
        let of_policy = self.policies.entry(policy.digest()).or_insert_with(new);
        of_policy.permits = of_policy.permits.saturating_add(1);
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.held.insert(id, held);
        id
    }

    fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(&id)?;
        if let Entry::Occupied(mut of_policy) = self.policies.entry(held.receipt.policy().digest()) {
            match of_policy.get().permits.saturating_sub(1) {
                0 => drop(of_policy.remove()),
                left => of_policy.get_mut().permits = left,
            }
        }
        Some(held)
    }
}

impl HeldPolicy {
    /// By the lease as it is now.
    fn interval(&self) -> Duration {
        lease_as_of_now(&self.store, &self.policy) / RENEWALS
    }
}

impl Held {
    /// The lease of the charge.
    fn lease(&self) -> Duration {
        self.receipt.policy().strategy().window()
    }
}

/// One permit, released when it is dropped.
pub struct HeldPermit {
    shared: Arc<Shared>,
    id: u64,
    policy: PolicyName,
    until: HeldUntil,
}

impl HeldPermit {
    /// Whether the lease goes on.
    fn is_counted(&self) -> bool {
        let state = self.shared.lock();
        let held = state.held.get(&self.id);
        held.is_some_and(|held| held.since.elapsed() < lease_as_of_now(&held.store, held.receipt.policy()))
    }

    /// The layer that has taken the permit, unless its lease has lapsed.
    fn store(&self) -> Option<Arc<Limits>> {
        self.shared.lock().held.get(&self.id).map(|held| Arc::clone(&held.store))
    }
}

impl Drop for HeldPermit {
    /// A panic, of an observer of events, ends here, because it would abort the process if it left a destructor during another
    /// panic.
    fn drop(&mut self) {
        drop(catch_unwind(AssertUnwindSafe(|| self.shared.release(self.id))));
    }
}

/// The lease of a policy as it is registered now. Its name may belong to a policy of another kind by now.
fn lease_as_of_now(store: &Limits, charged: &Policy) -> Duration {
    let registered = store.engine().policy_as_of_now(charged);
    if is_in_flight(&registered) { registered.strategy().window() } else { charged.strategy().window() }
}

/// How many renewals there are in a lease: two may fail before it ends.
const RENEWALS: u32 = 3;
