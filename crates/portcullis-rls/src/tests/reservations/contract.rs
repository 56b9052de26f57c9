//! What each call answers.

use super::*;

#[tokio::test]
async fn commit_refunds_what_was_not_used() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA, ALL], 60)).await;
    assert_eq!(id.len(), 32);
    assert_eq!([left(&service, ADA).await, left(&service, ALL).await], [40, 90], "held units are charged");
    assert!(!outcome(&service, &of([hits(ADA, 41)])).await.0, "for ordinary checks as well");
    assert_eq!(commit(&service, &id, 25).await, Ok(true));
    // The denied check of 41 was a report.
    assert_eq!([left(&service, ADA).await, left(&service, ALL).await], [35, 125]);
}

#[tokio::test]
async fn several_policies_are_reserved_or_none() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA, ALL], 90)).await;
    assert_eq!(reserve(&service, reservation(&[BOB, ALL], 61)).await, "");
    assert_eq!([left(&service, BOB).await, left(&service, ALL).await], [100, 60]);
    assert_ne!(reserve(&service, reservation(&[BOB, ALL], 60)).await, id);
    assert_eq!([left(&service, BOB).await, left(&service, ALL).await], [40, 0]);
}

/// A debt is what a response has used beyond what is left.
#[tokio::test]
async fn commit_beyond_the_reserve_leaves_a_debt() {
    let text = "[policy.p]\nstrategy = \"token_bucket\"\nquota = \"100/min\"\nkey = \"global\"\ndebt = 50\n";
    let clock = ManualClock::default();
    let service = native_by(testing::limiter(&clock), &Loader::text("limits.toml", Format::Toml, text));
    let any: &[(&str, &str)] = &[("a", "b")];
    let id = reserve(&service, reservation(&[any], 80)).await;
    assert_eq!(commit(&service, &id, 131).await, Err(tonic::Code::InvalidArgument), "80 and 50 may be used");
    assert_eq!(left(&service, any).await, 20, "nothing was changed");
    assert_eq!(commit(&service, &id, 130).await, Ok(true));
    clock.advance(Duration::from_secs(18));
    assert_eq!(left(&service, any).await, 0);
    clock.advance(Duration::from_secs(6));
    assert_eq!(left(&service, any).await, 10, "30 units were owed");
}

#[tokio::test]
async fn commit_of_no_use_refunds_all() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA], 100)).await;
    assert_eq!(commit(&service, &id, 0).await, Ok(true));
    assert_eq!(left(&service, ADA).await, 100);
}

#[tokio::test]
async fn repeated_commit_has_the_same_answer() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA], 60)).await;
    for actual in [10, 10, 55, 0] {
        assert_eq!(commit(&service, &id, actual).await, Ok(true));
        assert_eq!(left(&service, ADA).await, 90, "it is settled once");
    }
}

#[tokio::test]
async fn unknown_and_foreign_ids_are_not_found() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA], 60)).await;
    let other = format!("{:032x}", u128::from_str_radix(&id, 16).unwrap() ^ 1);
    for unknown in
        [&*other, &id.to_uppercase(), &id[1..], &format!("{id}0"), "x", "+0000000000000000000000000000001"]
    {
        if unknown != id {
            assert_eq!(commit(&service, unknown, 1).await, Err(tonic::Code::NotFound), "{unknown}");
        }
    }
    assert_eq!(commit_in(&service, "elsewhere", &id, 1).await, Err(tonic::Code::NotFound));
    assert_eq!(left(&service, ADA).await, 40, "nothing is changed");
    assert_eq!(commit(&service, &id, 1).await, Ok(true));
    assert_eq!(commit_in(&service, "elsewhere", &id, 1).await, Err(tonic::Code::NotFound));
}

#[tokio::test]
async fn invalid_arguments_charge_nothing() {
    let service = service(&ManualClock::default(), LIMITS);
    let valid = reservation(&[ADA], 10);
    let nanos = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let mut invalid: Vec<ReserveRequest> = [
        None,
        seconds(0),
        seconds(-1),
        nanos(0, 999_999_999),
        nanos(3_600, 1),
        seconds(i64::MAX),
        nanos(-5, -1),
    ]
    .map(|ttl| ReserveRequest { ttl, ..valid.clone() })
    .into();
    invalid.push(ReserveRequest { amount: 101, ..valid.clone() });
    invalid.push(ReserveRequest { amount: u64::MAX, ..valid.clone() });
    invalid.push(ReserveRequest { domain: String::new(), ..valid.clone() });
    invalid.push(ReserveRequest { domain: "x".repeat(1_025), ..valid.clone() });
    invalid.push(ReserveRequest { descriptors: vec![], ..valid.clone() });
    invalid.push(ReserveRequest { descriptors: vec![hits(ADA, 1)], ..valid.clone() });
    invalid.push(ReserveRequest { descriptors: vec![refund(ADA, 1)], ..valid.clone() });
    for call in invalid {
        let answer: Result<ReserveResponse, _> = send(&service, "Reserve", call.clone()).await;
        assert_eq!(answer.unwrap_err().code(), tonic::Code::InvalidArgument, "{call:?}");
    }
    assert_eq!(left(&service, ADA).await, 100);
    for (ttl, amount) in [(seconds(1), 10), (seconds(3_600), 90)] {
        assert_ne!(reserve(&service, ReserveRequest { ttl, amount, ..valid.clone() }).await, "");
    }
    let id = reserve(&service, reservation(&[BOB], 10)).await;
    assert_eq!(commit(&service, &id, 111).await, Err(tonic::Code::InvalidArgument), "10 and a debt of 100");
    assert_eq!(commit_in(&service, "", &id, 1).await, Err(tonic::Code::InvalidArgument));
    assert_eq!(commit(&service, &id, 110).await, Ok(true));
}

