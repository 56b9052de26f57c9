//! One queue: the waiting requests, and the slots that were charged for them.

use std::collections::BTreeMap;
use std::task::Waker;

use portcullis_core::store::{Outcome, Position};
use portcullis_core::{Decision, Receipt};
use tokio::time::Instant;

/// The requests that wait for slots of one policy, key and cost.
///
/// The slots differ in their time only, so they are assigned when they are due: the first waiting request uses the first slot.
/// When a request leaves, all requests behind it move up without an update of each, and the last slot is spare. There are at
/// least as many slots as waiting requests.
pub(super) struct Queue {
    /// An outcome that was charged for one of the slots, and the index of its check. Receipts are made from it.
    charged: Box<(Outcome, usize)>,
    /// In order of time.
    slots: BTreeMap<SlotId, Instant>,
    /// By number, which is the order of arrival.
    waiters: BTreeMap<u64, Option<Waker>>,
    /// One refund at a time: a slot can be refunded only if no slot is behind it.
    is_refunding: bool,
    /// Whether a request or a slot was added or removed since the refund began.
    has_changed: bool,
}

/// Orders the slots. The number distinguishes slots at the same position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotId {
    pub(super) position: Position,
    pub(super) number: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) id: SlotId,
    pub(super) at: Instant,
}

/// The next action of a request in a queue.
pub(crate) enum Turn {
    /// The request proceeds, in the slot at this position, or in its own slot if there is no position.
    Go(Option<Position>),
    /// The request is polled again at this instant, or when it is woken.
    Wait(Instant),
}

impl Turn {
    /// The turn of a request that has only its own slot.
    pub(crate) fn alone(own: Instant) -> Self {
        if own <= Instant::now() { Self::Go(None) } else { Self::Wait(own) }
    }
}

/// Wakers taken out of a queue, to be woken or dropped without the lock: both can run code of an executor, which may drop
/// another request in the queue.
#[derive(Default)]
#[must_use]
pub(super) struct Wakers {
    first: Option<Waker>,
    unused: Option<Waker>,
}

impl Wakers {
    pub(super) fn wake(self) {
        drop(self.unused);
        self.first.into_iter().for_each(Waker::wake);
    }
}

impl Queue {
    pub(super) fn new(charged: &Outcome, index: usize) -> Self {
        Self {
            charged: Box::new((charged.clone(), index)),
            slots: BTreeMap::new(),
            waiters: BTreeMap::new(),
            is_refunding: false,
            has_changed: false,
        }
    }

    /// Adds a waiting request, with the number of the slot that it was charged for.
    pub(super) fn join(&mut self, slot: Slot) {
        self.forget_past(Instant::now());
        self.slots.insert(slot.id, slot.at);
        self.waiters.insert(slot.id.number, None);
        self.has_changed = true;
    }

    /// Removes a request that stops waiting. `own` is the time of the slot that it was charged for.
    pub(super) fn leave(&mut self, number: u64, own: Instant) -> Wakers {
        let now = Instant::now();
        let was_first = self.is_first(number);
        let unused = self.waiters.remove(&number).flatten();
        // A slot that is due belonged to this request. If the next request used it later, two requests would be close together.
        if (was_first || own <= now)
            && let Some(first) = self.slots.first_entry()
            && *first.get() <= now
        {
            first.remove();
        }
        self.has_changed = true;
        let first = if was_first { self.take_first_waker() } else { None };
        Wakers { first, unused }
    }

    /// Adds slots that no request waits for, except those whose time has passed. Returns the waker of the first request if it
    /// may use one of them.
    pub(super) fn add_spare(&mut self, slots: impl IntoIterator<Item = Slot>) -> Option<Waker> {
        let now = Instant::now();
        let first = self.slots.keys().next().copied();
        self.slots.extend(slots.into_iter().filter(|slot| slot.at > now).map(|Slot { id, at }| (id, at)));
        self.has_changed = true;
        if self.slots.keys().next().copied() == first { None } else { self.take_first_waker() }
    }

