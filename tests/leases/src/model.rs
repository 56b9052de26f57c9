//! The events of the model, and what they do.

use std::time::Duration;

use portcullis_core::lease::{Answer, KeyLease};
use portcullis_core::store::{Refund as Freed, Run};
use portcullis_core::{Strategy, Timestamp};
use stateright::{Model, Property};

use crate::action::{Action, Fate};
use crate::audit::Audit;
use crate::system::{Call, LeasedKey, Process, Receipt, Refund, Source, StoredKey, System};

/// A model of processes that lease the units of keys in a store.
///
/// Time passes in ticks of half a second, so that a lease lasts at most two of them.
#[derive(Clone, Debug)]
pub struct Leases {
    /// The quota at the begin and, if quotas may change, another one.
    pub quotas: Vec<Strategy>,
    /// The units that a rate-based quota replenishes at a time: the same for all quotas.
    pub per_tick: u64,
    /// The number of ticks after which it does so again.
    pub refill: u64,
    /// The number of processes.
    pub processes: usize,
    /// The number of keys.
    pub keys: usize,
    /// The units per lease.
    pub max: u64,
    /// The number of ticks after which time ends.
    pub ticks: u64,
    /// How many faults may happen: lost calls and refunds, crashes, resets, changes of a process's quota.
    pub faults: u8,
    /// How many spent units at a time may be put back later.
    pub receipts: usize,
    /// What the policy promises: the burst, or the limit of a window, the highest of all quotas. The search finds a counterexample if it is too low.
    pub promise: u64,
}

impl Model for Leases {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        let audit = match self.quotas[0] {
            Strategy::FixedWindow(_) => Audit::Window { admitted: 0 },
            Strategy::SlidingWindow(window) => Audit::sliding(&window, TICK),
            _ => Audit::rate(),
        };
        vec![System {
            tick: 0,
            keys: vec![StoredKey { state: None, audit }; self.keys],
            processes: vec![self.started(0); self.processes],
            refunds: Vec::new(),
            receipts: Vec::new(),
            faults: self.faults,
        }]
    }

    fn actions(&self, system: &System, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for (process, Process { quota, keys }) in system.processes.iter().enumerate() {
            for (key, LeasedKey { lease, call }) in keys.iter().enumerate() {
                actions.push(Action::Charge(process, key));
                actions.extend((1..=lease.room()).map(|units| Action::Ask(process, key, units)));
                if lease.unspent() > 0 {
                    let fates = [Fate::Admitted, Fate::Refundable, Fate::Undecided];
                    actions.extend(fates.map(|fate| Action::Spend(process, key, fate)));
                    actions.push(Action::End(process, key));
                }
                match call {
                    Some(Call::Sent { .. }) => actions.push(Action::Arrive(process, key)),
                    Some(Call::Charged { .. }) => actions.push(Action::Reply(process, key)),
                    None => {}
                }
                if system.faults > 0 {
                    actions.push(Action::Reset(process, key));
                    actions.extend(call.as_ref().map(|_| Action::Lose(process, key)));
                }
            }
            if system.faults > 0 {
                actions.push(Action::Crash(process));
                actions.extend(self.quotas.get(quota + 1).map(|_| Action::ChangeQuota(process)));
            }
        }
        actions.extend((0..system.receipts.len()).map(Action::PutBack));
        actions.extend((0..system.refunds.len()).map(Action::Refund));
        if system.faults > 0 {
            let refunds = || 0..system.refunds.len();
            actions.extend(refunds().map(Action::LoseRefund));
            let waits = |index: &usize| system.refunds[*index].process.is_some();
            actions.extend(refunds().filter(waits).map(Action::GiveUpRefund));
        }
    }

    fn next_state(&self, last: &System, action: Action) -> Option<System> {
        let mut system = last.clone();
        self.apply(&mut system, action)?;
        system.sort();
        for key in 0..self.keys {
            let leased = system.leased(key);
            system.keys[key].audit.begin_period(leased);
        }
        Some(system)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(NO_PERIOD, |model: &Self, system: &System| {
                system.keys.iter().all(|key| key.audit.keeps(model.promise))
            }),
            Property::<Self>::always(
                "no process leases more than allowed",
                |model: &Self, system: &System| {
                    let mut leases = system.processes.iter().flat_map(|process| &process.keys);
                    // A request may be denied when the lease that has paid it was replaced.
                    leases.all(|key| key.lease.in_lease() <= model.max + model.receipts as u64)
                },
            ),
            // A refund in doubt, or of a process that has crashed, is in lease until it arrives.
            Property::<Self>::always("a fault adds at most one lease", |model: &Self, system: &System| {
                let faults = u64::from(model.faults - system.faults);
                let most = model.max * (model.processes as u64 + faults) + model.receipts as u64;
                (0..model.keys).all(|key| system.leased(key) <= most)
            }),
            // Otherwise the model would not reach what it has to show.
            Property::<Self>::sometimes("leases are used", |model: &Self, system: &System| {
                system.keys.iter().any(|key| key.audit.uses(model.promise))
            }),
        ]
    }
}

