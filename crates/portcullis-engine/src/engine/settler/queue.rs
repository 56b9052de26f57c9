//! What waits to be repeated: bounded, in the order of time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Items that wait until they are due, by that instant and, at one instant, by their number.
pub(super) struct Queue<T> {
    waiting: BTreeMap<(Instant, u64), T>,
    next_number: u64,
}

impl<T> Queue<T> {
    /// Adds an item that is due at an instant.
    ///
    /// # Errors
    ///
    /// The item, if `most` others wait.
    pub(super) fn push(&mut self, due: Instant, item: T, most: usize) -> Result<(), T> {
        if self.waiting.len() >= most {
            return Err(item);
        }
        self.waiting.insert((due, self.next_number), item);
        self.next_number = self.next_number.wrapping_add(1);
        Ok(())
    }

    /// Takes the first item if it is due.
    ///
    /// # Errors
    ///
    /// When it is due; `None` if the queue is empty.
    pub(super) fn take_due(&mut self, now: Instant) -> Result<T, Option<Instant>> {
        let first = self.waiting.first_entry().ok_or(None)?;
        let (due, _) = *first.key();
        if due > now { Err(Some(due)) } else { Ok(first.remove()) }
    }

    /// Makes all items due, in their order.
    pub(super) fn make_all_due(&mut self, now: Instant) {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        self.waiting = waiting.map(|((due, number), item)| ((due.min(now), number), item)).collect();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next_number: 0 }
    }
}

/// Returns how long to wait after this number of attempts, at least 1; `None` if there is no further attempt.
pub(super) fn backoff(attempts: u32) -> Option<Duration> {
    let doublings = attempts.saturating_sub(1).min(16);
    (attempts < MAX_ATTEMPTS).then(|| FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY))
}

/// A settlement takes about 600 bytes, and a receipt with many charges up to 2 KB.
pub(super) const MAX_WAITING: usize = 1_024;

/// Like [`MAX_WAITING`], but for releases of permits, each of which took as much memory before: when a proxy in front restarts, all
/// requests that it has in flight end at once.
pub(super) const MAX_RELEASES: usize = 65_536;

/// Together about 90 seconds: longer than a failover, and than the restart of a server.
pub(super) const MAX_ATTEMPTS: u32 = 16;
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn due(queue: &mut Queue<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| queue.take_due(now).ok()).collect()
    }

    #[test]
    fn items_leave_in_the_order_of_time() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        for (item, seconds) in [(1, 3), (2, 1), (3, 2), (4, 1)] {
            queue.push(start + Duration::from_secs(seconds), item, MAX_WAITING).unwrap();
        }
        assert!(due(&mut queue, start).is_empty());
        assert_eq!(due(&mut queue, start + Duration::from_secs(1)), [2, 4]);
        queue.make_all_due(start);
        assert_eq!(due(&mut queue, start), [1, 3]);
        assert_eq!(queue.take_due(start), Err(None));
    }

    #[test]
    fn full_queue_returns_the_item() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for item in 0..MAX_WAITING {
            assert_eq!(queue.push(now, item, MAX_WAITING), Ok(()));
        }
        assert_eq!(queue.push(now, 7_777, MAX_WAITING), Err(7_777));
        assert_eq!(queue.waiting.len(), MAX_WAITING);
    }

    #[test]
    fn delays_double_up_to_a_bound_and_end() {
        let delays: Vec<_> = (1..).map_while(backoff).collect();
        assert_eq!(delays.len(), 15);
        assert_eq!(delays[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(delays[14], Duration::from_secs(10));
        assert_eq!(delays.iter().sum::<Duration>(), Duration::from_millis(92_700));
        assert_eq!(backoff(u32::MAX), None);
    }
}