#[tokio::test]
async fn amount_of_zero_asks_and_is_committed() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA], 0)).await;
    assert_eq!(left(&service, ADA).await, 100);
    assert_eq!(commit(&service, &id, 101).await, Err(tonic::Code::InvalidArgument), "a debt of 100");
    assert_eq!(commit(&service, &id, 100).await, Ok(true));
    assert_eq!(left(&service, ADA).await, 0);
    assert_eq!(reserve(&service, reservation(&[ADA], 0)).await, "", "nothing is left");
}

#[tokio::test]
async fn reservation_without_limits_has_no_id() {
    let service = service(&ManualClock::default(), LIMITS);
    let none: ReserveResponse = send(&service, "Reserve", reservation(&[&[("x", "y")]], 5)).await.unwrap();
    assert_eq!((none.code(), none.reservation_id.as_str()), (Code::Ok, ""));
    let banned: ReserveResponse =
        send(&service, "Reserve", reservation(&[ADA, &[("ban", "x")]], 5)).await.unwrap();
    assert_eq!((banned.code(), banned.reservation_id.as_str()), (Code::OverLimit, ""));
    assert_eq!(left(&service, ADA).await, 100);
}

/// Without a reservation a gateway commits by descriptors, as a report.
#[tokio::test]
async fn commit_without_id_is_a_report() {
    let service = service(&ManualClock::default(), LIMITS);
    let report = |actual| CommitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor(ADA)],
        actual_amount: actual,
        ..CommitRequest::default()
    };
    for (actual, then) in [(30, 70), (0, 70), (80, 0), (1, 0)] {
        let answer: CommitResponse = send(&service, "Commit", report(actual)).await.unwrap();
        assert!(!answer.reservation_released);
        assert_eq!(left(&service, ADA).await, then);
    }
    let nothing = CommitRequest { domain: "shop".to_owned(), ..CommitRequest::default() };
    let answer: Result<CommitResponse, _> = send(&service, "Commit", nothing).await;
    assert_eq!(answer.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn check_charges_nothing_and_report_what_fits() {
    let service = service(&ManualClock::default(), LIMITS);
    let ask = async |method: &str, hits| {
        let call = RateLimitRequest { hits_addend: hits, ..call(&[ADA]) };
        let answer: RateLimitResponse = send(&service, method, call).await.unwrap();
        (answer.overall_code(), left(&service, ADA).await)
    };
    assert_eq!(ask("CheckRateLimit", 0).await, (Code::Ok, 100));
    assert_eq!(ask("Report", 70).await, (Code::Ok, 30));
    assert_eq!(ask("CheckRateLimit", 50).await, (Code::Ok, 30));
    assert_eq!(ask("Report", 70).await, (Code::OverLimit, 0));
    assert_eq!(ask("CheckRateLimit", 0).await, (Code::OverLimit, 0));
}

/// Equal descriptors are charged the amount each, and settled so.
#[tokio::test]
async fn weights_of_descriptors_are_kept() {
    let service = service(&ManualClock::default(), LIMITS);
    let id = reserve(&service, reservation(&[ADA, ADA, BOB], 20)).await;
    assert_eq!([left(&service, ADA).await, left(&service, BOB).await], [60, 80]);
    assert_eq!(commit(&service, &id, 5).await, Ok(true));
    assert_eq!([left(&service, ADA).await, left(&service, BOB).await], [90, 95]);
    let text = "[policy.all]\nstrategy = \"fixed_window\"\nquota = \"100/day\"\nkey = \"global\"\n\
                [policy.own]\nstrategy = \"fixed_window\"\nquota = \"100/day\"\nkey = \"client_ip\"\n\
                match = { path = \"/own\" }\ncost = 3\n";
    let service = rules(text);
    let own: &[(&str, &str)] = &[(":path", "/own"), ("remote_address", "192.0.2.1")];
    let other: &[(&str, &str)] = &[(":path", "/other")];
    let id = reserve(&service, reservation(&[own, other], 10)).await;
    assert_eq!([left(&service, own).await, left(&service, other).await], [80, 80], "12 of the own limit");
    assert_eq!(commit(&service, &id, 40).await, Ok(true));
    assert_eq!([left(&service, own).await, left(&service, other).await], [20, 20]);
}

#[tokio::test]
async fn free_rule_reserves_nothing() {
    let service = rules(FREE);
    let [ada, bob]: [&[(&str, &str)]; 2] =
        [&[("remote_address", "192.0.2.1")], &[("remote_address", "192.0.2.2")]];
    let id = reserve(&service, reservation(&[ada], 5)).await;
    assert_eq!(commit(&service, &id, 8).await, Ok(true));
    assert_eq!([left(&service, ada).await, left(&service, bob).await], [1, 4]);
}

#[tokio::test]
async fn service_in_shadow_lets_reservations_pass() {
    let service = service(&ManualClock::default(), LIMITS).shadow();
    let id = reserve(&service, reservation(&[ADA], 100)).await;
    let passed: ReserveResponse = send(&service, "Reserve", reservation(&[ADA], 1)).await.unwrap();
    assert_eq!((passed.code(), passed.reservation_id.as_str()), (Code::Ok, ""));
    assert_eq!(commit(&service, &id, 10).await, Ok(true));
    assert_eq!(left(&service, ADA).await, 90);
}
