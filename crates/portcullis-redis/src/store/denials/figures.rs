//! What the memory reports about itself.

use super::DenialMemory;
use crate::lock::lock;

impl DenialMemory {
    /// The number of denials that are valid now. Locks each shard for a part of its entries at a time.
    pub(in crate::store) fn entries(&self) -> u64 {
        let Some(now) = self.now_before(&self.until) else { return 0 };
        let mut count = 0;
        for shard in &self.shards {
            let mut start = 0;
            while let Some((valid, next)) = lock(shard).count_valid(start..start + ENTRIES_AT_ONCE, now) {
                count += valid;
                start = next;
            }
        }
        count
    }

    /// The decisions that were denied by the memory.
    pub(in crate::store) fn hits(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).hits).sum()
    }
}

/// Inspecting an entry takes about a nanosecond.
const ENTRIES_AT_ONCE: usize = 512;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::store::Checks;
    use portcullis_core::{Policy, Quota};
    use tokio::time::{Instant, advance};

    use super::super::tests::{check, key, remember};
    use super::*;

    const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(10));

    #[tokio::test(start_paused = true)]
    async fn entries_and_hits_are_counted() {
        let memory = DenialMemory::new(4_096);
        assert_eq!((memory.entries(), memory.hits()), (0, 0));
        for user in 0..40 {
            assert!(remember(&memory, &check(&HOURLY, &user.to_string(), 1), Instant::now()));
        }
        assert_eq!((memory.entries(), memory.hits()), (40, 0));

        let one = |user: &str| Checks::one(HOURLY, key(user), 1);
        for checks in [one("0"), one("0").and(HOURLY, key("1"), 1).unwrap()] {
            assert!(memory.find(&checks).is_some() && memory.denies(&checks));
        }
        assert!(memory.find(&one("40")).is_none());
        assert_eq!((memory.entries(), memory.hits()), (40, 2), "a decision counts once");

        memory.correct(&HOURLY, key("0")).answered();
        assert_eq!(memory.entries(), 39);
        advance(Duration::from_secs(2)).await;
        assert_eq!((memory.entries(), memory.hits()), (0, 2));
    }
}
