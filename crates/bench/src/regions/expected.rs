//! Expected numbers over all keys.

use super::demand::{self, Kind};
use super::{Setup, Span};

/// Expected numbers over all keys, with requests that arrive independently of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// Requests per second.
    pub total: f64,
    /// Requests per second that arrive outside of the region of the home store.
    pub remote: f64,
    /// The milliseconds to the home store and back of such a request and of others, on average.
    pub round_trip: f64,
    /// The milliseconds within which 99 of 100 of all requests would reach the home store and return.
    pub p99: f64,
    /// Keys with requests in a window.
    pub active: f64,
    /// Keys with requests in a window, counted in each region.
    pub active_in_regions: f64,
    /// Keys with requests in a second, counted in each region: the counters that regions have to send.
    pub changed: f64,
    /// Requests per second of keys that are not simulated in regions while these are cut off.
    pub cut: f64,
    /// In how many regions, over all keys that are not simulated, a window has at least `few` requests of the key: an upper bound.
    pub missed: f64,
}

impl Setup {
    /// The expected numbers over all keys, in these spans on average. `few` is a number of requests of a key in a region and window below
    /// which no choice denies or buys: it is for [`Expected::missed`].
    pub fn expected(&self, spans: &[Span], few: u64) -> Expected {
        let mut sum = Expected::default();
        let mut by_region = vec![0.0; self.regions];
        for span in spans {
            let activity = demand::activity(self, span.minute);
            for group in groups(self) {
                group.add(span, &activity, (few, self.window), &mut sum, &mut by_region);
            }
        }
        let spans = spans.len().max(1) as f64;
        let total: f64 = by_region.iter().sum();
        let trips = (0..self.regions).map(|region| self.round_trip(region) as f64 / 1e3);
        let mut trips: Vec<(f64, f64)> = trips.zip(by_region.iter().map(|rate| rate / total)).collect();
        trips.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut above = 0.0;
        let p99 = trips.iter().find(|(_, part)| {
            above += part;
            above > 0.01
        });
        Expected {
            total: total / spans,
            remote: (total - by_region[0]) / spans,
            round_trip: trips.iter().map(|(trip, part)| trip * part).sum(),
            p99: p99.map_or(0.0, |(trip, _)| *trip),
            active: sum.active / spans,
            active_in_regions: sum.active_in_regions / spans,
            changed: sum.changed / spans,
            cut: sum.cut / spans,
            missed: sum.missed / spans,
        }
    }
}

/// Keys of one kind with nearly equal ranks.
struct Group {
    keys: f64,
    /// Requests per second of a key on average.
    rate: f64,
    /// Requests per second of the first key.
    most: f64,
    parts: Vec<f64>,
    is_simulated: bool,
}

/// The keys that are simulated at first one by one, then in groups of a hundredth of their rank, of all kinds in their proportions.
fn groups(setup: &Setup) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut first = 1;
    while first <= setup.keys {
        let is_simulated = first <= setup.exact;
        let most = if is_simulated { setup.exact } else { setup.keys };
        let last = (first + first / 100).min(most);
        let requests = setup.rate / demand::harmonic(setup.keys)
            * (demand::harmonic(last) - if first > 1 { demand::harmonic(first - 1) } else { 0.0 });
        let rate = requests / (last - first + 1) as f64;
        let mut push = |kind: Kind, part: f64| {
            let keys = part * (last - first + 1) as f64;
            let most = demand::rate(setup, first);
            groups.push(Group { keys, rate, most, parts: kind.parts(setup), is_simulated });
        };
        if first == last {
            push(Kind::of(setup, first), 1.0);
        } else {
            for region in 0..setup.regions {
                push(Kind::Local(region), 0.6 / setup.regions as f64);
                push(Kind::three(setup, region), 0.3 / setup.regions as f64);
            }
            push(Kind::Global, 0.1);
        }
        first = last + 1;
    }
    groups
}

impl Group {
    fn add(
        &self,
        span: &Span,
        activity: &[f64],
        (few, seconds): (u64, u64),
        sum: &mut Expected,
        by_region: &mut [f64],
    ) {
        let window = seconds as f64;
        let mut of_all = 0.0;
        for (region, (part, activity)) in self.parts.iter().zip(activity).enumerate() {
            let rate = self.rate * part * activity;
            of_all += rate;
            by_region[region] += self.keys * rate;
            sum.active_in_regions += self.keys * -(-rate * window).exp_m1();
            sum.changed += self.keys * -(-rate).exp_m1();
            if !self.is_simulated {
                sum.cut += self.keys * rate * span.cut_part(region, seconds as u32);
                sum.missed += self.keys * at_least(few as f64, self.most * part * activity * window);
            }
        }
        sum.active += self.keys * -(-of_all * window).exp_m1();
    }
}

/// Chernoff's bound of the probability that at least this number of requests arrives where fewer are expected.
fn at_least(number: f64, expected: f64) -> f64 {
    if number <= expected {
        return 1.0;
    }
    (number - expected - number * (number / expected).ln()).exp()
}
