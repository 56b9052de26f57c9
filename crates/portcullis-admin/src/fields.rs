//! Reads the body of a request field by field, so that an error names the field at fault. No error repeats a value.

use axum::body::{Body, to_bytes};
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::time::timeout;

use std::time::Duration;

use crate::problem::Problem;
use crate::unique::UniqueNames;

/// The fields of an object that are not yet read.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The object's own place, with a dot at the end unless it is the body.
    path: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// Reads a body, which is a JSON object.
    pub(crate) async fn of_body(body: Body) -> Result<Self, Problem> {
        let too_slow = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body has not arrived in time");
        let bytes =
            timeout(BODY_DEADLINE, to_bytes(body, MAX_BODY)).await.map_err(too_slow)?.map_err(|_| {
                let detail = format!("the body has more than {MAX_BODY} bytes, or was interrupted");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
            })?;
        match serde_json::from_slice::<UniqueNames>(&bytes).and_then(|_| serde_json::from_slice(&bytes)) {
            Ok(Value::Object(fields)) => Ok(Self { path: String::new(), fields }),
            Ok(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body is not a JSON object")),
            Err(error) => {
                let what = if error.is_data() { "has a field twice" } else { "is not JSON" };
                let detail = format!("the body {what}, at line {} column {}", error.line(), error.column());
                Err(Problem::new(StatusCode::BAD_REQUEST, detail))
            }
        }
    }

    /// The place of a field.
    pub(crate) fn path(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    /// A text; `None` if the field is absent or null.
    pub(crate) fn text(&mut self, field: &str) -> Result<Option<String>, Problem> {
        match self.fields.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Problem::invalid(self.path(field), "must be a text")),
        }
    }

    pub(crate) fn required_text(&mut self, field: &str) -> Result<String, Problem> {
        self.text(field)?.ok_or_else(|| self.missing(field))
    }

    /// A number of seconds, 1 or more.
    pub(crate) fn required_seconds(&mut self, field: &str) -> Result<Duration, Problem> {
        let seconds = self.fields.remove(field).ok_or_else(|| self.missing(field))?;
        let seconds = seconds.as_u64().filter(|seconds| *seconds > 0);
        let detail = "must be a whole number of seconds, 1 or more";
        seconds.map(Duration::from_secs).ok_or_else(|| Problem::invalid(self.path(field), detail))
    }

    /// An object; `None` if the field is absent or null.
    pub(crate) fn object(&mut self, field: &str) -> Result<Option<Self>, Problem> {
        match self.fields.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self { path: format!("{}{field}.", self.path), fields })),
            Some(_) => Err(Problem::invalid(self.path(field), "must be an object")),
        }
    }

    /// The fields of an object of texts, which may have any names.
    pub(crate) fn into_texts(self) -> Result<Vec<(String, String)>, Problem> {
        let text = |(name, value): (String, Value)| match value {
            Value::String(text) => Ok((name, text)),
            _ => {
                Err(Problem::invalid(self.path.trim_end_matches('.').to_owned(), "must have texts as values"))
            }
        };
        self.fields.into_iter().map(text).collect()
    }

    pub(crate) fn missing(&self, field: &str) -> Problem {
        Problem::invalid(self.path(field), "is missing")
    }

    /// Refuses fields that were not read: a misspelt one would be ignored otherwise. `known` are all fields of the object.
    pub(crate) fn finish(self, known: &str) -> Result<(), Problem> {
        if self.fields.is_empty() {
            return Ok(());
        }
        // The name may be an identity in the wrong place, so it is not repeated.
        let problem =
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("has other fields than {known}"));
        let object = self.path.trim_end_matches('.');
        Err(if object.is_empty() { problem } else { problem.with_field(object.to_owned()) })
    }
}

/// The highest number of bytes in a body.
pub(crate) const MAX_BODY: usize = 16 * 1_024;

const BODY_DEADLINE: Duration = Duration::from_secs(10);
