//! What observers of the limiter get.

use std::sync::{Arc, Mutex};

use portcullis::event::{Event, EventKind, Observer};

use super::*;
use crate::ChargeDeniedHits;

/// Keeps each event in a line, and its fingerprints.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<Vec<String>>>>);

impl Lines {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no observer panics"))
    }

    pub(super) fn take_keys(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut *self.1.lock().expect("no observer panics"))
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
            EventKind::ChargedMore { decisions, units } => format!("more {} {units}", decisions[0].policy()),
            _ => "other".to_owned(),
        };
        let keys = event.fingerprints().map(|(policy, key)| format!("{policy} {key}"));
        self.1.lock().expect("no observer panics").push(keys.collect());
        self.0.lock().expect("no observer panics").push(line);
    }

    fn wants_charges(&self) -> bool {
        true
    }

    fn wants_fingerprints(&self) -> bool {
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

#[tokio::test]
async fn events_have_fingerprints_of_their_keys() {
    let limits = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: tried
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
";
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    let service = RateLimitService::envoy(limiter, descriptors(limits));
    decide(&service, &call(&[&[("user", "ada")], &[("tried", "x")]])).await;
    let keys = lines.take_keys();
    let [ada, tried] = [&keys[0][0], &keys[1][0]];
    assert!(ada.starts_with("shop.user ") && tried.starts_with("shop.tried "), "{keys:?}");
    assert_eq!(keys, [vec![ada.clone()], vec![tried.clone()], vec![ada.clone(), tried.clone()]]);
    // The key that is denied comes before another one of its policy.
    decide(&service, &call(&[&[("user", "bob")], &[("user", "ada")]])).await;
    let keys = lines.take_keys();
    assert_eq!((keys.len(), keys[0].len(), &keys[0][0]), (1, 2, ada), "{keys:?}");
    assert_ne!(keys[0][1], *ada);
    decide(&service, &call(&[&[("user", "bob")], &[("tried", "x")]])).await;
    let bob = keys[0][1].clone();
    assert_eq!(
        lines.take_keys(),
        [vec![bob.clone()], vec![bob.clone(), tried.clone()], vec![bob, tried.clone()]]
    );
}

#[tokio::test]
async fn hits_that_are_put_back_and_used_up_are_events() {
    let limits = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5 }
";
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    let service =
        RateLimitService::envoy(limiter, descriptors(limits)).charge_denied_hits(ChargeDeniedHits::Reports);
    let ada: &[(&str, &str)] = &[("user", "ada")];
    decide(&service, &of([hits(ada, 3)])).await;
    assert_eq!(lines.take(), ["charged shop.user 3", "admitted by 1"]);
    decide(&service, &of([refund(ada, 1)])).await;
    assert_eq!(lines.take(), ["refunded shop.user 1", "admitted by 0"]);
    decide(&service, &of([hits(ada, 4)])).await;
    assert_eq!(lines.take(), ["Limited by 1", "more shop.user 3"]);
}

#[tokio::test]
async fn service_in_shadow_reports_what_it_would_reject() {
    let limits = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}";
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    let service = RateLimitService::envoy(limiter, descriptors(limits)).shadow();
    let ada = call(&[&[("user", "ada")]]);
    decide(&service, &ada).await;
    assert_eq!(lines.take(), ["charged shop.user 1", "admitted by 1"]);
    decide(&service, &ada).await;
    assert_eq!(lines.take(), ["shadow shop.user", "admitted by 0"]);
}
