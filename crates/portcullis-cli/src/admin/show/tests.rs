use serde_json::json;

use super::*;

#[test]
fn a_list_is_a_table_in_the_order_of_known_names() {
    let top = json!([
        { "rejected": 2, "requests": 40, "policy": "search", "fingerprint": "00ff", "error": 0 },
        { "requests": 7, "policy": "a", "fingerprint": null, "rejected": 0, "error": 1, "zone": "b" },
    ]);
    assert_eq!(
        answer(&top),
        "\
policy  fingerprint  requests  rejected  error  zone
search         00ff        40         2      0
a                 -         7         0      1     b
"
    );
    assert_eq!(answer(&json!([])), "none\n");
    let layers = json!({ "layers": [{ "route": null, "policies": [{ "key": "client_ip", "mode": "10 %", "name": "search" }] }] });
    assert_eq!(answer(&layers), "layers\nroute               policies\n-      search 10 % client_ip\n");
}

#[test]
fn values_come_before_lists_and_members_have_both_names() {
    let snapshot = json!({
        "policies": [{ "tried_out_since": null, "registered_since": 1_700_000_000_000_u64, "counted": true, "layers": 2, "name": "search",
            "routes": ["GET /search", "GET /"] }],
        "time": 1_700_000_000_999_u64,
        "store": { "kind": "redis", "healthy": true, "figures": [] },
        "recent": [],
    });
    assert_eq!(
        answer(&snapshot),
        "\
time           2023-11-14T22:13:20Z
store.healthy  true
store.kind     redis

policies
name                routes  layers  counted      registered_since  tried_out_since
search  GET /search, GET /       2     true  2023-11-14T22:13:20Z                -

store.figures
none

recent
none
"
    );
}

#[test]
fn an_answer_without_values_is_done() {
    assert_eq!((answer(&Value::Null), answer(&json!({}))), ("done\n".to_owned(), "done\n".to_owned()));
    assert_eq!(answer(&json!("yes")), "yes\n");
}

#[test]
fn what_a_server_sends_is_shown_as_text() {
    let lying =
        json!({ "\u{1b}[2J": "\u{1b}]0;x\u{7}", "time": u64::MAX, "list": [{ "a\n": "\u{202e}" }, 7, "x"] });
    let shown = answer(&lying);
    assert!(shown.chars().all(|character| character == '\n' || !character.is_control()), "{shown:?}");
    assert!(!shown.contains('\u{202e}') && shown.contains("18446744073709551615"), "{shown}");
}

#[test]
fn a_snapshot_without_a_list_is_an_error() {
    assert_eq!(member(json!({ "top": [1] }), "top").unwrap(), json!([1]));
    assert!(member(json!({}), "top").unwrap_err().to_string().contains("another version"));
    assert!(member(json!([]), "top").unwrap_err().to_string().contains("no snapshot"));
}

#[test]
fn withheld_fingerprints_are_one_line() {
    let row = json!({ "policy": "search", "fingerprint": null, "requests": 7 });
    let mut snapshot = json!({ "top": [row], "fingerprints_withheld": "the secret is\npublished" });
    assert_eq!(take_withheld(&mut snapshot).as_deref(), Some(r"the secret is\u{a}published"));
    assert_eq!(answer(&member(snapshot, "top").unwrap()), "policy  requests\nsearch         7\n");
    let mut shown = json!({ "policy": "search", "fingerprint": null });
    assert_eq!(
        (take_withheld(&mut shown), answer(&shown)),
        (None, "policy       search\nfingerprint  -\n".to_owned())
    );
}
