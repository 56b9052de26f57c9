//! Bounds the number of open streams, in all and of each actor, and how long a stream may wait for its client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::access::Actor;

/// The streams that are open.
///
/// A place is lost after ten minutes, also if its client reads nothing, so that its body is not polled. Where all are taken, an actor with
/// fewer streams than another one gets the oldest place of the actor that has the most.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    places: Vec<TakenPlace>,
    next: u64,
}

#[derive(Debug)]
struct TakenPlace {
    number: u64,
    actor: Actor,
    since: Instant,
}

/// The place of one stream, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// Takes a place; `None` if all are taken.
    pub(crate) fn take(self: &Arc<Self>, actor: Actor) -> Option<Place> {
        let mut taken = self.lock();
        let now = Instant::now();
        taken.places.retain(|place| place.is_valid(now));
        if taken.places.len() >= MAX_STREAMS {
            let oldest = taken.oldest_of_the_greediest(&actor)?;
            taken.places.remove(oldest);
        }
        let number = taken.next;
        taken.next += 1;
        taken.places.push(TakenPlace { number, actor, since: now });
        Some(Place { places: Arc::clone(self), number })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// The oldest place of the actor that has the most, if it has more than `actor` will have.
    fn oldest_of_the_greediest(&self, actor: &Actor) -> Option<usize> {
        let count = |actor: &Actor| self.places.iter().filter(|place| place.actor == *actor).count();
        let most = self.places.iter().map(|place| count(&place.actor)).max()?;
        let has_most = |place: &TakenPlace| count(&place.actor) == most;
        // They are in the order in which they were taken.
        if most > count(actor) + 1 { self.places.iter().position(has_most) } else { None }
    }
}

impl TakenPlace {
    fn is_valid(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < LIFETIME
    }
}

impl Place {
    /// Whether the stream may go on.
    pub(crate) fn is_valid(&self) -> bool {
        let now = Instant::now();
        self.places.lock().places.iter().any(|place| place.number == self.number && place.is_valid(now))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().places.retain(|place| place.number != self.number);
    }
}

/// How many streams may be open at the same time.
pub(crate) const MAX_STREAMS: usize = 16;

/// A stream ends after ten minutes, so that its client is authorized anew.
const LIFETIME: Duration = Duration::from_secs(600);
