//! Whether a server should get requests, and why not.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis::Limiter;
use portcullis::event::EventKind;
use portcullis::rules::LiveRules;
use portcullis::store::Figure;

/// Whether a server should get requests, and why not. Clones share everything.
///
/// ```
/// use portcullis::Limiter;
/// use portcullis_server::{NotReady, Readiness};
///
/// let readiness = Readiness::new(&Limiter::memory());
/// readiness.set_rules_refused(true);
/// assert!(readiness.has_refused_rules() && readiness.reasons().is_empty());
/// readiness.set_draining();
/// assert_eq!(readiness.reasons(), [NotReady::Draining]);
/// ```
#[derive(Clone)]
pub struct Readiness(Arc<Shared>);

struct Shared {
    limiter: Limiter,
    ignores_store: AtomicBool,
    is_draining: AtomicBool,
    is_refused: AtomicBool,
    has_no_rules: AtomicBool,
}

/// Why a server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotReady {
    /// The store has no usable connection to its server. Failure modes decide meanwhile.
    StoreUnreachable,
    /// The folder of the rules has no files yet, so that nothing is limited.
    NoRules,
    /// The server shuts down.
    Draining,
}

impl NotReady {
    /// `store_unreachable`, `no_rules` or `draining`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StoreUnreachable => "store_unreachable",
            Self::NoRules => "no_rules",
            Self::Draining => "draining",
        }
    }

    /// The reason as a sentence, without a name of a host or a file.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::StoreUnreachable => "the store cannot answer: the failure mode of each policy decides",
            Self::NoRules => "the folder of the rules has no files, so that nothing is limited",
            Self::Draining => "the server shuts down",
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Readiness {
    /// Follows the store of the limiter, and its rules.
    pub fn new(limiter: &Limiter) -> Self {
        Self(Arc::new(Shared {
            limiter: limiter.clone(),
            ignores_store: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            has_no_rules: AtomicBool::new(false),
        }))
    }

    /// Whether a server without its store is ready, since failure modes decide; no by default.
    pub fn set_ready_without_store(&self, is_ready: bool) {
        self.0.ignores_store.store(is_ready, Ordering::Relaxed);
    }

    /// Reports whether changed rules were refused, for rules that are not those of the limiter. The last good ones apply, so the server stays ready.
    pub fn set_rules_refused(&self, is_refused: bool) {
        self.0.is_refused.store(is_refused, Ordering::Relaxed);
    }

    /// Whether the rules that came last were refused, so that older ones apply: those of the limiter, or what was
    /// [reported](Self::set_rules_refused).
    pub fn has_refused_rules(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed) || self.0.limiter.rules().is_ok_and(LiveRules::has_refused)
    }

    /// Reports whether a folder of rules has no files yet.
    pub(crate) fn set_no_rules(&self, has_none: bool) {
        self.0.has_no_rules.store(has_none, Ordering::Relaxed);
    }

    /// Emits an event of the limiter.
    pub(crate) fn report(&self, kind: EventKind<'_>) {
        self.0.limiter.emit_event(kind);
    }

    /// Reports that the server shuts down. It is never ready again.
    pub fn set_draining(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
    }

    /// Why the server is not ready; empty if it is. Does no I/O.
    pub fn reasons(&self) -> Vec<NotReady> {
        let shared = &self.0;
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        if is_set(&shared.is_draining) {
            reasons.push(NotReady::Draining);
        }
        if is_set(&shared.has_no_rules) {
            reasons.push(NotReady::NoRules);
        }
        if !is_set(&shared.ignores_store) && !is_reachable(&shared.limiter) {
            reasons.push(NotReady::StoreUnreachable);
        }
        reasons
    }
}

/// Whether the store has a connection in use. One without connections is in this process.
fn is_reachable(limiter: &Limiter) -> bool {
    let (mut connected, mut closed) = (None, None);
    limiter.store().figures(&mut |figure: Figure<'_>| match figure.name {
        "connections" => connected = Some(figure.value),
        "breaker_closed" => closed = Some(figure.value),
        _ => {}
    });
    connected != Some(0) && closed != Some(0)
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness").field(&self.reasons()).finish()
    }
}