impl Leases {
    /// Applies an event. Returns `None` if it cannot happen now.
    fn apply(&self, system: &mut System, action: Action) -> Option<()> {
        match action {
            Action::Tick => self.tick(system),
            Action::Charge(process, key) => {
                let quota = system.processes[process].quota;
                self.charge(system, key, quota, 1)
            }
            Action::Ask(process, key, units) => ask(system, process, key, units),
            Action::Arrive(process, key) => self.arrive(system, process, key),
            Action::Reply(process, key) => self.reply(system, process, key),
            Action::Lose(process, key) => {
                let held = &mut system.processes[process].keys[key];
                held.call.take()?;
                held.lease.not_granted();
                fault(system)
            }
            Action::Spend(process, key, fate) => self.spend(system, process, key, fate),
            Action::PutBack(index) => {
                self.put_back(system, index);
                Some(())
            }
            Action::End(process, key) => {
                let Process { quota, keys } = &mut system.processes[process];
                let (quota, rest) = (*quota, keys[key].lease.take()?);
                system.send_back(process, key, quota, Some(rest));
                Some(())
            }
            Action::Refund(index) => {
                self.refund(system, index);
                Some(())
            }
            Action::LoseRefund(index) => {
                let Refund { process, key, runs, source, .. } = system.refunds.remove(index);
                answered(system, process, key, &runs, source);
                fault(system)
            }
            Action::GiveUpRefund(index) => {
                let refund = system.refunds.get_mut(index)?;
                let (process, runs) = (refund.process.take(), refund.runs.clone());
                let (key, source) = (refund.key, refund.source);
                answered(system, process, key, &runs, source);
                fault(system)
            }
            Action::Crash(process) => {
                let quota = system.processes[process].quota;
                system.processes[process] = self.started(quota);
                system.receipts.retain(|receipt| receipt.process != process);
                for refund in system.refunds.iter_mut().filter(|refund| refund.process == Some(process)) {
                    refund.process = None;
                }
                fault(system)
            }
            Action::Reset(process, key) => {
                let leased = system.leased(key);
                system.keys[key].state = None;
                system.keys[key].audit.reset(self.promise, leased);
                system.processes[process].keys[key].lease.reset(now(system.tick));
                fault(system)
            }
            Action::ChangeQuota(process) => {
                let quota = system.processes[process].quota + 1;
                let strategy = self.quotas.get(quota)?;
                system.processes[process].quota = quota;
                for key in 0..self.keys {
                    let rest = system.processes[process].keys[key].lease.adapt(strategy, self.max);
                    system.send_back(process, key, quota, rest);
                }
                fault(system)
            }
        }
    }

    fn tick(&self, system: &mut System) -> Option<()> {
        if system.tick == self.ticks {
            return None;
        }
        let before = self.window(system.tick);
        system.tick += 1;
        let begins_window = self.window(system.tick) != before;
        let replenished = if system.tick.is_multiple_of(self.refill) { self.per_tick } else { 0 };
        system.keys.iter_mut().for_each(|key| key.audit.tick(replenished, begins_window));
        Some(())
    }

    /// Charges `cost` units if they fit, of which one is for a request that is admitted with that.
    fn charge(&self, system: &mut System, key: usize, quota: usize, cost: u64) -> Option<()> {
        let (strategy, at) = (&self.quotas[quota], at(system.tick));
        let StoredKey { state, audit } = &mut system.keys[key];
        if !strategy.evaluate(state.as_ref(), at, cost).admitted {
            return None;
        }
        strategy.charge(state, at, cost);
        audit.admit();
        Some(())
    }

    fn arrive(&self, system: &mut System, process: usize, key: usize) -> Option<()> {
        let Some(Call::Sent { units, tick, quota }) = system.processes[process].keys[key].call.take() else {
            return None;
        };
        if self.charge(system, key, quota, 1 + units).is_none() {
            system.processes[process].keys[key].lease.not_granted();
            return Some(());
        }
        let (strategy, at) = (&self.quotas[quota], at(system.tick));
        // The figures do not change what is admitted: without them there are fewer states.
        let snapshot = strategy.snapshot(None, at, 0, true);
        let position = strategy.position(system.keys[key].state.as_ref(), at);
        let answer = Answer { units, sent: now(tick), at, snapshot, position };
        system.processes[process].keys[key].call = Some(Call::Charged { answer, quota });
        Some(())
    }

