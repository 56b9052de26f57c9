//! Commands to a server and its replies, over a plain connection that costs the server nothing but the commands.

use std::fmt::Display;

use anyhow::{Context as _, Result, bail};
use portcullis_servers::encode_command;

pub use portcullis_servers::{Connection, Reply as Value};

/// A command with its arguments.
#[derive(Debug, Clone)]
#[must_use]
pub struct Cmd {
    words: Vec<Vec<u8>>,
}

/// A command without arguments yet.
pub fn cmd(name: &str) -> Cmd {
    Cmd { words: vec![name.into()] }
}

impl Cmd {
    /// Appends a text or a number.
    pub fn arg(self, argument: impl Display) -> Self {
        self.bytes(argument.to_string())
    }

    /// Appends an argument that may be no text.
    pub fn bytes(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.words.push(argument.into());
        self
    }

    /// Sends the command, and reads its reply.
    pub fn query(&self, connection: &mut Connection) -> Result<Value> {
        connection.send(&self.packed()).context("the command was not sent")?;
        receive(connection)
    }

    /// The bytes to send.
    pub fn packed(&self) -> Vec<u8> {
        encode_command(&self.words)
    }
}

/// The text of a reply.
pub fn text(reply: Value) -> Result<String> {
    match reply {
        Value::SimpleString(text) | Value::BulkString(text) => Ok(String::from_utf8(text)?),
        other => bail!("{other:?} is no text"),
    }
}

/// Reads the next reply, which is and contains no error.
pub fn receive(connection: &mut Connection) -> Result<Value> {
    let reply = connection.receive().context("no reply was received")?;
    if let Some(error) = error_in(&reply) {
        bail!("the server answers {error}");
    }
    Ok(reply)
}

fn error_in(reply: &Value) -> Option<&str> {
    match reply {
        Value::Error(error) => Some(error),
        Value::Array(replies) => replies.iter().find_map(error_in),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_packed_with_the_lengths_of_its_words() {
        let command = cmd("SET").arg("key").arg(-1).bytes(b"\r\n");
        assert_eq!(command.packed(), b"*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\n-1\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn texts_are_converted_and_others_rejected() {
        assert_eq!(text(Value::BulkString(b"a".to_vec())).unwrap(), "a");
        assert!(text(Value::Null).is_err() && text(Value::Integer(7)).is_err());
    }

    #[test]
    fn errors_are_found_in_arrays_too() {
        let error = Value::Error("ERR".to_owned());
        assert_eq!(error_in(&error), Some("ERR"));
        assert_eq!(error_in(&Value::Array(vec![Value::Null, Value::Array(vec![error])])), Some("ERR"));
        assert_eq!(error_in(&Value::Array(vec![Value::Null])), None);
    }
}
