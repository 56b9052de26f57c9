//! In place of a model: it streams an answer as OpenAI's API does, and states at the end what it has used.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use tokio_stream::StreamExt as _;

pub(crate) fn app() -> Router {
    Router::new().route("/v1/chat/completions", post(complete))
}

/// A word is a token here, also of a request.
async fn complete(request: String) -> impl IntoResponse {
    let used = request.split_whitespace().count() + ANSWER.split(' ').count();
    let word = |word| format!(r#"data: {{"choices":[{{"delta":{{"content":"{word}"}}}}],"usage":null}}"#);
    let last =
        [format!(r#"data: {{"choices":[],"usage":{{"total_tokens":{used}}}}}"#), "data: [DONE]".to_owned()];
    let events = ANSWER.split_inclusive(' ').map(word).chain(last);
    let events = tokio_stream::iter(events).throttle(Duration::from_millis(20));
    let events = events.map(|event| Ok::<_, Infallible>(event + "\n\n"));
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events))
}

const ANSWER: &str = "A gate that is let down in time keeps the castle, and a sign in front of it states when it \
                      opens again, so that no guest has to knock twice.";
