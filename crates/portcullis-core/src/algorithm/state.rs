//! The state of a key.

mod encoding;

pub use encoding::DecodeStateError;

use super::{CalendarCount, Log, Permits, Slots, Tat, Window};

/// The state of one key under one strategy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// Exhaustive: a store must not compile until it keeps a new kind of state.
pub enum State {
    /// The level of a rate-based algorithm.
    Tat(Tat),
    /// A window that has been charged.
    Window(Window),
    /// A window of a calendar that has been charged.
    CalendarCount(CalendarCount),
    /// The slots of a sliding window.
    Slots(Slots),
    /// The units of a sliding log.
    Log(Log),
    /// The permits of a limit on requests in flight.
    Permits(Permits),
}

impl State {
    /// The number of bytes that the state has on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Tat(_) | Self::Window(_) | Self::CalendarCount(_) => 0,
            Self::Slots(slots) => slots.heap_bytes(),
            Self::Log(log) => log.heap_bytes(),
            Self::Permits(permits) => permits.heap_bytes(),
        }
    }
}
