//! The states that a page draws, and the figures of each request.

use serde_json::{Value, json};

use crate::result::{every_algorithm, rows, run, scene};

#[test]
fn remaining_of_samples_is_that_of_requests() {
    for scene in [every_algorithm(), scene("both"), scene("estimate")] {
        let result = run(&scene);
        for (index, lane) in result["lanes"].as_array().unwrap().iter().enumerate() {
            for row in rows(&result, index) {
                let limit = usize::try_from(row[10]).unwrap();
                let states = lane["states"][limit].as_array().unwrap();
                let last_of_instant =
                    rows(&result, index).iter().rfind(|other| other[..2] == row[..2]).copied();
                if last_of_instant != Some(row) || row[14] == row[0] && row[15] >= 0 {
                    continue;
                }
                let state = states.iter().find(|state| state[0] == row[0] && state[1] == row[1]).unwrap();
                // A denial of a cost above 1 may leave units.
                assert_eq!(state[3], row[7], "{}: {row:?} {state}", lane["name"]);
            }
        }
    }
}

#[test]
fn calendar_window_begins_anew_in_february() {
    let result = run(&every_algorithm());
    let of_ada = |from: i64, to: i64| {
        rows(&result, 4)
            .iter()
            .filter(|row| row[1] == 0 && row[4] == 0 && (from..to).contains(&row[0]))
            .count()
    };
    assert_eq!([of_ada(0, 10_000_000), of_ada(10_000_000, 20_000_000)], [9, 9]);
}

#[test]
fn permits_are_held_until_requests_end() {
    let result = run(&every_algorithm());
    let lane = &result["lanes"][7];
    assert!(
        lane["counts"]["limited"].as_u64() > Some(0) && lane["limits"][0]["most"] == 3,
        "{}",
        lane["limits"]
    );
    let held: Vec<_> =
        lane["states"][0].as_array().unwrap().iter().filter_map(|state| state[4].as_u64()).collect();
    assert!(held.contains(&3) && held.iter().all(|held| *held <= 3));
}

#[test]
fn rejected_request_is_told_when_to_retry() {
    let explain = |lane: usize, request: usize| -> Value {
        let request = json!({ "scene": scene("edge"), "lane": lane, "request": request });
        serde_json::from_str(&portcullis_playground::explain(&request.to_string())).unwrap()
    };
    assert_eq!(
        explain(1, 10)["headers"],
        json!([
            ["content-type", "text/plain; charset=utf-8"],
            ["cache-control", "no-store"],
            ["x-ratelimit-limit", "10"],
            ["x-ratelimit-remaining", "0"],
            ["x-ratelimit-reset", "10"],
            ["retry-after", "10"],
        ])
    );
    assert_eq!(explain(1, 10)["status"], 429);
    assert_eq!(explain(1, 10)["body"], "rate limit exceeded: retry after 10 s\n");
    assert_eq!(
        explain(0, 10),
        json!({
            "status": 200, "body": "",
            "headers": [["x-ratelimit-limit", "10"], ["x-ratelimit-remaining", "9"], ["x-ratelimit-reset", "10"]],
        })
    );
    assert_eq!(explain(0, 99), json!({ "error": "request: there is no request 99 in this lane" }));
}

#[test]
fn streams_send_nothing_outside_their_time() {
    let line =
        |second: u32| format!("a - - [01/Jan/2026:00:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n");
    let text: String = (0..9).map(line).collect();
    for stream in [
        json!({ "kind": "constant", "rate": "2/s" }),
        json!({ "kind": "poisson", "rate": "5/s" }),
        json!({ "kind": "burst", "at": [3_000, 4_000, 6_500], "count": 10, "over": 2_000 }),
        json!({ "kind": "edge", "period": 1_000, "count": 3, "over": 900 }),
        json!({ "kind": "herd", "at": [3_000, 5_000, 8_000], "members": 3, "attempts": 1 }),
        json!({ "kind": "clicks", "at": [3_999, 4_000, 6_999, 7_000] }),
        json!({ "kind": "log", "text": text }),
    ] {
        let mut scene = scene("edge");
        scene["streams"] = json!([stream]);
        scene["streams"][0]["from"] = json!(4_000);
        scene["streams"][0]["to"] = json!(7_000);
        let result = run(&scene);
        let sent: Vec<_> = rows(&result, 0).iter().map(|row| row[0]).collect();
        assert!(
            sent.len() > 1 && sent.iter().all(|at| (4_000_000..7_000_000).contains(at)),
            "{stream}: {sent:?}"
        );
        assert_eq!(result["left_out"], 0, "{stream}");
    }
}

#[test]
fn samples_of_many_requests_go_on_to_the_end() {
    let mut scene = scene("edge");
    scene["duration"] = json!(200_000);
    scene["streams"] = json!([{ "kind": "constant", "rate": "95/s", "takes": [1, 1] }]);
    let policy = json!({ "name": "running", "strategy": "in_flight", "limit": 3, "lease": "10s" });
    scene["lanes"] = json!([{ "name": "Running", "limits": [{ "policy": policy }] }]);
    let states = run(&scene)["lanes"][0]["states"][0].clone();
    let states = states.as_array().unwrap();
    assert!((30_000..30_300).contains(&states.len()), "{}", states.len());
    let instants: Vec<_> = states.iter().rev().take(3).map(|state| state[0].as_i64().unwrap()).collect();
    assert_eq!(instants, [200_000_000, 199_000_000, 198_000_000]);
}

#[test]
fn pasted_log_is_sent_by_its_addresses() {
    let mut scene = scene("edge");
    let line = |address: &str, second: u32| {
        format!("{address} - - [01/Jan/2026:00:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    let text =
        [line("192.0.2.1", 1), line("192.0.2.2", 1), line("192.0.2.1", 3), "no line\n".to_owned()].concat();
    scene["clients"] = json!([{ "name": "first" }, { "name": "second" }]);
    scene["streams"] = json!([{ "kind": "log", "text": text }]);
    let result = run(&scene);
    let sent: Vec<_> = rows(&result, 0).iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(sent, [(0, 0), (500_000, 1), (2_000_000, 0)]);
    assert_eq!(result["left_out"], 1);
}
