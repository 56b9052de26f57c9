//! What waits to be repeated: bounded, in the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::time::Instant;

/// Items that wait until they are due.
pub(super) struct Queue<T> {
    waiting: BinaryHeap<Waiting<T>>,
    /// Orders the items of one instant.
    next_number: u64,
}

struct Waiting<T> {
    due: Instant,
    number: u64,
    item: T,
}

/// The first item of a queue.
pub(super) enum First<T> {
    Due(T),
    DueAt(Instant),
    Empty,
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
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.waiting.push(Waiting { due, number, item });
        Ok(())
    }

    /// Takes the first item if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> First<T> {
        match self.waiting.peek().map(|first| first.due) {
            None => First::Empty,
            Some(due) if due > now => First::DueAt(due),
            Some(_) => self.waiting.pop().map_or(First::Empty, |first| First::Due(first.item)),
        }
    }

    /// Makes all items due, in their order.
    pub(super) fn make_all_due(&mut self, now: Instant) {
        let mut waiting = std::mem::take(&mut self.waiting).into_vec();
        for item in &mut waiting {
            item.due = item.due.min(now);
        }
        self.waiting = waiting.into();
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|waiting| &waiting.item)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BinaryHeap::new(), next_number: 0 }
    }
}

/// The greatest item is the one that is due first.
impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Waiting<T> {}

/// Returns how long to wait after this number of attempts, at least 1; `None` if there is no further attempt.
pub(super) fn backoff(attempts: u32) -> Option<Duration> {
    let doublings = attempts.saturating_sub(1).min(16);
    (attempts < MAX_ATTEMPTS).then(|| FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY))
}

/// A settlement takes about 600 bytes, and a receipt with many charges up to 2 KB.
pub(super) const MAX_WAITING: usize = 1_024;

/// The same for releases of permits, each of which took as much memory before: when a proxy in front restarts, all requests that it
/// has in flight end at once.
pub(super) const MAX_RELEASES: usize = 65_536;

/// Together about 90 seconds: longer than a failover, and than the restart of a server.
pub(super) const MAX_ATTEMPTS: u32 = 16;
pub(super) const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn due(queue: &mut Queue<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| match queue.take_due(now) {
            First::Due(item) => Some(item),
            First::DueAt(_) | First::Empty => None,
        })
        .collect()
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
        assert!(matches!(queue.take_due(start), First::Empty));
    }

    #[test]
    fn a_full_queue_returns_the_item() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for item in 0..MAX_WAITING {
            assert_eq!(queue.push(now, item, MAX_WAITING), Ok(()));
        }
        assert_eq!(queue.push(now, 7_777, MAX_WAITING), Err(7_777));
        assert_eq!(queue.items().count(), MAX_WAITING);
    }

    #[test]
    fn the_delays_double_up_to_a_bound_and_end() {
        let delays: Vec<_> = (1..).map_while(backoff).collect();
        assert_eq!(delays.len(), 15);
        assert_eq!(delays[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(delays[14], Duration::from_secs(10));
        assert_eq!(delays.iter().sum::<Duration>(), Duration::from_millis(92_700));
        assert_eq!(backoff(u32::MAX), None);
    }
}
