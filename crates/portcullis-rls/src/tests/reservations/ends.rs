//! Reservations that are not committed, by the clock of the runtime.

use std::task::{Context, Waker};

use super::*;

/// Each text of a rule with what is left at the end of a reservation of 60 of 100.
#[tokio::test(start_paused = true)]
async fn end_is_settled_as_the_rule_says() {
    for (reserve_field, then) in [
        ("", 40),
        ("reserve = \"used\"", 40),
        ("reserve = \"reservation\"", 40),
        ("reserve = \"nothing\"", 100),
    ] {
        let service = rules(&format!(
            "[policy.p]\nstrategy = \"fixed_window\"\nquota = \"100/day\"\nkey = \"global\"\n{reserve_field}\n"
        ));
        let any: &[(&str, &str)] = &[("a", "b")];
        let id = reserve(&service, reservation(&[any], 60)).await;
        let committed = reserve(&service, reservation(&[any], 10)).await;
        assert_eq!(commit(&service, &committed, 0).await, Ok(true));
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(left(&service, any).await, 40);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(left(&service, any).await, then, "{reserve_field}");
        assert_eq!(commit(&service, &id, 1).await, Err(tonic::Code::NotFound), "it has ended");
        assert_eq!(left(&service, any).await, then, "{reserve_field}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_files_keep_what_is_not_committed() {
    let service = service(&ManualClock::default(), LIMITS);
    reserve(&service, reservation(&[ADA], 60)).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(left(&service, ADA).await, 40);
}

#[tokio::test(start_paused = true)]
async fn answer_is_kept_for_the_ttl() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA], 60)).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(commit(&service, &id, 10).await, Ok(true));
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(
        commit(&service, &id, 10).await,
        Ok(true),
        "49 s after the reservation, 29 s after the commit"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(commit(&service, &id, 10).await, Err(tonic::Code::NotFound));
    assert_eq!(left(&service, ADA).await, 90);
}

#[tokio::test(start_paused = true)]
async fn shorter_reservation_ends_before_an_older_one() {
    let service = rules(
        "[policy.p]\nstrategy = \"fixed_window\"\nquota = \"100/day\"\nkey = \"global\"\nreserve = \"nothing\"\n",
    );
    let any: &[(&str, &str)] = &[("a", "b")];
    for (ttl, amount) in [(3_600, 10), (1, 20), (60, 30)] {
        reserve(&service, ReserveRequest { ttl: seconds(ttl), ..reservation(&[any], amount) }).await;
    }
    for (wait, then) in [(0, 40), (2, 60), (60, 90), (3_600, 100)] {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(left(&service, any).await, then);
    }
    // The task has ended, and the next reservation starts another.
    reserve(&service, reservation(&[any], 50)).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(left(&service, any).await, 100);
}

#[tokio::test(start_paused = true)]
async fn caller_that_leaves_is_given_back_at_the_end() {
    let service = rules(
        "[policy.p]\nstrategy = \"fixed_window\"\nquota = \"100/day\"\nkey = \"global\"\nreserve = \"nothing\"\n",
    );
    let any: &[(&str, &str)] = &[("a", "b")];
    let call = reservation(&[any], 60);
    let mut reserving = Box::pin(service.reserve(&call));
    assert!(reserving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(reserving);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(left(&service, any).await, 40);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(left(&service, any).await, 100);
}
