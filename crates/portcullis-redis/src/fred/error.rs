//! Classifies the client's errors.

use ::fred::error::{Error, ErrorKind};

use crate::transport::{CallError, is_reply};

/// Classifies an error by its text: most have the same kind. `next` means that no earlier call still waits for its reply.
pub(super) fn call_error(error: &Error, next: bool) -> CallError {
    let text = error.details();
    match (error.kind(), CallError::from_reply(text)) {
        (ErrorKind::Backpressure, _) => CallError::Overloaded,
        _ if NEVER_SENT.contains(&text) => CallError::Unavailable(text.to_owned().into()),
        _ if text == REDIRECTED => CallError::Moving(text.into()),
        // fred fails all calls in flight with this text, not only the call that the server refused.
        (_, Some(reply)) if reply.is_cluster_down() && !next => CallError::Lost(text.into()),
        (_, Some(reply)) => reply,
        (_, None) => CallError::Lost(reason_of(error).to_owned()),
    }
}

/// Whether a server has replied, possibly with an error.
pub(super) fn is_answer<T>(result: &Result<T, Error>) -> bool {
    result.as_ref().map_or_else(|error| is_reply(error.details()), |_| true)
}

/// Returns a readable message. fred formats an I/O error with `Debug`, which contains the message in the middle.
pub(super) fn reason_of(error: &Error) -> &str {
    let words = error.details().split_once("message: \"").and_then(|(_, rest)| rest.split_once('"'));
    words.map_or(error.details(), |(words, _)| words)
}

/// With redirections disabled, fred returns this error after an ASK, and after a MOVED once it has read the new map of slots.
const REDIRECTED: &str = "Too many redirections.";

/// fred's messages for a command that it did not write to a socket. It returns the first two when it accepts a command, the
/// fourth if the router has no connection for it, and the last for commands that remain when the router has ended.
///
/// Not among them, because it also returns them for commands that were written: "Too many failed write attempts." and "channel closed".
const NEVER_SENT: [&str; 5] = [
    "Connection closed unexpectedly.",
    "Client is not initialized.",
    "Failed to send command to router.",
    "Failed to route command.",
    "Canceled.",
];

#[cfg(test)]
mod tests;
