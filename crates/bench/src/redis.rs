//! Commands to a server and its replies, over a plain connection that costs the server nothing but the commands.

use std::fmt::Display;

use anyhow::{Context as _, Result, bail};
use portcullis_servers::encode_command;

pub use portcullis_servers::Reply as Value;

/// A command with its arguments.
#[derive(Debug, Clone)]
pub struct Cmd {
    words: Vec<Vec<u8>>,
}

/// A command without arguments yet.
pub fn cmd(name: &str) -> Cmd {
    Cmd { words: vec![name.into()] }
}

impl Cmd {
    /// Appends a text or a number.
    pub fn arg(&mut self, argument: impl Display) -> &mut Self {
        self.bytes(argument.to_string())
    }

    /// Appends an argument that may be no text.
    pub fn bytes(&mut self, argument: impl Into<Vec<u8>>) -> &mut Self {
        self.words.push(argument.into());
        self
    }

    /// Sends the command, and reads its reply.
    ///
    /// # Errors
    ///
    /// If the server does not answer, answers with an error, or with something else than a `T`.
    pub fn query<T: FromReply>(&self, connection: &mut Connection) -> Result<T> {
        connection.send(&self.packed())?;
        T::from_reply(connection.receive()?)
    }

    /// Sends the command, and discards its reply.
    ///
    /// # Errors
    ///
    /// If the server does not answer, or answers with an error.
    pub fn exec(&self, connection: &mut Connection) -> Result<()> {
        connection.send(&self.packed())?;
        connection.receive().map(drop)
    }

    /// The bytes to send.
    pub fn packed(&self) -> Vec<u8> {
        encode_command(&self.words)
    }
}

/// What a reply is expected to be.
pub trait FromReply: Sized {
    /// Converts a reply.
    ///
    /// # Errors
    ///
    /// If the reply is something else.
    fn from_reply(reply: Value) -> Result<Self>;
}

impl FromReply for String {
    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::SimpleString(text) | Value::BulkString(text) => Ok(Self::from_utf8(text)?),
            other => bail!("{other:?} is no text"),
        }
    }
}

impl FromReply for u32 {
    fn from_reply(reply: Value) -> Result<Self> {
        let Value::Integer(number) = reply else { bail!("{reply:?} is no integer") };
        Ok(number.try_into()?)
    }
}

/// A cursor and names.
impl FromReply for (u64, Vec<String>) {
    fn from_reply(reply: Value) -> Result<Self> {
        let Value::Array(parts) = reply else { bail!("{reply:?} is no array") };
        let Ok([cursor, Value::Array(names)]) = <[Value; 2]>::try_from(parts) else {
            bail!("the reply is no cursor with names")
        };
        let names = names.into_iter().map(String::from_reply).collect::<Result<_>>()?;
        Ok((String::from_reply(cursor)?.parse()?, names))
    }
}

/// A connection of the default user.
#[derive(Debug)]
pub struct Connection(portcullis_servers::Connection);

impl Connection {
    /// Connects to a server on this machine.
    ///
    /// # Errors
    ///
    /// If no server listens on the port.
    pub fn open(port: u16) -> Result<Self> {
        Ok(Self(portcullis_servers::Connection::open(port)?))
    }

    /// Sends packed commands with one write.
    ///
    /// # Errors
    ///
    /// If the connection is lost, or the server does not read for half a minute.
    pub fn send(&mut self, packed: &[u8]) -> Result<()> {
        self.0.send(packed).context("the commands were not sent")
    }

    /// Reads the next reply.
    ///
    /// # Errors
    ///
    /// If the connection is lost, the server sends nothing for half a minute, or the reply is or contains an error.
    pub fn receive(&mut self) -> Result<Value> {
        let reply = self.0.receive().context("no reply was received")?;
        if let Some(error) = error_in(&reply) {
            bail!("the server answers {error}");
        }
        Ok(reply)
    }
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
        let mut command = cmd("SET");
        command.arg("key").arg(-1).bytes(b"\r\n");
        assert_eq!(command.packed(), b"*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\n-1\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn replies_are_converted_or_rejected() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let scanned = Value::Array(vec![text("17"), Value::Array(vec![text("a"), text("b")])]);
        let (cursor, names): (u64, Vec<String>) = FromReply::from_reply(scanned).unwrap();
        assert_eq!((cursor, names), (17, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(u32::from_reply(Value::Integer(7)).unwrap(), 7);
        assert!(u32::from_reply(Value::Integer(-1)).is_err() && u32::from_reply(text("7")).is_err());
        assert!(String::from_reply(Value::Null).is_err());
    }

    #[test]
    fn errors_are_found_in_arrays_too() {
        let error = Value::Error("ERR".to_owned());
        assert_eq!(error_in(&error), Some("ERR"));
        assert_eq!(error_in(&Value::Array(vec![Value::Null, Value::Array(vec![error])])), Some("ERR"));
        assert_eq!(error_in(&Value::Array(vec![Value::Null])), None);
    }
}
