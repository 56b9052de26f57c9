//! An instance of the service: its engine, over its way to the states.

use std::sync::Arc;

use portcullis_core::store::Store;
use portcullis_core::{ManualClock, Policy};
use portcullis_engine::{Engine, Limit, Limits};
use portcullis_memory::{Fallback, InstanceShare, MemoryStore};

use super::leased::Leased;
use super::reach::Reach;
use crate::scene::{LaneSettings, StoreKind};

/// The Redis that the instances share: a store in memory that can be cut off.
pub(super) type Redis = Reach<MemoryStore<Arc<ManualClock>>>;

pub(super) struct Instance {
    pub(super) limits: Arc<Limits>,
    /// The policies as the states have them.
    policies: Vec<Policy>,
    leases: Option<Arc<Leased<Redis>>>,
    own: Option<Arc<InstanceShare<Arc<ManualClock>>>>,
}

impl Instance {
    pub(super) fn new(
        settings: &LaneSettings,
        redis: Redis,
        clock: &Arc<ManualClock>,
    ) -> Result<Self, String> {
        let policies: Vec<_> = settings.limits.iter().map(|limit| limit.policy.clone()).collect();
        let (mut in_front, mut own) = (None, None);
        let store: Arc<dyn Store> = match settings.store {
            StoreKind::Share => {
                let share = Arc::new(InstanceShare::new(super::memory(clock), settings.instances));
                own = Some(Arc::clone(&share));
                Arc::new(Reach::within(share))
            }
            StoreKind::Shared => {
                let leased = Arc::new(Leased::new(redis, Arc::clone(clock)));
                in_front = Some(Arc::clone(&leased));
                let fallback = Fallback::builder(leased).clock(ManualClock::clone(clock)).build();
                Arc::new(Reach::within(Arc::new(fallback)))
            }
        };
        let engine = Arc::new(Engine::with_clock(store, Arc::clone(clock) as Arc<_>));
        for policy in &policies {
            // What a store refuses is all that can be wrong. An error of the engine would bring the texts of all layers into the program.
            engine.store().register(policy).map_err(|error| error.to_string())?;
            engine.register(policy).expect("the store takes it, and no other has its name");
        }
        let limits = policies.iter().cloned().map(Limit::new).collect();
        let instances = std::num::NonZeroU32::new(settings.instances).unwrap_or(std::num::NonZeroU32::MIN);
        let share = |policy: &Policy| policy.share_among(instances).unwrap_or_else(|_| policy.clone());
        let policies = if own.is_some() { policies.iter().map(share).collect() } else { policies };
        Ok(Self { limits: Arc::new(Limits::new(engine, limits)), policies, leases: in_front, own })
    }

    /// A policy as the states have it: an instance alone has a share.
    pub(super) fn policy(&self, limit: usize) -> &Policy {
        &self.policies[limit]
    }

    /// The states that only this instance has.
    pub(super) fn own_states(&self) -> Option<&MemoryStore<Arc<ManualClock>>> {
        self.own.as_ref().map(|share| share.get_ref())
    }

    pub(super) fn return_leases(&self) {
        if let Some(leases) = &self.leases {
            leases.return_expired();
        }
    }

    /// The units that are in lease.
    pub(super) fn in_lease(&self) -> u64 {
        self.leases.as_ref().map_or(0, |leases| leases.in_lease())
    }
}
