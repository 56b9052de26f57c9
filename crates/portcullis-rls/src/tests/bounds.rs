//! Calls beyond the bounds, and hostile values.

use super::*;
use crate::{CallError, MAX_DESCRIPTORS, MAX_DOMAIN_BYTES, MAX_ENTRIES};

const LIMITS: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 1 }
";

async fn error(request: &RateLimitRequest) -> CallError {
    let service = service(&ManualClock::default(), LIMITS);
    let error = service.decide(request).await.expect_err("the call is not valid");
    assert!(error.is_invalid_argument());
    assert_eq!(tonic::Status::from(error.clone()).code(), tonic::Code::InvalidArgument);
    error
}

#[tokio::test]
async fn a_call_without_domain_or_descriptors_is_invalid() {
    let no_domain = RateLimitRequest { domain: String::new(), ..call(&[&[("user", "ada")]]) };
    assert_eq!(error(&no_domain).await.to_string(), "rate limit domain must not be empty");
    assert_eq!(error(&call(&[])).await.to_string(), "rate limit descriptor list must not be empty");
    let long = RateLimitRequest { domain: "d".repeat(MAX_DOMAIN_BYTES + 1), ..call(&[&[("user", "ada")]]) };
    assert_eq!(error(&long).await, CallError::DomainTooLong { bytes: MAX_DOMAIN_BYTES + 1 });
}

#[tokio::test]
async fn sixteen_descriptors_are_the_most() {
    let users: Vec<String> = (0..=MAX_DESCRIPTORS).map(|user| user.to_string()).collect();
    let descriptors: Vec<_> = users.iter().map(|user| descriptor(&[("user", user)])).collect();
    let service = service(&ManualClock::default(), LIMITS);
    assert!(outcome(&service, &of(&descriptors[..MAX_DESCRIPTORS])).await.0);
    let too_many = CallError::TooManyDescriptors { descriptors: MAX_DESCRIPTORS + 1 };
    assert_eq!(error(&of(descriptors)).await, too_many);
}

#[tokio::test]
async fn entries_and_units_of_overrides_are_checked() {
    let entries = vec![("user", "ada"); MAX_ENTRIES + 1];
    let too_many = CallError::TooManyEntries { descriptor: 0, entries: MAX_ENTRIES + 1 };
    assert_eq!(error(&call(&[&entries])).await, too_many);
    for unit in [0, -1, 99] {
        let unknown = CallError::UnknownUnit { descriptor: 0, unit };
        assert_eq!(error(&of([limited(&[("user", "ada")], 1, unit)])).await, unknown);
    }
}

#[tokio::test]
async fn long_values_are_counted_each_by_itself() {
    let service = service(&ManualClock::default(), LIMITS);
    let (one, other) = ("x".repeat(60_000) + "1", "x".repeat(60_000) + "2");
    for value in [&one, &other] {
        assert!(outcome(&service, &call(&[&[("user", value)]])).await.0);
        assert!(!outcome(&service, &call(&[&[("user", value)]])).await.0);
    }
    let hour = 3;
    assert!(outcome(&service, &of([limited(&[("user", &one)], 1, hour)])).await.0);
    assert!(!outcome(&service, &of([limited(&[("user", &one)], 1, hour)])).await.0);
}

#[tokio::test]
async fn huge_hits_are_denied_and_not_added_up_wrongly() {
    let service = service(&ManualClock::default(), LIMITS);
    let huge = of([hits(&[("user", "ada")], u64::MAX), hits(&[("user", "ada")], u64::MAX)]);
    assert!(!outcome(&service, &huge).await.0);
    assert!(outcome(&service, &of([refund(&[("user", "ada")], u64::MAX)])).await.0);
    assert_eq!(outcome(&service, &call(&[&[("user", "ada")]])).await, (true, vec![0]));
}

#[tokio::test]
async fn limits_that_do_not_fit_in_memory_are_refused() {
    use portcullis::store::MemoryStore;
    use portcullis::{Limiter, Secret};

    let store = MemoryStore::builder().capacity(1_000).total_capacity(2_000).build();
    let service = RateLimitService::envoy(Limiter::new(store, Secret::published()), descriptors(LIMITS));
    service.register().unwrap();
    let limit = |index| format!("  - key: k{index}\n    rate_limit: {{ unit: day, requests_per_unit: 1 }}\n");
    let many = (0..20).map(limit).collect::<Vec<_>>().concat();
    let refused = service.replace(descriptors(&format!("domain: shop\ndescriptors:\n{many}")));
    assert!(refused.unwrap_err().to_string().contains("does not fit"));
    assert!(outcome(&service, &call(&[&[("user", "ada")]])).await.0);
    assert!(!outcome(&service, &call(&[&[("user", "ada")]])).await.0, "the former limits stay");
}
