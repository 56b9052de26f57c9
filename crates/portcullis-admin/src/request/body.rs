//! Reads the body of a request. An error names the field at fault, and repeats no value and no unknown name, which may be an identity in
//! the wrong place.

use axum::body::{Body, to_bytes};
use http::StatusCode;
use serde::de::{DeserializeOwned, DeserializeSeed as _};
use tokio::time::timeout;

use std::time::Duration;

use crate::problem::Problem;
use crate::request::unique::UniqueNames;

/// Reads a body, which is a JSON object.
pub(crate) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let too_slow = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body has not arrived in time");
    let bytes = timeout(BODY_DEADLINE, to_bytes(body, MAX_BODY)).await.map_err(too_slow)?.map_err(|_| {
        let detail = format!("the body has more than {MAX_BODY} bytes, or was interrupted");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    })?;
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let value = UniqueNames.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    let value = value.map_err(|error| {
        let what = if error.is_data() { "has a field twice" } else { "is not JSON" };
        let detail = format!("the body {what}, at line {} column {}", error.line(), error.column());
        Problem::new(StatusCode::BAD_REQUEST, detail)
    })?;
    if !value.is_object() {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the body is not a JSON object"));
    }
    serde_path_to_error::deserialize::<_, T>(value).map_err(|error| problem(&error))?;
    // Once more from the text: a value has lost the order of its fields, which is that of the parts of a key.
    serde_json::from_slice(&bytes)
        .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the body cannot be read"))
}

/// Takes the field and what is expected of it from an error of `serde`, which repeats the value as well.
fn problem(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let text = error.inner().to_string();
    let expected = text.rsplit_once("expected ").map_or("another value", |(_, expected)| expected);
    let mut place: Vec<_> = error.path().iter().map(ToString::to_string).collect();
    let detail = if let Some(name) = text.strip_prefix("missing field ") {
        place.push(name.trim_matches('`').to_owned());
        "is missing".to_owned()
    } else if text.starts_with("unknown field ") {
        place.pop();
        format!("has an unknown field, expected {expected}")
    } else if let Some(object) = place.iter().position(|name| NAMED_BY_CALLERS.contains(&name.as_str()))
        && object + 1 < place.len()
    {
        place.truncate(object + 1);
        format!("must have {expected} as each value")
    } else {
        format!("must be {expected}")
    };
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail);
    if place.is_empty() { problem } else { problem.with_field(place.join(".")) }
}

/// The highest number of bytes in a body.
pub(crate) const MAX_BODY: usize = 16 * 1_024;

const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// The objects within which the caller chooses the names.
const NAMED_BY_CALLERS: [&str; 2] = ["headers", "parts"];
