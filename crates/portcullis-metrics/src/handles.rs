//! Makes handles at a recorder, once each.

use std::marker::PhantomData;
use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};

use crate::catalog::{Metric, MetricKind};
use crate::labels::Labels;

/// The recorder of all handles of a [`Metrics`](crate::Metrics). `None`: the one that is installed.
#[derive(Clone)]
pub(crate) struct Handles(Option<Arc<dyn Recorder + Send + Sync>>);

impl Handles {
    pub(crate) fn global() -> Self {
        Self(None)
    }

    pub(crate) fn of(recorder: Arc<dyn Recorder + Send + Sync>) -> Self {
        Self(Some(recorder))
    }

    fn with<T>(&self, call: impl FnOnce(&dyn Recorder) -> T) -> T {
        match &self.0 {
            Some(recorder) => call(&**recorder),
            None => metrics::with_recorder(call),
        }
    }

    pub(crate) fn describe(&self, metrics: &[Metric]) {
        for metric in metrics {
            self.describe_one(metric.name, metric.kind, metric.unit, metric.help);
        }
    }

    pub(crate) fn describe_one(
        &self,
        name: impl Into<KeyName>,
        kind: MetricKind,
        unit: Option<Unit>,
        help: &'static str,
    ) {
        let name = name.into();
        self.with(|recorder| match kind {
            MetricKind::Counter => recorder.describe_counter(name, unit, help.into()),
            MetricKind::Gauge => recorder.describe_gauge(name, unit, help.into()),
            MetricKind::Histogram => recorder.describe_histogram(name, unit, help.into()),
        });
    }

    pub(crate) fn counter(&self, name: impl Into<KeyName>, labels: &[(&'static str, &str)]) -> Counter {
        let counter = self.with(|recorder| recorder.register_counter(&key(name, labels), &METADATA));
        // Some exporters leave out what has no value yet.
        counter.increment(0);
        counter
    }

    pub(crate) fn gauge(&self, name: impl Into<KeyName>, labels: &[(&'static str, &str)]) -> Gauge {
        self.with(|recorder| recorder.register_gauge(&key(name, labels), &METADATA))
    }

    pub(crate) fn histogram(&self, name: impl Into<KeyName>, labels: &[(&'static str, &str)]) -> Histogram {
        self.with(|recorder| recorder.register_histogram(&key(name, labels), &METADATA))
    }

    /// A counter for each text of a closed list.
    pub(crate) fn counters<L: Labels>(&self, name: &'static str) -> Counters<L> {
        let counter = |text: &&'static str| self.counter(name, &[(L::LABEL, *text)]);
        Counters { counters: L::TEXTS.iter().map(counter).collect(), labels: PhantomData }
    }
}

/// The counters of one metric, one for each text of a closed list.
pub(crate) struct Counters<L> {
    counters: Box<[Counter]>,
    labels: PhantomData<fn(L)>,
}

impl<L: Labels> Counters<L> {
    #[inline]
    pub(crate) fn count(&self, label: L) {
        if let Some(counter) = self.counters.get(label.index()) {
            counter.increment(1);
        }
    }
}

fn key(name: impl Into<KeyName>, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<_> = labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect();
    Key::from_parts(name, labels)
}

const METADATA: Metadata<'static> = Metadata::new("portcullis", Level::INFO, Some(module_path!()));
