//! The observers of a store's calls.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use portcullis_core::store::{CallObserver, StoreCall};
use portcullis_log::codes;

/// The observers of a store's calls. Without one, a call costs one load more.
#[derive(Default)]
pub(crate) struct Observers {
    any: AtomicBool,
    all: RwLock<Arc<[Arc<dyn CallObserver>]>>,
    has_panicked: AtomicBool,
}

impl Observers {
    pub(crate) fn add(&self, observer: Arc<dyn CallObserver>) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        *all = all.iter().cloned().chain([observer]).collect();
        self.any.store(true, Ordering::Release);
    }

    /// Whether there is an observer.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Calls each observer. A panic of one is logged, once, and goes no further: the call has callers that wait for its answer.
    pub(crate) fn on_call(&self, call: &StoreCall) {
        let all = Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner));
        for observer in all.iter() {
            let observed = catch_unwind(AssertUnwindSafe(|| observer.on_call(call)));
            if observed.is_err() && !self.has_panicked.swap(true, Ordering::Relaxed) {
                tracing::error!(code = %codes::CALL_OBSERVER_PANICKED, "an observer of the calls to redis has panicked: calls go on, and it gets further ones; this is logged once for each store");
            }
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("any", &self.any()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use portcullis_core::store::CallOutcome;

    use super::*;

    struct Panics;

    impl CallObserver for Panics {
        fn on_call(&self, _: &StoreCall) {
            panic!("on purpose");
        }
    }

    #[derive(Default)]
    struct Kept(Mutex<Vec<StoreCall>>);

    impl CallObserver for Kept {
        fn on_call(&self, call: &StoreCall) {
            self.0.lock().unwrap().push(*call);
        }
    }

    #[test]
    fn every_observer_is_called_even_if_one_panics() {
        let (observers, kept) = (Observers::default(), [Arc::new(Kept::default()), Arc::default()]);
        assert!(!observers.any());
        observers.add(Arc::<Kept>::clone(&kept[0]));
        observers.add(Arc::new(Panics));
        observers.add(Arc::<Kept>::clone(&kept[1]));
        assert!(observers.any());
        let call = StoreCall::new(Duration::from_millis(3), 2, CallOutcome::Answered);
        for _ in 0..2 {
            observers.on_call(&call);
        }
        for observer in kept {
            assert_eq!(*observer.0.lock().unwrap(), [call, call]);
        }
    }
}
