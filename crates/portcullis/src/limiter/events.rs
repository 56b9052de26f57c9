//! Events of requests that are decided without a layer.

use super::Limiter;
use crate::event::EventKind;

impl Limiter {
    /// Emits an event to the log and to the [observers](Self::observe), as a layer does, for a program that decides with the
    /// [store](Self::store) itself. The event has no policies but those that its kind names, and no fingerprints.
    ///
    /// ```
    /// use portcullis::event::EventKind;
    /// use portcullis::store::Checks;
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory();
    /// let key = limiter.key(|key| key.part("user", b"ada"))?;
    /// let checks = Checks::one(Policy::fixed_window("calls", Quota::per_day(5)), key, 1);
    /// let outcome = limiter.store().check(checks).await?;
    /// assert!(outcome.is_allowed());
    /// limiter.emit_event(EventKind::Admitted { decisions: outcome.decisions() });
    /// # Ok(())
    /// # }
    /// ```
    pub fn emit_event(&self, kind: EventKind<'_>) {
        self.registry.emit_event(kind);
    }
}
