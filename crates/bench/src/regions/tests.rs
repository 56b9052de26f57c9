use super::*;

const SETUP: Setup = Setup { regions: 2, keys: 50, rate: 500.0, window: 60, limit: 1_200, exact: 50 };
const ALL: [Choice; 6] = [
    Choice::Central,
    Choice::CentralOrLocal,
    Choice::Shares,
    Choice::Leases { set_aside: 50 },
    Choice::Counters,
    Choice::Reports,
];

fn figures(setup: &Setup, spans: &[Span]) -> (Report, [Figures; 6]) {
    let report = setup.simulate(&ALL, spans);
    let figures = report.figures.clone().try_into().unwrap();
    (report, figures)
}

fn hours(cut: Option<Cut>) -> Vec<Span> {
    (0..24).map(|hour| Span { minute: hour * 60, windows: 3, cut }).collect()
}

#[test]
fn central_store_is_never_wrong_while_it_is_reached() {
    let (report, [central, or_local, ..]) = figures(&SETUP, &hours(None));
    assert_eq!(report.seconds, 24 * 2 * 60);
    assert_eq!((central.admitted, central.beyond), (report.admitted, 0));
    assert_eq!((central.wrongly_denied, central.unused), (0, 0));
    assert_eq!(central, or_local);
    // About half of the requests come from the other region.
    assert!(central.calls > report.requests / 3 && central.calls < report.requests, "{central:?}");
}

#[test]
fn shares_and_leases_admit_nothing_beyond_the_limit() {
    for cut in [None, Some(Cut { first: 1, regions: 1, begin: 70, end: 130 })] {
        let (_, [central, _, shares, leases, ..]) = figures(&SETUP, &hours(cut));
        assert_eq!([central.beyond, shares.beyond, leases.beyond], [0; 3]);
    }
}

#[test]
fn leases_deny_less_than_shares_with_few_calls() {
    let (report, [central, _, shares, leases, ..]) = figures(&SETUP, &hours(None));
    assert!(shares.unused > report.admitted / 20, "{shares:?}");
    assert!(leases.unused < shares.unused / 2, "{leases:?} {shares:?}");
    assert!(leases.calls < central.calls / 4, "{leases:?} {central:?}");
}

#[test]
fn counters_admit_beyond_the_limit_what_arrives_in_a_second() {
    let (_, [.., counters, _]) = figures(&SETUP, &hours(None));
    assert!(counters.beyond > 0 && counters.calls == 0, "{counters:?}");
    // The most frequent key has 111 requests per second on average, 211 at the peaks.
    assert!(counters.worst < 2 * 211, "{counters:?}");
}

#[test]
fn reports_admit_more_than_counters_of_each_second() {
    let short = Setup { window: 10, limit: 200, ..SETUP };
    for setup in [SETUP, short] {
        let (_, [_, _, _, leases, counters, reports]) = figures(&setup, &hours(None));
        assert!(reports.beyond > counters.beyond && leases.beyond == 0, "{reports:?} {counters:?}");
        assert!(reports.wrongly_denied <= leases.wrongly_denied, "{reports:?} {leases:?}");
    }
}

#[test]
fn cut_regions_keep_their_share() {
    let cut = Cut { first: 1, regions: 1, begin: 0, end: 180 };
    let (_, [central, or_local, shares, leases, counters, _]) = figures(&SETUP, &hours(Some(cut)));
    assert!(or_local.beyond > 0 && counters.beyond > 0, "{or_local:?} {counters:?}");
    assert!(leases.wrongly_denied < central.wrongly_denied / 2, "{leases:?} {central:?}");
    assert_eq!((leases.calls, shares.calls), (0, 0));
}

#[test]
fn simulation_is_the_same_in_each_run() {
    let spans = hours(Some(Cut { first: 1, regions: 1, begin: 70, end: 130 }));
    assert_eq!(SETUP.simulate(&ALL, &spans), SETUP.simulate(&ALL, &spans));
}

#[test]
fn expected_numbers_agree_with_the_simulated_ones() {
    let spans = hours(None);
    let (report, [central, ..]) = figures(&SETUP, &spans);
    let expected = SETUP.expected(&spans, 300);
    let calls = central.calls as f64 / report.seconds as f64;
    assert!((calls / expected.remote - 1.0).abs() < 0.02, "{calls} {expected:?}");
    assert!((1.0..60.0).contains(&expected.round_trip) && expected.p99 > 59.0, "{expected:?}");
    assert!(expected.active <= 50.0 && expected.active_in_regions <= 100.0, "{expected:?}");
    assert_eq!((expected.missed, expected.cut), (0.0, 0.0));
}

#[test]
fn requests_of_rare_keys_in_a_cut_are_expected() {
    let rare = Setup { exact: 0, ..SETUP };
    // Cut off are half of the regions in half of the time that counts.
    let cut = Cut { first: 1, regions: 1, begin: 90, end: 150 };
    let expected = rare.expected(&hours(Some(cut)), 300);
    assert!((110.0..140.0).contains(&expected.cut), "{expected:?}");
}
