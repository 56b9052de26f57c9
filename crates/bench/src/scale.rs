//! A simulation of many instances that share servers, in simulated time.
//!
//! Requests arrive at random at the instances. Their keys follow Zipf's law. Calls reach a server after half a round trip, and the
//! server runs them one after the other. The rules of the store are simplified: combined calls are as in its documentation, a lease
//! is available as soon as it is asked for, and no limit is ever near. The costs are inputs.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of nanoseconds and decisions, far below 2^52 and not negative"
)]

mod simulation;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

use self::simulation::{END, Simulation};

/// What decisions cost.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Microseconds of a server for a call, without the decisions in it.
    pub call: f64,
    /// Microseconds of a server for a decision.
    pub decision: f64,
    /// Microseconds on the network, to a server and back.
    pub round_trip: f64,
}

/// The instances of an application, their requests, and how they share servers.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of instances of the application.
    pub instances: u32,
    /// Decisions per second of all instances.
    pub rate: f64,
    /// The number of different keys.
    pub keys: u64,
    /// Whether decisions share calls: in a cluster, those of one slot.
    pub combined: bool,
    /// Whether instances lease units of keys with many requests.
    pub leases: bool,
    /// The number of servers; more than one are a cluster.
    pub nodes: u16,
}

/// What a second of requests does to the servers.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The work that the busiest server gets in a second, in seconds. If it is more than 1, calls arrive faster than it answers them.
    pub busiest: f64,
    /// The same, on average over the servers.
    pub mean: f64,
    /// Calls per second.
    pub calls: f64,
    /// The milliseconds within which 99 of 100 decisions are made.
    pub p99: f64,
}

impl Load {
    /// What limits the decisions: nothing while they are made within half of the default deadline. The work of a server does not show
    /// that, because it combines more decisions in a call the busier it is.
    ///
    /// ```
    /// use portcullis_bench::scale::Load;
    ///
    /// let load = |p99, mean| Load { busiest: 1.2, mean, calls: 1e4, p99 };
    /// assert_eq!(load(2.0, 1.2).bottleneck(), None);
    /// assert_eq!(load(40.0, 1.2).bottleneck(), Some("the servers"));
    /// assert_eq!(load(40.0, 0.3).bottleneck(), Some("the server of the hottest keys"));
    /// ```
    pub fn bottleneck(&self) -> Option<&'static str> {
        let is_uneven = self.busiest > 1.5 * self.mean;
        let bottleneck = if is_uneven { "the server of the hottest keys" } else { "the servers" };
        (self.p99 > LONGEST).then_some(bottleneck)
    }
}

/// Simulates a second of requests, after one in which leases and queues form.
///
/// ```
/// use portcullis_bench::scale::{Costs, Setup, simulate};
///
/// let costs = Costs { call: 40.0, decision: 10.0, round_trip: 200.0 };
/// let setup = Setup { instances: 1, rate: 1_000.0, keys: 100, combined: false, leases: false, nodes: 1 };
/// let load = simulate(costs, setup);
/// // A thousand calls of 50 µs.
/// assert!((0.04..0.06).contains(&load.busiest), "{load:?}");
/// ```
pub fn simulate(costs: Costs, setup: Setup) -> Load {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut simulation = Simulation::new(costs, setup);
    let mut at = 0.0;
    loop {
        at -= unit(&mut random).ln() * 1e9 / setup.rate;
        simulation.advance((at as u64).min(END));
        if at as u64 >= END {
            return simulation.load();
        }
        let instance = (random.next_u64() % u64::from(setup.instances)) as u32;
        // The continuous form of Zipf's law with exponent 1.
        let rank = (unit(&mut random) * (setup.keys as f64 + 1.0).ln()).exp() as u64;
        simulation.decide(instance, rank.clamp(1, setup.keys));
    }
}

/// A random number above 0 and at most 1.
fn unit(random: &mut Pcg64Mcg) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Milliseconds: half of the default deadline, because peaks take longer.
const LONGEST: f64 = 25.0;

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { call: 40.0, decision: 10.0, round_trip: 200.0 };
    const SETUP: Setup =
        Setup { instances: 10, rate: 30_000.0, keys: 100_000, combined: false, leases: false, nodes: 1 };

    #[test]
    fn alone_the_load_is_that_of_a_call_per_decision() {
        let load = simulate(COSTS, SETUP);
        assert!((1.4..1.6).contains(&load.busiest), "{load:?}");
        assert!((29_000.0..31_000.0).contains(&load.calls), "{load:?}");
        assert_eq!(load.bottleneck(), Some("the servers"));
    }

    #[test]
    fn combined_calls_carry_what_single_ones_do_not() {
        let load = simulate(COSTS, Setup { combined: true, ..SETUP });
        assert_eq!(load.bottleneck(), None, "{load:?}");
        assert!(load.busiest < 1.1 && load.calls < 25_000.0, "{load:?}");
        // An instance with few requests has nothing to combine.
        let idle = simulate(COSTS, Setup { combined: true, rate: 1_000.0, ..SETUP });
        assert!(idle.calls > 900.0, "{idle:?}");
    }

    #[test]
    fn a_cluster_does_not_divide_a_hot_key() {
        let load = simulate(COSTS, Setup { keys: 1, nodes: 6, ..SETUP });
        assert!(load.busiest > 1.0 && load.mean < 0.3, "{load:?}");
        assert_eq!(load.bottleneck(), Some("the server of the hottest keys"));
        let many = simulate(COSTS, Setup { keys: 10_000_000, nodes: 6, ..SETUP });
        assert_eq!(many.bottleneck(), None, "{many:?}");
    }

    #[test]
    fn leases_of_a_hot_key_save_nearly_all_calls() {
        let load = simulate(COSTS, Setup { keys: 1, leases: true, ..SETUP });
        assert!(load.calls < 30_000.0 / 50.0, "{load:?}");
        assert!(load.p99 < 1e-6, "{load:?}");
    }
}
