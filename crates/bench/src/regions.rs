//! A simulation of regions that share limits, in simulated time.
//!
//! A limit is a number of units per window and key, in fixed windows, and every request costs one unit. The keys follow Zipf's law.
//! They are independent of each other, so that one is simulated after the other, in memory that does not depend on their number.
//! The keys with most requests are simulated request by request. The others are too rare for a limit: only expected numbers of calls, of
//! states, and of requests that a central store in a cut denies are calculated.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of units, keys and microseconds, far below 2^52 and not negative"
)]

mod choices;
mod decider;
mod demand;
mod expected;
mod leases;
mod reports;
mod run;

pub use self::expected::Expected;

/// The regions, and the requests to them.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of regions, at least 2. The home store is in the first one.
    pub regions: usize,
    /// The number of different keys.
    pub keys: u64,
    /// Requests per second of all keys in all regions, on average over the day.
    pub rate: f64,
    /// Seconds of a window.
    pub window: u64,
    /// Units per window and key.
    pub limit: u64,
    /// The number of keys that are simulated request by request.
    pub exact: u64,
}

/// How regions keep a limit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Each decision is a call to the home store. A region that is cut off denies.
    Central,
    /// Each decision is a call to the home store. A region that is cut off decides on its own under the whole limit.
    CentralOrLocal,
    /// Each region has an equal part of the limit.
    Shares,
    /// Each region has an equal part of this percentage of the limit, and buys from the rest, which the home store has.
    Leases {
        /// At most 100.
        set_aside: u8,
    },
    /// Each region counts, and sends its counters to all others each second.
    Counters,
    /// Each region counts, and reports what it has counted to the home store, whose answer is the sum of all: as soon as that is a fifth of
    /// the limit, and otherwise each five seconds. It denies by the last known sum and what it has counted since.
    Reports,
}

/// A few minutes of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins, in minutes of the day.
    pub minute: u32,
    /// Its length in windows. The first one is not counted.
    pub windows: u32,
    /// The regions that reach no other one for a time.
    pub cut: Option<Cut>,
}

/// Regions that reach no other one, neither the home store nor each other, for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first one; not 0, which is the region of the home store.
    pub first: usize,
    /// Their number, from the first one on.
    pub regions: usize,
    /// When it begins, in seconds of the span.
    pub begin: u32,
    /// When it ends.
    pub end: u32,
}

/// What a choice did, in the windows that count.
///
/// The reference is a central store that answers without delay and is never cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Units that it admitted.
    pub admitted: u64,
    /// Units that it admitted beyond the limit of a key and window.
    pub beyond: u64,
    /// The most of them in one window of one key.
    pub worst: u64,
    /// Requests that it denied while the reference admitted them.
    pub wrongly_denied: u64,
    /// Units of the limit that no client got although there was demand: what the reference admitted in the window beyond what the
    /// choice admitted.
    pub unused: u64,
    /// Calls between regions for decisions and purchases of the keys that are simulated.
    pub calls: u64,
    /// Windows of a key in which its home share was asked for units.
    pub bought: u64,
    /// Windows of a key and region in which the region asked for units.
    pub buyers: u64,
}

/// The figures of several choices for the same requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seconds that count.
    pub seconds: u64,
    /// Requests of the keys that are simulated.
    pub requests: u64,
    /// What the reference admitted of them.
    pub admitted: u64,
    /// The figures of each choice.
    pub figures: Vec<Figures>,
}

impl Setup {
    /// The length of a window in microseconds.
    const fn window_micros(&self) -> u64 {
        self.window * SECOND
    }

    /// Microseconds from a region to the home store and back: 60 ms from the nearest, 200 ms from the farthest. In the region of the home
    /// store it is 1 ms.
    ///
    /// ```
    /// use portcullis_bench::regions::Setup;
    ///
    /// let setup = Setup { regions: 20, keys: 1, rate: 1.0, window: 60, limit: 1, exact: 1 };
    /// assert_eq!([0, 1, 19].map(|region| setup.round_trip(region)), [1_000, 60_000, 200_000]);
    /// ```
    pub fn round_trip(&self, region: usize) -> u64 {
        match (region, self.regions) {
            (0, _) => 1_000,
            (_, ..=2) => 60_000,
            (_, regions) => 60_000 + 140_000 * (region as u64 - 1) / (regions as u64 - 2),
        }
    }
}

impl Span {
    fn is_cut(&self, region: usize, at: u64) -> bool {
        let Some(cut) = self.cut else { return false };
        let second = (at / SECOND) as u32;
        cut.contains(region) && (cut.begin..cut.end).contains(&second)
    }

    /// The part of the time that counts in which a region is cut off.
    fn cut_part(&self, region: usize, window: u32) -> f64 {
        let (begin, end) = (window, self.windows * window);
        let Some(cut) = self.cut.filter(|cut| cut.contains(region)) else { return 0.0 };
        let cut = cut.end.min(end).saturating_sub(cut.begin.max(begin));
        f64::from(cut) / f64::from(end.saturating_sub(begin).max(1))
    }
}

impl Cut {
    fn contains(&self, region: usize) -> bool {
        (self.first..self.first + self.regions).contains(&region)
    }
}

/// All instants are in microseconds since the begin of a span.
const SECOND: u64 = 1_000_000;

#[cfg(test)]
mod tests;
