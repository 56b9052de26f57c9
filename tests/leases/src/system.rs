//! A state of the model: the store, the processes, and what is on its way between them.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use portcullis_core::algorithm::State;
use portcullis_core::lease::{Answer, KeyLease, Returned};
use portcullis_core::store::Run;

use crate::audit::Audit;

/// The store, the processes, and what is on its way between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct System {
    pub(crate) tick: u64,
    pub(crate) keys: Vec<StoredKey>,
    pub(crate) processes: Vec<Process>,
    /// Refunds that the store has not made yet.
    pub(crate) refunds: Vec<Refund>,
    /// Units that were spent and may be put back.
    pub(crate) receipts: Vec<Receipt>,
    /// Faults that may still happen.
    pub(crate) faults: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoredKey {
    pub(crate) state: Option<State>,
    pub(crate) audit: Audit,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// The index of the quota that the process uses.
    pub(crate) quota: usize,
    pub(crate) keys: Vec<LeasedKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeasedKey {
    pub(crate) lease: KeyLease,
    pub(crate) call: Option<Call>,
}

/// A call with units for a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// The store has not received it.
    Sent { units: u64, tick: u64, quota: usize },
    /// The store has charged it, and the process has no reply.
    Charged { answer: Answer, quota: usize },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Refund {
    /// `None` if the process has crashed since.
    pub(crate) process: Option<usize>,
    pub(crate) quota: usize,
    pub(crate) key: usize,
    pub(crate) runs: Vec<Run>,
    pub(crate) source: Source,
}

/// Where the units of a refund come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// They are the rest of a lease.
    Rest,
    /// They were spent for a request that was denied.
    Denied,
    /// They were spent for a request that was admitted.
    Admitted,
}

/// One unit that was spent from a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Receipt {
    pub(crate) process: usize,
    pub(crate) key: usize,
    pub(crate) run: Run,
    pub(crate) is_admitted: bool,
}

impl System {
    /// The units of a key that were charged, and can still be spent or refunded without having been admitted.
    pub(crate) fn leased(&self, key: usize) -> u64 {
        let held = self.processes.iter().map(|process| {
            let LeasedKey { lease, call } = &process.keys[key];
            let charged = match call {
                Some(Call::Charged { answer, .. }) => answer.units,
                Some(Call::Sent { .. }) | None => 0,
            };
            lease.unspent() + charged
        });
        let refunds = self
            .refunds
            .iter()
            .filter(|refund| refund.key == key && matches!(refund.source, Source::Rest | Source::Denied));
        let refunded = refunds.flat_map(|refund| &refund.runs).map(|run| run.units);
        let undecided = self.receipts.iter().filter(|receipt| receipt.key == key && !receipt.is_admitted);
        held.chain(refunded).chain(undecided.map(|receipt| receipt.run.units)).sum()
    }

    /// Orders what has no order, so that states that differ only in it are one.
    pub(crate) fn sort(&mut self) {
        self.refunds.sort_by_cached_key(hash);
        self.receipts.sort_by_cached_key(hash);
    }

    /// Sends the rest of a lease back to the store.
    pub(crate) fn send_back(&mut self, process: usize, key: usize, quota: usize, rest: Option<Returned>) {
        let Some(rest) = rest else { return };
        let runs = rest.runs().to_vec();
        self.refunds.push(Refund { process: Some(process), quota, key, runs, source: Source::Rest });
    }
}

/// Equal for equal values, in every run.
fn hash(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}
