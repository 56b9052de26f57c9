//! The idea of each scene, as what its result shows.

use crate::result::{all_scenes, count, every_algorithm, most, rows, run, scene};

const SECOND: i64 = 1_000_000;

#[test]
fn fixed_window_admits_twice_its_limit_at_an_edge() {
    let result = run(&scene("edge"));
    assert_eq!([count(&result, 0, "admitted"), count(&result, 1, "admitted")], [20, 10]);
    assert_eq!([most(&result, 0), most(&result, 1)], [20, 10]);
    assert_eq!(result["lanes"][0]["wrong"], serde_json::json!([10, 0]));
    let instants: Vec<_> = rows(&result, 0).iter().map(|row| row[0]).collect();
    assert!(instants[19] - instants[0] < SECOND, "{instants:?}");
}

#[test]
fn sliding_window_has_25_of_100_left() {
    let result = run(&scene("estimate"));
    let burst: Vec<_> = rows(&result, 0).into_iter().filter(|row| row[0] == 25 * SECOND).collect();
    assert_eq!(burst.len(), 40);
    let passed: Vec<_> = burst.iter().take_while(|row| row[4] == 0).collect();
    assert_eq!((passed.len(), passed[0][7]), (25, 24));
    // The estimate just before: three quarters of 100, in thousandths.
    let states = result["lanes"][0]["states"][0].as_array().unwrap();
    let before = states.iter().rfind(|state| state[0].as_i64() < Some(25 * SECOND)).unwrap();
    assert!((75_000..=76_000).contains(&before[4].as_u64().unwrap()), "{before}");
    assert_eq!(before[7], 100, "the window that leaves");
    assert_eq!(result["lanes"][0]["wrong"], serde_json::json!([0, 1]), "a log has 26 left");
}

