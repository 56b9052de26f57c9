//! What is wrong with a scene is named, with its place.

use serde_json::{Value, json};

use crate::result::scene;

fn error(change: impl FnOnce(&mut Value)) -> String {
    let mut scene = scene("edge");
    change(&mut scene);
    let answer: Value = serde_json::from_str(&portcullis_playground::run(&scene.to_string())).unwrap();
    answer["error"].as_str().unwrap_or("no error").to_owned()
}

fn shedding(limit: Value) -> String {
    error(|edge| {
        *edge = scene("shed");
        edge["lanes"][0]["shed"]["limit"] = limit;
    })
}

#[test]
fn mistakes_name_place_value_and_range() {
    let expected = [
        (error(|scene| scene["duration"] = json!(0)), "duration is 0: it is from 1 to 600000"),
        (error(|scene| scene["lanes"] = json!([])), "lanes is 0: it is from 1 to 8"),
        (
            error(|scene| scene["streams"][0]["client"] = json!(3)),
            "stream 0: `client` is 3, but there are 1, counted from 0",
        ),
        (
            error(|scene| scene["clients"] = json!([{ "name": "ada" }, { "name": "ada" }])),
            "client 1: another client has the name `ada`, by which limits know it: choose another name",
        ),
        (
            error(|scene| scene["streams"][0]["period"] = Value::Null),
            "stream 0: this kind of stream needs `period`",
        ),
        (
            error(|scene| scene["lanes"][0]["outages"] = json!([[9, 3]])),
            "lane 0 (Fixed window): an outage from 9 to 3 is not within the scene",
        ),
        (
            error(|scene| scene["streams"][0] = json!({ "kind": "constant", "rate": "9000/s" })),
            "streams: more than 20000 requests: make the scene shorter or the rates lower",
        ),
        (
            error(|scene| {
                let edge =
                    json!({ "kind": "edge", "period": 1, "count": 20_000, "over": 600_000, "from": 19_999 });
                scene["streams"][0] = edge;
            }),
            "streams: more than 20000 requests: make the scene shorter or the rates lower",
        ),
        (
            error(|scene| scene["streams"][0]["count"] = json!(20_001)),
            "stream 0: count is 20001: it is from 0 to 20000",
        ),
        (
            error(|scene| scene["streams"][0]["over"] = json!(u64::MAX)),
            "stream 0: over is 18446744073709551615: it is from 0 to 600000",
        ),
        (
            error(|scene| scene["streams"][0]["period"] = json!(31_536_000_001_u64)),
            "stream 0: period is 31536000001: it is from 0 to 31536000000",
        ),
        (
            error(|scene| scene["streams"][0]["from"] = json!(600_001)),
            "stream 0: from is 600001: it is from 0 to 600000",
        ),
        (
            error(|scene| scene["streams"][0] = json!({ "kind": "clicks", "at": [1, 600_001] })),
            "stream 0: at is 600001: it is from 0 to 600000",
        ),
        (
            error(|scene| {
                scene["streams"][0] = json!({ "kind": "burst", "at": [30_000, 30_000], "count": 10_001 });
            }),
            "stream 0: at times count is 20002: it is from 0 to 20000",
        ),
        (
            error(|scene| {
                let herd = json!({ "kind": "herd", "at": [1], "members": 700 });
                scene["streams"] = json!([herd, herd, herd]);
            }),
            "members of all herds together is 2100: it is from 0 to 2000",
        ),
        (shedding(json!([1, 0])), "lane 0 (Shedding): shed.limit, the most, is 0: it is from 1 to 1000000"),
        (shedding(json!([9, 8])), "lane 0 (Shedding): shed.limit, the least, is 9: it is from 1 to 8"),
        (shedding(json!([0, 8])), "lane 0 (Shedding): shed.limit, the least, is 0: it is from 1 to 8"),
    ];
    for (error, expected) in expected {
        assert_eq!(error, expected);
    }
    let error = error(|scene| scene["lanes"][0]["limits"][0]["policy"]["quota"] = json!("ten"));
    assert!(error.starts_with("cannot read the quota \"ten\": expected `<limit>/<period>`"), "{error}");
}

