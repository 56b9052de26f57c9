//! Counters of a policy that are made when they are needed.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use metrics::{Counter, Histogram};

use crate::handles::Handles;
use crate::labels::{Labels, Unlabelled};

/// Whose series they are.
pub(crate) struct Owner {
    handles: Handles,
    policy: String,
}

impl Owner {
    pub(crate) fn new(handles: &Handles, policy: &str) -> Self {
        Self { handles: handles.clone(), policy: policy.to_owned() }
    }

    /// The series of a metric, none of which exists yet.
    pub(crate) fn series<L: Labels>(self: &Arc<Self>, name: &'static str) -> Series<L> {
        let counters = L::TEXTS.iter().map(|_| OnceLock::new()).collect();
        Series { owner: Arc::clone(self), name, counters, labels: PhantomData }
    }

    pub(crate) fn histogram(&self, name: &'static str) -> Histogram {
        self.handles.histogram(name, &[self.label()])
    }

    #[cold]
    fn counter<L: Labels>(&self, name: &'static str, label: L) -> Counter {
        let text = L::TEXTS.get(label.index()).copied().unwrap_or_default();
        let labels = [self.label(), (L::LABEL, text)];
        // A metric without a label of its own has the policy alone.
        let labels = if L::LABEL.is_empty() { &labels[..1] } else { &labels[..] };
        self.handles.counter(name, labels)
    }

    fn label(&self) -> (&'static str, &str) {
        ("policy", &self.policy)
    }
}

/// The counters of one metric of a policy, one for each text of a closed list.
pub(crate) struct Series<L> {
    owner: Arc<Owner>,
    name: &'static str,
    counters: Box<[OnceLock<Counter>]>,
    labels: PhantomData<fn(L)>,
}

impl<L: Labels> Series<L> {
    /// Begins the series of some labels at zero, if they have not begun.
    pub(crate) fn begin(&self, labels: impl IntoIterator<Item = L>) {
        labels.into_iter().for_each(|label| self.add(label, 0));
    }

    #[inline]
    pub(crate) fn add(&self, label: L, units: u64) {
        if let Some(counter) = self.counters.get(label.index()) {
            counter.get_or_init(|| self.owner.counter(self.name, label)).increment(units);
        }
    }

    #[inline]
    pub(crate) fn count(&self, label: L) {
        self.add(label, 1);
    }
}

impl Series<Unlabelled> {
    #[inline]
    pub(crate) fn increment(&self, units: u64) {
        self.add(Unlabelled::One, units);
    }
}
