//! Events of checks in handlers and of messages.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use portcullis_core::FailureMode;
use portcullis_tower::{CheckBuilder, Event, EventKind, Global, PolicyExt as _, RateLimitLayer, Registry};
use tower::{Layer as _, ServiceExt as _};

use super::{BYTES, MAILS, check};
use crate::rejections::{MODES, store};
use crate::support::{Mode, TestStore};

/// The store and the registry, and the events so far: their names, with the policies of the check.
fn observed(mode: Mode) -> (Arc<TestStore>, Arc<Registry>, Arc<Mutex<Vec<String>>>) {
    let (store, registry) = store(mode);
    let events = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        let kind = match event.kind {
            EventKind::Admitted { decisions } => format!("admitted {}", decisions.len()),
            EventKind::Rejected { reason, decisions } => format!("rejected {reason:?} {}", decisions.len()),
            EventKind::Refunded { units, .. } => format!("refunded {units}"),
            EventKind::ChargedMore { units, .. } => format!("charged {units}"),
            EventKind::ChargeDenied { units, .. } => format!("denied {units}"),
            EventKind::Misconfigured { error } => format!("misconfigured: {error}"),
            EventKind::IdentityMalformed { policy, .. } => format!("malformed {policy}"),
            EventKind::StoreFailed { is_new, .. } => format!("store failed {is_new}"),
            EventKind::ChargedTwice { .. } => "charged twice".to_owned(),
            other => format!("{other:?}"),
        };
        let policies: Vec<_> = event.policies.names().map(portcullis_core::PolicyName::as_str).collect();
        seen.lock().unwrap().push(format!("{}: {kind}", policies.join("+")));
    }));
    (store, registry, events)
}

fn take(events: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    std::mem::take(&mut *events.lock().unwrap())
}

#[tokio::test]
async fn a_check_emits_what_a_request_does() {
    for mode in MODES {
        let (store, registry, events) = observed(mode);
        assert!(check(&registry, &MAILS, "ada").and(&BYTES).await.is_ok());
        assert_eq!(take(&events), ["mails+bytes: admitted 2"], "{mode:?}");
        assert!(check(&registry, &MAILS, "ada").cost(2).await.is_err());
        assert_eq!(take(&events), ["mails: rejected Limited 1"]);
        assert!(check(&registry, &MAILS, &"a".repeat(9_000)).await.is_err());
        assert_eq!(take(&events), ["mails: malformed mails", "mails: rejected BadIdentity 0"]);
        assert!(check(&registry, &MAILS, "ada").and(&MAILS).await.is_err());
        let refused = take(&events);
        assert!(
            refused[0].starts_with("mails+mails: misconfigured: a handler checks policies"),
            "{refused:?}"
        );
        assert_eq!(refused[1..], ["mails+mails: rejected Misconfigured 0"]);

        store.set(if mode == Mode::Ready { Mode::Down } else { Mode::DownLater });
        let open = BYTES.clone().on_store_failure(FailureMode::Open);
        let (_, other, more) = observed(Mode::Down);
        assert!(check(&other, &open, "ada").await.is_ok());
        assert_eq!(take(&more), ["bytes: store failed true", "bytes: admitted 1"]);
        // An outage begins once for all checks under a policy.
        for is_new in [true, false] {
            assert!(check(&registry, &MAILS, "ada").await.is_err());
            let failed = format!("mails: store failed {is_new}");
            assert_eq!(take(&events), [failed.as_str(), "mails: rejected StoreFailed 0"]);
        }
    }
}

#[tokio::test]
async fn a_message_emits_what_a_request_does() {
    for mode in MODES {
        let (_, registry, events) = observed(mode);
        let charge = check(&registry, &MAILS, "ada").and(&BYTES).cost(0).await.unwrap();
        take(&events);
        assert!(charge.check(1).await.is_ok());
        assert!(charge.check(9).await.is_err());
        assert_eq!(take(&events), ["mails+bytes: admitted 2", "mails+bytes: rejected NeverFits 2"]);
        let mut meter = charge.for_policy("bytes").unwrap().meter(60);
        for _ in 0..2 {
            assert!(meter.check(40).await.is_ok());
        }
        let batches = ["mails+bytes: charged 60", "mails+bytes: denied 60", "mails+bytes: admitted 1"];
        assert_eq!(take(&events), batches, "{mode:?}");
        charge.settle(0).await.unwrap();
        assert_eq!(take(&events), ["mails+bytes: refunded 2", "mails+bytes: refunded 81"]);
    }
}

#[tokio::test]
async fn a_policy_of_the_layer_may_be_charged_again() {
    for with_charge in [false, true] {
        let (_, registry, events) = observed(Mode::Ready);
        let mut layer = RateLimitLayer::new(Arc::clone(&registry), MAILS.clone().by(Global));
        if with_charge {
            layer = layer.with_charge();
        }
        let handler_registry = Arc::clone(&registry);
        let service = layer.layer(tower::service_fn(move |_: Request<String>| {
            let registry = Arc::clone(&handler_registry);
            async move {
                let again =
                    CheckBuilder::new(&registry, &MAILS).by(|key| key.shared_part("global", b"")).await;
                assert_eq!(again.unwrap().decision().remaining(), 0);
                Ok::<_, Infallible>(Response::new(()))
            }
        }));
        service.oneshot(Request::new(String::new())).await.unwrap();
        assert_eq!(take(&events), ["mails: admitted 1", "mails: admitted 1"], "{with_charge}");
    }
}
