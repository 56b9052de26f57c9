//! The scripts: one per set of algorithms in use, assembled from a clock, the algorithms and the driver.

use std::sync::OnceLock;

use portcullis_core::Strategy;

use super::script::Script;
use super::wire::wrote;

/// A Lua function that decides for one or several strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Meter,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
}

impl Function {
    pub(crate) const fn of(strategy: &Strategy) -> Self {
        match strategy {
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => Self::Meter,
            Strategy::FixedWindow(_) => Self::FixedWindow,
            Strategy::SlidingWindow(_) => Self::SlidingWindow,
            Strategy::SlidingLog(_) => Self::SlidingLog,
        }
    }

    /// Its name in Lua.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Meter => "meter",
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingLog => "sliding_log",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Meter => include_str!("../../lua/meter.lua"),
            Self::FixedWindow => include_str!("../../lua/fixed_window.lua"),
            Self::SlidingWindow => include_str!("../../lua/sliding_window.lua"),
            Self::SlidingLog => include_str!("../../lua/sliding_log.lua"),
        }
    }

    const ALL: [Self; 4] = [Self::Meter, Self::FixedWindow, Self::SlidingWindow, Self::SlidingLog];
}

/// The scripts, each of which is made when it is first needed.
#[derive(Debug)]
pub(crate) struct Scripts {
    clock: &'static str,
    /// By the set of functions, as bits in the order of [`Function::ALL`].
    made: [OnceLock<Script>; 1 << Function::ALL.len()],
}

impl Scripts {
    /// Scripts that read the server's clock.
    pub(crate) fn on_server_time() -> Self {
        Self { clock: include_str!("../../lua/server_clock.lua"), made: Default::default() }
    }

    /// Scripts that take the time from the caller.
    #[cfg(feature = "scenario")]
    pub(crate) fn on_scenario_time() -> Self {
        Self { clock: include_str!("../../lua/scenario_clock.lua"), made: Default::default() }
    }

    pub(crate) fn for_strategies<'a>(&self, strategies: impl Iterator<Item = &'a Strategy>) -> &Script {
        let set = strategies.fold(0, |set, strategy| set | 1 << Function::of(strategy) as usize);
        self.made[set].get_or_init(|| Script::new(&self.source(set)).with_write_check(wrote))
    }

    fn source(&self, set: usize) -> String {
        let functions = Function::ALL.into_iter().filter(|function| set & (1 << *function as usize) != 0);
        let mut source = self.clock.to_owned();
        for function in functions {
            source.push_str(function.source());
        }
        source.push_str(include_str!("../../lua/driver.lua"));
        source
    }
}
