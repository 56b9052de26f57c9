//! The description of the API: complete, consistent, and true.

use std::collections::BTreeSet;

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use crate::support::{ADA, Limited, of, with};

async fn document(limited: &Limited) -> Value {
    limited.get("/v1/openapi.json").await.json()
}

/// Every value under a key, at any depth.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key));
            fields.values().for_each(|value| all(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

/// A validator of a form in the document.
fn form(document: &Value, pointer: &str) -> Validator {
    let mut schema = document.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}")).clone();
    schema["components"] = document["components"].clone();
    jsonschema::options().with_draft(Draft::Draft202012).build(&schema).unwrap()
}

#[tokio::test]
async fn every_reference_resolves_and_every_route_is_described() {
    let limited = Limited::new();
    let document = document(&limited).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut references = Vec::new();
    all(&document, "$ref", &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    let mut ids = Vec::new();
    all(&document["paths"], "operationId", &mut ids);
    assert_eq!(ids.iter().map(|id| id.as_str()).collect::<BTreeSet<_>>().len(), 14);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            // All routes exist, and answer with a problem to what is no request of theirs.
            let answer = if method == "get" { continue } else { limited.post(path, &json!({})).await };
            assert_eq!(answer.problem(), (422, Some("policy".to_owned())), "{path}");
            let problem = form(&document, "/components/schemas/Problem");
            assert!(problem.is_valid(&answer.json()), "{path} {}", answer.text);
        }
    }
}

#[tokio::test]
async fn requests_and_answers_have_the_described_forms() {
    let limited = Limited::new();
    let document = document(&limited).await;
    for _ in 0..5 {
        limited.request(ADA).await;
    }
    let day = json!({ "duration_seconds": 86_400 });
    let conforms = |path: &str, method: &str, body: Option<&Value>, answer: &Value| {
        let place = format!("/paths/{}/{method}", path.replace('/', "~1"));
        if let Some(body) = body {
            let request = form(&document, &format!("{place}/requestBody/content/application~1json/schema"));
            assert!(request.is_valid(body), "{path} {body}");
        }
        let answers = form(&document, &format!("{place}/responses/200/content/application~1json/schema"));
        let errors: Vec<_> = answers.iter_errors(answer).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path} {errors:?}");
    };
    for (path, body) in [
        ("/v1/grant", with(with(of(ADA), &day), &json!({ "quota": "9/w" }))),
        ("/v1/block", with(of(ADA), &day)),
        ("/v1/overrides", of(ADA)),
        ("/v1/budget", of(ADA)),
        ("/v1/mode", json!({ "policy": "search", "mode": "enforce" })),
        ("/v1/quota", json!({ "policy": "search", "quota": "4/w" })),
    ] {
        let answer = limited.post(path, &body).await;
        assert_eq!(answer.status, 200, "{path} {answer:?}");
        conforms(path, "post", Some(&body), &answer.json());
    }
    for path in ["/v1/snapshot", "/v1/policies", "/v1/layers"] {
        conforms(path, "get", None, &limited.get(path).await.json());
    }
    for (path, body) in [("/v1/unblock", of(ADA)), ("/v1/revoke", of(ADA)), ("/v1/reset", of(ADA))] {
        conforms(path, "post", Some(&body), &limited.post(path, &body).await.json());
        conforms("/v1/overrides", "post", None, &limited.post("/v1/overrides", &of(ADA)).await.json());
    }
    let request = form(&document, "/paths/~1v1~1budget/post/requestBody/content/application~1json/schema");
    for body in [json!({}), with(of(ADA), &json!({ "more": 1 })), json!({ "policy": 1, "identity": {} })] {
        assert!(!request.is_valid(&body), "{body}");
    }
}
