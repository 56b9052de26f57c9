//! What observers of the limiter get.

use std::sync::{Arc, Mutex};

use portcullis::event::{Event, EventKind, Observer};

use super::*;

/// Keeps each event in a line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no observer panics"))
    }
}

impl Observer for Lines {
    fn on_event(&self, event: &Event<'_>) {
        let line = match event.kind {
            EventKind::Admitted { decisions } => format!("admitted by {}", decisions.len()),
            EventKind::Rejected { reason, decisions } => format!("{reason:?} by {}", decisions.len()),
            EventKind::Charged { decision, units } => format!("charged {} {units}", decision.policy()),
            EventKind::Refunded { decision, units } => format!("refunded {} {units}", decision.policy()),
            EventKind::ShadowWouldReject { decision } => format!("shadow {}", decision.policy()),
            _ => "other".to_owned(),
        };
        self.0.lock().expect("no observer panics").push(line);
    }

    fn wants_charges(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn observers_get_what_is_decided_charged_and_refunded() {
    let limits = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: tried
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: pool
    quota_mode: true
    rate_limit: { unit: day, requests_per_unit: 0 }
";
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    let service = RateLimitService::envoy(limiter, descriptors(limits));
    let ada = call(&[&[("user", "ada")], &[("tried", "x")]]);
    decide(&service, &ada).await;
    assert_eq!(lines.take(), ["charged shop.user 1", "charged shop.tried 1", "admitted by 1"]);
    decide(&service, &ada).await;
    assert_eq!(lines.take(), ["charged shop.user 1", "shadow shop.tried", "admitted by 1"]);
    decide(&service, &ada).await;
    assert_eq!(lines.take(), ["Limited by 1"]);
    decide(&service, &call(&[&[("user", "bob")], &[("pool", "a")], &[("pool", "b")]])).await;
    assert_eq!(lines.take(), ["charged shop.user 1", "refunded shop.user 1", "Limited by 1"]);
}