    fn reply(&self, system: &mut System, process: usize, key: usize) -> Option<()> {
        let now = now(system.tick);
        let Process { quota: current, keys } = &mut system.processes[process];
        let LeasedKey { lease, call } = &mut keys[key];
        let Some(Call::Charged { answer, quota }) = call.take() else { return None };
        let (current, rest) = (*current, lease.granted(&self.quotas[quota], answer, now));
        system.send_back(process, key, current, rest);
        Some(())
    }

    fn spend(&self, system: &mut System, process: usize, key: usize, fate: Fate) -> Option<()> {
        if fate != Fate::Admitted && system.receipts.len() == self.receipts {
            return None;
        }
        let now = now(system.tick);
        let Process { quota, keys } = &mut system.processes[process];
        let run = keys[key].lease.spend(&self.quotas[*quota], 1, now)?.run;
        let is_admitted = fate != Fate::Undecided;
        if is_admitted {
            system.keys[key].audit.admit();
        }
        if fate != Fate::Admitted {
            system.receipts.push(Receipt { process, key, run, is_admitted });
        }
        Some(())
    }

    fn put_back(&self, system: &mut System, index: usize) {
        let Receipt { process, key, run, is_admitted } = system.receipts.remove(index);
        let (now, window) = (now(system.tick), self.window(system.tick));
        let Process { quota, keys } = &mut system.processes[process];
        if keys[key].lease.put_back(run, now) {
            if is_admitted {
                system.keys[key].audit.refund(run, window);
            }
            return;
        }
        let source = if is_admitted { Source::Admitted } else { Source::Denied };
        if source == Source::Denied {
            keys[key].lease.refunding(run.units);
        }
        let refund = Refund { process: Some(process), quota: *quota, key, runs: vec![run], source };
        system.refunds.push(refund);
    }

    fn refund(&self, system: &mut System, index: usize) {
        let Refund { process, quota, key, runs, source } = system.refunds.remove(index);
        let (at, window) = (at(system.tick), self.window(system.tick));
        let StoredKey { state, audit } = &mut system.keys[key];
        self.quotas[quota].refund(state, at, Freed::of(&runs));
        if source == Source::Admitted {
            for run in &runs {
                audit.refund(*run, window);
            }
        }
        answered(system, process, key, &runs, source);
    }

    fn started(&self, quota: usize) -> Process {
        let lease = KeyLease::new(self.quotas[quota], self.max);
        Process { quota, keys: vec![LeasedKey { lease, call: None }; self.keys] }
    }

    /// The position of the window at a tick; the same at all ticks for a rate-based quota.
    fn window(&self, tick: u64) -> u64 {
        let Strategy::FixedWindow(window) = &self.quotas[0] else { return 0 };
        let mut state = None;
        let strategy = Strategy::FixedWindow(*window);
        strategy.charge(&mut state, at(tick), 1);
        strategy.position(state.as_ref(), at(tick)).micros
    }
}

fn ask(system: &mut System, process: usize, key: usize, units: u64) -> Option<()> {
    let Process { quota, keys } = &mut system.processes[process];
    let LeasedKey { lease, call } = &mut keys[key];
    if units > lease.room() {
        return None;
    }
    let units = lease.ask(units);
    *call = Some(Call::Sent { units, tick: system.tick, quota: *quota });
    Some(())
}

/// Tells the process that the refund of units that count as in lease has ended.
fn answered(system: &mut System, process: Option<usize>, key: usize, runs: &[Run], source: Source) {
    if let (Some(process), Source::Rest | Source::Denied) = (process, source) {
        let units = runs.iter().map(|run| run.units).sum();
        system.processes[process].keys[key].lease.returned(units);
    }
}

fn fault(system: &mut System) -> Option<()> {
    system.faults = system.faults.checked_sub(1)?;
    Some(())
}

/// The time of the processes.
fn now(tick: u64) -> Duration {
    TICK * u32::try_from(tick).expect("the numbers of a model are small")
}

/// The time of the store.
fn at(tick: u64) -> Timestamp {
    Timestamp::from_micros(BEGIN).saturating_add(now(tick))
}

/// The property that is the bound.
pub(crate) const NO_PERIOD: &str = "no period admits more than the promise and the units in lease";
const TICK: Duration = Duration::from_millis(500);
/// A multiple of every window in the tests, in microseconds.
const BEGIN: u64 = 3_600_000_000;
