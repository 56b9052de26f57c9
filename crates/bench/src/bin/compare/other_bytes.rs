//! Bytes per key of what the other table leaves out: states of no contender, records beside a state, and settings that might be
//! thought to make a state larger.

use std::time::Duration;

use anyhow::{Context as _, Result};
use portcullis_bench::server::{Server, key};
use portcullis_core::overrides::LockOut;
use portcullis_core::store::{Checks, Store};
use portcullis_core::{Concurrency, Key, Policy, Quota, StoreError, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_testing::{ManualClock, calendars};
use tokio::runtime::{Builder, Runtime};

use crate::redis_bytes::{Bytes, grown};
use crate::table::{Table, thousands};

/// What is kept for a key.
#[derive(Clone, Copy)]
pub(crate) enum Kept {
    /// The state after a charge of this number of units.
    State(fn() -> Policy, u64),
    Grant,
    Block,
    /// Denials that count towards a lock-out.
    Denials,
}

/// The rows of the table.
pub(crate) const ROWS: [(&str, Kept); 10] = [
    ("GCRA, burst 100", Kept::State(gcra, 1)),
    ("GCRA with a lease", Kept::State(|| gcra().lease(50), 1)),
    ("GCRA with a longest wait and a debt", Kept::State(|| gcra().wait_at_most(MINUTE).allow_debt(1_000), 1)),
    ("calendar window", Kept::State(|| Policy::calendar_window("p", 100, &calendars()[0]), 1)),
    ("requests in flight, 1 of 100", Kept::State(in_flight, 1)),
    ("requests in flight, 10 of 100", Kept::State(in_flight, 10)),
    ("requests in flight, 100 of 100", Kept::State(in_flight, 100)),
    ("a grant, beside the state", Kept::Grant),
    ("a block, beside the state", Kept::Block),
    ("counted denials, beside the state", Kept::Denials),
];

/// Measures all rows in memory and in Redis.
pub(crate) fn measure(server: &mut Server) -> Result<Table> {
    let title = "Bytes per key of other states, and of records beside them";
    let header = ["", "in memory", "in Redis by MEMORY USAGE", "in Redis by used_memory"];
    let (mut table, runtime) = (Table::new("other-bytes", title, &header), runtime()?);
    for (name, kept) in ROWS {
        let Bytes { reported, grown } = grown(server, KEYS, |server, users| {
            let kept = users
                .into_iter()
                .try_for_each(|user| server.runtime.block_on(keep(kept, &server.store, key(user))));
            kept.with_context(|| name)
        })?;
        table.push(name, [in_memory(kept, &runtime), reported, grown].map(thousands));
    }
    Ok(table)
}

/// Bytes per key in memory, with all of the store.
pub(crate) fn in_memory(kept: Kept, runtime: &Runtime) -> f64 {
    if let Kept::State(policy, _) = kept {
        // Makes the table of a calendar, which all keys share.
        drop(policy());
    }
    let mut store = None;
    let allocated = allocation_counter::measure(|| {
        let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
        let builder =
            MemoryStore::builder().clock(clock).swept_per_check(0).override_capacity(10 * KEYS as usize);
        let store = store.insert(builder.build());
        for user in 0..KEYS {
            runtime.block_on(keep(kept, store, key(user))).expect("a memory keeps this");
        }
    });
    allocated.bytes_current as f64 / f64::from(KEYS)
}

pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().build()?)
}

async fn keep(kept: Kept, store: &dyn Store, key: Key) -> Result<(), StoreError> {
    let granted = gcra().allow_overrides();
    match kept {
        Kept::State(policy, cost) => {
            let outcome = store.check(Checks::one(policy(), key, cost)).await?;
            assert!(outcome.is_allowed(), "all fit");
        }
        Kept::Grant => store.set_grant(&granted, key, Some((QUOTA, HOUR))).await?,
        Kept::Block => store.block(&granted, key, HOUR).await?,
        Kept::Denials => {
            let lock_out = LockOut::after(10).within(HOUR).block_for(HOUR);
            let block = store.record_denials(&granted, key, 1, &lock_out).await?;
            assert!(block.is_none(), "one of ten denials");
        }
    }
    Ok(())
}

fn gcra() -> Policy {
    Policy::gcra("p", QUOTA.burst(100))
}

fn in_flight() -> Policy {
    Concurrency::new("p", 100).lease(HOUR).policy()
}

const KEYS: u32 = 10_000;
const QUOTA: Quota = Quota::per_day(100);
const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);
