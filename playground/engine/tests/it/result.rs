//! Reads results.

use serde_json::{Value, json};

const BUILT_IN: &str = include_str!("../../../page/scenes.json");

/// A scene that is built in.
pub(crate) fn scene(id: &str) -> Value {
    let scenes: Vec<Value> = serde_json::from_str(BUILT_IN).unwrap();
    scenes.into_iter().find(|scene| scene["id"] == id).unwrap_or_else(|| panic!("no scene {id}"))
}

/// All scenes that are built in, and one with what they leave out.
pub(crate) fn all_scenes() -> Vec<Value> {
    let mut scenes: Vec<Value> = serde_json::from_str(BUILT_IN).unwrap();
    scenes.push(every_algorithm());
    scenes.push(every_export());
    scenes
}

/// Every algorithm, with the parameters and settings that the other scenes leave out.
pub(crate) fn every_algorithm() -> Value {
    let policies = [
        json!({ "name": "bucket", "strategy": "token_bucket", "quota": "3/s burst 6", "refill": "interval" }),
        json!({ "name": "waits", "strategy": "gcra", "quota": "2/s burst 3", "wait": "750ms", "debt": 4 }),
        json!({ "name": "queue", "strategy": "leaky_bucket", "quota": "2/s burst 3" }),
        json!({ "name": "own window", "strategy": "fixed_window", "quota": "5/2500ms", "anchor": "first_request" }),
        json!({ "name": "months", "strategy": "calendar_window", "limit": 9, "windows": "months in UTC" }),
        json!({ "name": "slots", "strategy": "sliding_window", "quota": "8/3s", "slots": 3, "on_store_failure": { "open_for": "30s" } }),
        json!({ "name": "log", "strategy": "sliding_log", "quota": "7/1500ms", "on_store_failure": "closed" }),
        json!({ "name": "running", "strategy": "in_flight", "limit": 3, "lease": "10s" }),
    ];
    let lane = |policy: Value| json!({ "name": policy["name"], "limits": [{ "policy": policy }], "headers": "ietf-draft-6" });
    json!({
        "id": "every", "title": "Every algorithm", "seed": 11, "duration": 20_000,
        // Ten seconds before February.
        "start": 1_769_903_990_000_u64,
        "clients": [{ "name": "ada" }, { "name": "bob", "cost": 2 }],
        "streams": [
            { "kind": "poisson", "rate": "5/s", "client": 0, "takes": [100, 900] },
            { "kind": "poisson", "rate": "1/s", "client": 1, "takes": [100, 900] },
        ],
        "lanes": policies.map(lane),
    })
}

/// What the texts of a lane have besides algorithms, or leave out.
fn every_export() -> Value {
    let policies = [
        json!({ "name": "free", "strategy": "token_bucket", "quota": "unlimited" }),
        json!({ "name": "anchored", "strategy": "fixed_window", "quota": "50/s", "anchor": 250 }),
        json!({ "name": "own", "strategy": "gcra", "quota": "50/s", "caller_quotas": ["1/s", "99/s"], "overrides": true }),
    ];
    let backslash = json!({ "name": "a\\", "strategy": "sliding_log", "quota": "5/s" });
    json!({
        "id": "exports", "title": "Every export", "seed": 12, "duration": 2_000,
        "clients": [{ "name": "ada", "cost": 2 }],
        "streams": [{ "kind": "constant", "rate": "5/s", "uses": [1, 1] }],
        "lanes": [
            { "name": "Policies", "limits": policies.map(|policy| json!({ "policy": policy })) },
            {
                "name": "Settings", "limits": [{ "policy": backslash, "settle": true }], "spread": 1_500, "store": "share",
                "service": { "workers": 3 }, "shed": { "limit": [5, 10] },
            },
        ],
    })
}

pub(crate) fn run(scene: &Value) -> Value {
    let text = portcullis_playground::run(&scene.to_string());
    let result: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(result["error"].is_null(), "{}: {result}", scene["id"]);
    result
}

/// A counter of a lane.
pub(crate) fn count(result: &Value, lane: usize, name: &str) -> u64 {
    result["lanes"][lane]["counts"][name].as_u64().unwrap()
}

/// The most units in any period under the first limit of a lane.
pub(crate) fn most(result: &Value, lane: usize) -> u64 {
    result["lanes"][lane]["limits"][0]["most"].as_u64().unwrap()
}

/// The rows of a lane.
pub(crate) fn rows(result: &Value, lane: usize) -> Vec<[i64; 16]> {
    serde_json::from_value(result["lanes"][lane]["rows"].clone()).unwrap()
}
