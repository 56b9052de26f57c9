//! States of a fixed size, as tables store them.

use portcullis_core::algorithm::{CalendarCount, State, Tat, Window};

use super::windows::{Lengths, SlotCounts, WindowCount};
use crate::table::{Align32, Value};

/// A state of a fixed size, which a call copies, and of which the table stores nothing else.
pub(crate) trait SmallEntry: Copy + Value {
    /// Returns `None` for a state of another kind.
    fn of(state: &State, lengths: &Lengths) -> Option<Self>;

    fn state(self, lengths: &Lengths) -> State;
}

/// What a table stores of a state of an algorithm.
pub(crate) trait StoredState<S>: Copy + Value {
    fn load(self, lengths: &Lengths) -> S;

    /// Returns `None` if there is no room for the length of a window, or for a remainder.
    fn store(state: S, lengths: &Lengths) -> Option<Self>;
}

/// The level of a rate-based algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    pub(super) micros: u64,
    pub(super) remainder: u64,
}

/// A level of whole microseconds, which all levels are whose emission interval is: those of nearly all quotas.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeLevel {
    pub(super) micros: u64,
}

/// The count of a calendar window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberedCount {
    pub(super) window: u64,
    pub(super) end: u64,
    pub(super) count: u64,
}

/// Makes a type what tables store of a state.
macro_rules! stored_state {
    ($stored:ident of $state:ident, $align:ty, $load:expr, $store:expr) => {
        impl Value for $stored {
            type Align = $align;
        }

        impl SmallEntry for $stored {
            #[inline]
            fn of(state: &State, lengths: &Lengths) -> Option<Self> {
                if let State::$state(state) = state { Self::store(*state, lengths) } else { None }
            }

            #[inline]
            fn state(self, lengths: &Lengths) -> State {
                State::$state(self.load(lengths))
            }
        }

        impl StoredState<$state> for $stored {
            #[inline]
            fn load(self, lengths: &Lengths) -> $state {
                let load: fn($stored, &Lengths) -> $state = $load;
                load(self, lengths)
            }

            #[inline]
            fn store(state: $state, lengths: &Lengths) -> Option<Self> {
                let store: fn($state, &Lengths) -> Option<$stored> = $store;
                store(state, lengths)
            }
        }
    };
}

impl Value for SlotCounts {
    type Align = Align32;
}

impl SmallEntry for SlotCounts {
    fn of(state: &State, lengths: &Lengths) -> Option<Self> {
        if let State::Slots(slots) = state { Self::new(slots, lengths) } else { None }
    }

    fn state(self, lengths: &Lengths) -> State {
        State::Slots(self.slots(lengths))
    }
}

stored_state!(
    WholeLevel of Tat, (),
    |WholeLevel { micros }, _| Tat { micros, remainder: 0 },
    |Tat { micros, remainder }, _| (remainder == 0).then_some(WholeLevel { micros })
);
stored_state!(
    Level of Tat, Align32,
    |Level { micros, remainder }, _| Tat { micros, remainder },
    |Tat { micros, remainder }, _| Some(Level { micros, remainder })
);
stored_state!(WindowCount of Window, Align32, WindowCount::window, WindowCount::new);
stored_state!(
    NumberedCount of CalendarCount, (),
    |NumberedCount { window, end, count }, _| CalendarCount { window, end, count },
    |CalendarCount { window, end, count }, _| Some(NumberedCount { window, end, count })
);
