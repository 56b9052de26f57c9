//! The example with a gateway in front of a model, as it says of itself.

use axum::body::Bytes;
use axum::http::{Request, Response};
use portcullis_tests::HttpClient;
use serde_json::Value;

use crate::process::Process;

/// Asks the model for an answer, and reads it to its end.
async fn ask(gateway: &Process, key: &str, question: &'static str) -> Response<Bytes> {
    let request = Request::post(format!("{}/v1/chat/completions", gateway.url));
    HttpClient::http_1().send(request.header("authorization", format!("Bearer {key}")), question).await
}

fn left(response: &Response<Bytes>, budget: &str) -> u64 {
    let text = response.headers()[&format!("x-ratelimit-remaining-{budget}")].to_str().unwrap();
    text.parse().unwrap()
}

#[tokio::test]
async fn keys_have_budgets_of_tokens_and_requests() {
    let mut gateway = Process::llm_gateway().await;
    let page = gateway.line_with("the live page").await;
    let page = page.split_whitespace().next().unwrap();

    let first = ask(&gateway, "ada", "Why a portcullis?").await;
    let answer = std::str::from_utf8(first.body()).unwrap();
    assert!(first.status() == 200 && answer.contains("gate") && answer.ends_with("[DONE]\n\n"), "{answer}");
    let (_, used) = answer.split_once("\"total_tokens\":").unwrap();
    let used: u64 = used.split('}').next().unwrap().parse().unwrap();
    assert!((20..100).contains(&used), "{used}");
    assert_eq!((left(&first, "tokens"), left(&first, "requests")), (400, 19));
    let reset = first.headers()["x-ratelimit-reset-tokens"].to_str().unwrap();
    assert_eq!((reset, &first.headers()["x-ratelimit-limit-tokens"]), ("12s", &500.into()));

    // What was reserved and not used is back, and time brings more.
    let second = ask(&gateway, "ada", "Why a portcullis?").await;
    assert!((400 - used..=400).contains(&left(&second, "tokens")), "{:?}", second.headers());
    assert_eq!((left(&ask(&gateway, "grace", "Why?").await, "tokens")), 400);

    // The answer takes as many tokens as the question has words, and more. So the budget is a debt then.
    let question: &str = Box::leak("why ".repeat(900).into_boxed_str());
    assert_eq!(ask(&gateway, "ada", question).await.status(), 200);
    let denied = ask(&gateway, "ada", "Why?").await;
    assert_eq!((denied.status().as_u16(), left(&denied, "tokens")), (429, 0));
    assert!(denied.headers().contains_key("retry-after"));

    let snapshot = portcullis_tests::get(&format!("{page}/v1/snapshot")).await;
    let snapshot: Value = serde_json::from_slice(snapshot.body()).unwrap();
    let tokens = snapshot["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == "tokens");
    assert_eq!(tokens.unwrap()["rejected"], 1, "{snapshot}");
    let html = portcullis_tests::get(page).await;
    assert!(html.body().starts_with(b"<!doctype html>"));
}