#[test]
fn lists_are_no_objects() {
    let shed = scene("shed");
    for path in ["", "/clients/0", "/streams/0", "/lanes/0", "/lanes/0/service", "/lanes/0/shed"] {
        let mut mistaken = shed.clone();
        let place = mistaken.pointer_mut(path).unwrap();
        *place = place.as_object().unwrap().values().cloned().collect();
        let error = error(|scene| *scene = mistaken);
        assert!(error.starts_with("invalid type: sequence, expected struct "), "{path}: {error}");
    }
    let error = error(|scene| scene["lanes"][0]["limits"][0]["policy"] = json!(["search", "gcra", "1/s"]));
    assert!(error.starts_with("invalid type: sequence, expected a policy"), "{error}");
}

#[test]
fn no_text_panics() {
    let edge = scene("edge").to_string();
    for end in (0..edge.len()).step_by(7) {
        assert!(portcullis_playground::run(&edge[..end]).starts_with("{\"error\":"), "{end}");
    }
    for (from, to) in [
        ("20000", "18446744073709551615"),
        ("10000", "0"),
        ("\"count\":10", "\"count\":0"),
        ("400", "600000"),
    ] {
        drop(portcullis_playground::run(&edge.replace(from, to)));
    }
    assert!(portcullis_playground::explain("").starts_with("{\"error\":"));
    assert!(portcullis_playground::export("[]").starts_with("{\"error\":"));
}

/// The paths of all numbers of a scene.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.to_owned()),
        Value::Array(list) => {
            (0..)
                .zip(list)
                .for_each(|(index, one): (usize, _)| numbers(one, &format!("{path}/{index}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, one)| numbers(one, &format!("{path}/{name}"), found));
        }
        _ => {}
    }
}

#[test]
fn no_number_panics() {
    for id in ["edge", "herd", "outage", "tokens", "shed"] {
        let scene = scene(id);
        let mut paths = Vec::new();
        numbers(&scene, "", &mut paths);
        for path in paths {
            for number in [0, 1, u64::from(u32::MAX), 999_999_999_999_999, u64::MAX] {
                let mut hostile = scene.clone();
                *hostile.pointer_mut(&path).unwrap() = json!(number);
                let answer = portcullis_playground::run(&hostile.to_string());
                assert!(answer.starts_with('{') && answer.ends_with('}'), "{id}{path}: {number}");
            }
        }
    }
    for policy in [
        json!({ "strategy": "token_bucket", "quota": "999999999999999/s", "lease": 999_999_999_999_999_u64 }),
        json!({ "strategy": "token_bucket", "quota": "1/2251799813s", "wait": "2251799813s" }),
        json!({ "strategy": "sliding_log", "quota": "1000/2251799813s" }),
        json!({ "strategy": "sliding_window", "quota": "1/1us" }),
        json!({ "strategy": "in_flight", "limit": 4_000_000_000_u64, "lease": "2251799813s" }),
        json!({ "strategy": "calendar_window", "limit": 999_999_999_999_999_u64, "windows": "months in UTC" }),
        json!({ "strategy": "fixed_window", "quota": "unlimited" }),
    ] {
        for start in [0, 4_102_444_800_000_u64] {
            let mut hostile = scene("edge");
            hostile["start"] = json!(start);
            hostile["clients"][0]["cost"] = json!(1_000_000);
            for lane in 0..2 {
                hostile["lanes"][lane]["instances"] = json!(16);
                let limit = &mut hostile["lanes"][lane]["limits"][0]["policy"];
                *limit = policy.clone();
                limit["name"] = json!("hostile");
            }
            let answer = portcullis_playground::run(&hostile.to_string());
            assert!(answer.starts_with('{') && answer.ends_with('}'), "{policy}");
        }
    }
}