    /// Lets a request proceed if it is its turn, which is at the time of its `own` slot at the latest, even if a request ahead
    /// of it is not polled.
    pub(super) fn turn(&mut self, number: u64, own: Instant, waker: &Waker) -> (Turn, Wakers) {
        let now = Instant::now();
        let may_go = self.is_first(number) || own <= now;
        let Some((&id, &at)) = self.slots.first_key_value() else {
            return (Turn::alone(own), Wakers::default());
        };
        if may_go && at <= now {
            self.slots.remove(&id);
            let unused = self.waiters.remove(&number).flatten();
            return (Turn::Go(Some(id.position)), Wakers { first: self.take_first_waker(), unused });
        }
        let unused = match self.waiters.get_mut(&number) {
            Some(kept) if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) => {
                kept.replace(waker.clone())
            }
            _ => None,
        };
        (Turn::Wait(if may_go { at } else { own }), Wakers { first: None, unused })
    }

    /// Takes the last spare slots out, up to the number that a receipt holds.
    pub(super) fn begin_refund(&mut self) -> Option<(Receipt, Vec<Slot>)> {
        if self.is_refunding {
            return None;
        }
        let count = self.spare().min(Receipt::MAX_RUNS);
        let slots: Vec<_> =
            (0..count).map_while(|_| self.slots.pop_last()).map(|(id, at)| Slot { id, at }).collect();
        let mut receipts = slots.iter().filter_map(|slot| self.receipt(slot.id.position));
        let mut receipt = receipts.next()?.if_newest();
        for other in receipts {
            // All receipts have one policy and key, and were charged at one store.
            drop(receipt.absorb(other));
        }
        self.is_refunding = true;
        self.has_changed = false;
        Some((receipt, slots))
    }

    /// Keeps the slots of a refund that were not freed. Without an answer it is unknown which were freed, and all are lost.
    /// Returns whether another refund may free more, and the waker of the first request if it may use an earlier slot.
    pub(super) fn end_refund(
        &mut self,
        slots: Vec<Slot>,
        answer: Option<&Decision>,
    ) -> (bool, Option<Waker>) {
        self.is_refunding = false;
        let Some(decision) = answer else { return (false, None) };
        let count = slots.len();
        let kept: Vec<_> = slots.into_iter().filter(|slot| !is_freed(decision, slot.id.position)).collect();
        let goes_on = self.has_changed || kept.len() < count;
        (goes_on, self.add_spare(kept))
    }

    /// Drops the first spare slot, so that later ones can be refunded. Returns whether there was one.
    pub(super) fn forget_spare(&mut self) -> bool {
        let first = self.slots.keys().nth(self.waiters.len()).copied();
        first.is_some_and(|id| self.slots.remove(&id).is_some())
    }

    /// The number of slots beyond those of waiting requests.
    pub(super) fn spare(&self) -> usize {
        self.slots.len().saturating_sub(self.waiters.len())
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Whether no request waits, no refund is in progress, and all slots have passed.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        self.forget_past(now);
        self.waiters.is_empty() && self.slots.is_empty() && !self.is_refunding
    }

    /// Drops slots that have passed while no request was waiting.
    fn forget_past(&mut self, now: Instant) {
        while self.waiters.is_empty()
            && let Some(first) = self.slots.first_entry()
            && *first.get() <= now
        {
            first.remove();
        }
    }

    fn receipt(&self, position: Position) -> Option<Receipt> {
        let (charged, index) = &*self.charged;
        let policy = charged.checks().iter().nth(*index)?.policy.name();
        let mut receipts = charged.clone().with_position(*index, position).into_receipts();
        receipts.find(|receipt| receipt.policy().name() == policy)
    }

    fn is_first(&self, number: u64) -> bool {
        self.waiters.first_key_value().is_some_and(|(first, _)| *first == number)
    }

    fn take_first_waker(&mut self) -> Option<Waker> {
        self.waiters.first_entry()?.get_mut().take()
    }
}

/// Whether the queue ends before a charge, after a refund of that charge. If not, another charge is behind it.
fn is_freed(decision: &Decision, charge: Position) -> bool {
    let end = decision.at().saturating_add(decision.reset_after());
    // The end is in whole microseconds, rounded up.
    end.as_micros() < charge.micros.saturating_add(u64::from(charge.remainder > 0))
}