#[test]
fn log_keeps_more_than_a_counter_that_rarely_differs() {
    let result = run(&scene("memory"));
    let bytes = |lane: usize| result["lanes"][lane]["redis_bytes"][0].as_u64().unwrap();
    assert!(bytes(0) > 20 * bytes(1), "{} {}", bytes(0), bytes(1));
    let wrong = |lane: usize| {
        result["lanes"][lane]["wrong"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(wrong(0), 0);
    let requests = count(&result, 1, "requests");
    assert!(wrong(1) > 0 && wrong(1) * 10 < requests, "{} of {requests}", wrong(1));
    assert!(wrong(2) < wrong(1));
}

#[test]
fn same_clicks_pass_space_out_or_wait() {
    let result = run(&scene("buckets"));
    let admitted = [0, 1, 2].map(|lane| count(&result, lane, "admitted"));
    assert_eq!(admitted, [9, 3, 9]);
    assert_eq!([0, 1, 2].map(|lane| count(&result, lane, "waited") > 0), [false, false, true]);
    // The queue lets one go each second.
    let mut released: Vec<_> =
        rows(&result, 2).iter().filter(|row| row[4] < 2).map(|row| row[0] + row[5]).collect();
    released.sort_unstable();
    assert!(released.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{released:?}");
}

#[test]
fn rejection_by_one_limit_charges_no_other() {
    let result = run(&scene("both"));
    assert_eq!(count(&result, 0, "admitted"), 10);
    let mut long = result["lanes"][0]["states"][1].as_array().unwrap().iter();
    for row in rows(&result, 0).iter().filter(|row| row[4] == 2 && row[10] == 0) {
        let state = long.find(|state| state[0] == row[0]).unwrap();
        let used = 10 - state[3].as_i64().unwrap();
        let admitted = rows(&result, 0).iter().filter(|other| other[0] < row[0] && other[4] == 0).count();
        assert_eq!(usize::try_from(used).unwrap(), admitted);
    }
}

#[test]
fn spread_retries_do_not_come_in_waves() {
    let result = run(&scene("herd"));
    assert_eq!([count(&result, 0, "admitted"), count(&result, 1, "admitted")], [100, 100]);
    assert!(count(&result, 0, "requests") > 2 * count(&result, 1, "requests"));
    let largest_wave = |lane: usize| {
        let mut waves = std::collections::BTreeMap::<i64, usize>::new();
        rows(&result, lane)
            .iter()
            .filter(|row| row[13] > 1)
            .for_each(|row| *waves.entry(row[0]).or_default() += 1);
        waves.into_values().max().unwrap()
    };
    assert!(largest_wave(0) >= 80 && largest_wave(1) < 40, "{} {}", largest_wave(0), largest_wave(1));
}

#[test]
fn instances_share_divide_or_lease_a_limit() {
    let result = run(&scene("instances"));
    assert_eq!(most(&result, 0), 600, "one store enforces the limit");
    assert_eq!(most(&result, 1), 150, "a client that stays with one instance gets its quarter");
    let leased = &result["lanes"][2];
    let limit = &leased["limits"][0];
    assert_eq!(limit["bound"], 150 + 150 + 4 * 20);
    assert!(limit["most"].as_u64() <= limit["bound"].as_u64(), "{limit}");
    let paid = rows(&result, 2).iter().filter(|row| row[12] & 2 != 0).count();
    assert!(paid * 3 > rows(&result, 2).len(), "{paid} of {}", rows(&result, 2).len());
    assert!(leased["leases"].as_array().unwrap().iter().any(|sample| sample[1].as_u64() > Some(0)));
}

#[test]
fn outage_is_met_as_each_failure_mode_says() {
    let result = run(&scene("outage"));
    let during = |lane: usize, from: i64, to: i64| {
        let rows = rows(&result, lane);
        let within: Vec<_> =
            rows.iter().filter(|row| (from * SECOND..to * SECOND).contains(&row[0])).collect();
        (within.iter().filter(|row| row[4] < 2).count(), within.len())
    };
    let (local, all) = during(0, 5, 15);
    assert!(local > all * 4 / 10 && local < all * 6 / 10, "{local} of {all}");
    assert_eq!(during(1, 5, 15), (80, 80), "open");
    assert_eq!(during(2, 5, 8), (24, 24), "open for three seconds");
    assert_eq!(during(2, 9, 15).0, 0, "closed after that");
    assert_eq!(during(3, 5, 15).0, 0, "closed");
    assert_eq!(count(&result, 3, "store_failed"), 80);
    assert!((0..4).all(|lane| during(lane, 16, 20).0 > 10), "the store answers again");
}

#[test]
fn settled_reservations_leave_room_for_others() {
    let result = run(&scene("tokens"));
    let [settled, kept] = [0, 1].map(|lane| count(&result, lane, "admitted"));
    assert!(settled * 10 > kept * 15, "{settled} {kept}");
    // A settlement shows in the state: the level falls faster than by time alone.
    let ends: Vec<_> =
        rows(&result, 0).iter().filter(|row| row[4] == 0 && row[14] > 0).map(|row| row[14]).collect();
    assert!(!ends.is_empty());
}

#[test]
fn load_is_shed_by_class() {
    let result = run(&scene("shed"));
    let rows = rows(&result, 0);
    let shed = |client: i64| {
        let of: Vec<_> = rows
            .iter()
            .filter(|row| row[1] == client && (5 * SECOND..10 * SECOND).contains(&row[0]))
            .collect();
        of.iter().filter(|row| row[4] == 4).count() * 100 / of.len()
    };
    let [payments, search, reports] = [0, 1, 2].map(shed);
    assert!(
        payments < 5 && payments < search && search < reports && reports > 70,
        "{payments} {search} {reports}"
    );
    let latency = |lane: usize| result["lanes"][lane]["latency"][1].as_u64().unwrap();
    assert!(latency(0) * 5 < latency(1), "{} {}", latency(0), latency(1));
}

#[test]
fn algorithms_keep_their_bounds() {
    for scene in all_scenes() {
        let result = run(&scene);
        for lane in result["lanes"].as_array().unwrap() {
            let is_cut = lane["counts"]["degraded"].as_u64() > Some(0);
            for limit in lane["limits"].as_array().unwrap() {
                let (most, bound) = (limit["most"].as_u64(), limit["bound"].as_u64());
                // In an outage other limits apply, and a settlement may go into debt.
                let is_free = is_cut || limit["name"] == "waits" || bound.is_none();
                assert!(is_free || most <= bound, "{}: {limit}", scene["id"]);
            }
        }
    }
}

/// A request is called wrongly admitted if and only if some period has more units than a log allows.
#[test]
fn exact_logs_agree_with_the_most_of_a_period() {
    let mut compared = 0;
    for scene in all_scenes() {
        let result = run(&scene);
        for lane in result["lanes"].as_array().unwrap() {
            let Some(wrong) = lane["wrong"][0].as_u64() else { continue };
            let limits = lane["limits"].as_array().unwrap();
            let exceeds = limits.iter().any(|limit| limit["most"].as_u64() > limit["units"].as_u64());
            assert_eq!(wrong > 0, exceeds, "{}: {} {limits:?}", scene["id"], lane["name"]);
            compared += 1;
        }
    }
    assert!(compared > 15, "{compared}");
    let leaky = &run(&scene("buckets"))["lanes"][2];
    assert_eq!(leaky["wrong"], serde_json::json!([0, 0]), "the queue keeps its rate");
}

#[test]
fn settled_requests_count_what_they_used() {
    let result = run(&scene("tokens"));
    let (mut kept, mut wrong) = (Vec::<[i64; 2]>::new(), 0);
    for row in rows(&result, 0).into_iter().filter(|row| row[4] < 2) {
        let in_period = kept.iter().filter(|[at, _]| *at > row[0] - 10 * SECOND).map(|[_, units]| *units);
        if in_period.sum::<i64>() + row[15] > 2_000 {
            wrong += 1;
        } else {
            kept.push([row[0], row[15]]);
        }
    }
    assert_eq!(result["lanes"][0]["wrong"][0], wrong);
    assert!((1..kept.len()).contains(&wrong), "{wrong}");
}

#[test]
fn latency_counts_requests_that_have_not_ended() {
    let mut scene = scene("shed");
    scene["lanes"] = serde_json::json!([{ "name": "Slow", "service": { "workers": 1 } }]);
    scene["duration"] = 10_000.into();
    scene["streams"] =
        serde_json::json!([{ "kind": "clicks", "at": [1_000, 2_000, 3_000], "takes": [6_000, 6_000] }]);
    assert_eq!(run(&scene)["lanes"][0]["latency"], serde_json::json!([7_000_000, 8_000_000]));
}

#[test]
fn same_seed_gives_the_same_text() {
    let scene = every_algorithm().to_string();
    assert_eq!(portcullis_playground::run(&scene), portcullis_playground::run(&scene));
    let other = scene.replace("\"seed\":11", "\"seed\":12");
    assert_ne!(portcullis_playground::run(&scene), portcullis_playground::run(&other));
}
