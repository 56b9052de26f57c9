//! What is wrong with a scene is named, with its place.

use serde_json::{Value, json};

use crate::result::scene;

fn error(change: impl FnOnce(&mut Value)) -> String {
    let mut scene = scene("edge");
    change(&mut scene);
    let answer: Value = serde_json::from_str(&portcullis_playground::run(&scene.to_string())).unwrap();
    answer["error"].as_str().unwrap_or("no error").to_owned()
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
    ];
    for (error, expected) in expected {
        assert_eq!(error, expected);
    }
    let error = error(|scene| scene["lanes"][0]["limits"][0]["policy"]["quota"] = json!("ten"));
    assert!(error.starts_with("cannot read the quota \"ten\": expected `<limit>/<period>`"), "{error}");
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
