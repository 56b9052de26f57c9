//! How many reservations are open at a time.

use super::*;
use crate::MAX_RESERVATIONS;

#[tokio::test]
async fn key_has_a_sixteenth_of_all_reservations() {
    const MANY: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1000000 }
";
    let service = service(&ManualClock::default(), MANY);
    let mut call = ReserveRequest { ttl: seconds(3_600), ..reservation(&[ADA], 1) };
    let mut last = String::new();
    for user in 0..16 {
        call.descriptors[0].entries[0].value = format!("user-{user}");
        for _ in 0..MAX_RESERVATIONS / 16 {
            last = service.reserve(&call).await.unwrap().reservation_id;
            assert_eq!(last.len(), 32);
        }
        assert_eq!(service.reserve(&call).await.unwrap().code(), Code::OverLimit, "no more of one key");
        let user = format!("user-{user}");
        assert_eq!(left(&service, &[("user", &user)]).await, 1_000_000 - 4_096, "it is refunded");
    }
    call.descriptors[0].entries[0].value = "another".to_owned();
    assert_eq!(service.reserve(&call).await.unwrap().code(), Code::OverLimit, "no more in all");
    assert_eq!(commit(&service, &last, 1).await, Ok(true));
    assert_eq!(service.reserve(&call).await.unwrap().code(), Code::Ok);
    // As many answers are kept, and the oldest make room.
    assert_eq!(commit(&service, &last, 1).await, Ok(true));
}

#[tokio::test]
async fn key_of_all_clients_has_a_sixteenth_as_well() {
    let service = service(&ManualClock::default(), LIMITS);
    let call = ReserveRequest { ttl: seconds(3_600), ..reservation(&[ALL], 0) };
    for _ in 0..MAX_RESERVATIONS / 16 {
        assert_eq!(service.reserve(&call).await.unwrap().code(), Code::Ok);
    }
    assert_eq!(service.reserve(&call).await.unwrap().code(), Code::OverLimit);
    assert_eq!(reserve(&service, reservation(&[ADA], 1)).await.len(), 32, "others have places");
}
