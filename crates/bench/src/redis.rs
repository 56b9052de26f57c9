//! Commands to a server and its replies, over a plain connection that costs the server nothing but the commands.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context as _, Result, bail, ensure};

/// A command with its arguments.
#[derive(Debug, Clone)]
pub struct Cmd {
    words: usize,
    bytes: Vec<u8>,
}

/// A command without arguments yet.
pub fn cmd(name: &str) -> Cmd {
    let mut command = Cmd { words: 0, bytes: Vec::new() };
    command.arg(name);
    command
}

impl Cmd {
    /// Appends an argument.
    pub fn arg(&mut self, argument: impl Argument) -> &mut Self {
        let argument = argument.into_bytes();
        self.words += 1;
        self.bytes.extend(format!("${}\r\n", argument.len()).into_bytes());
        self.bytes.extend(argument);
        self.bytes.extend(b"\r\n");
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
        [format!("*{}\r\n", self.words).as_bytes(), &self.bytes].concat()
    }
}

/// An argument of a command.
pub trait Argument {
    /// The bytes of the argument.
    fn into_bytes(self) -> Vec<u8>;
}

impl Argument for &str {
    fn into_bytes(self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl Argument for &String {
    fn into_bytes(self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl Argument for String {
    fn into_bytes(self) -> Vec<u8> {
        Self::into_bytes(self)
    }
}

impl Argument for &[u8] {
    fn into_bytes(self) -> Vec<u8> {
        self.to_vec()
    }
}

impl Argument for Vec<u8> {
    fn into_bytes(self) -> Vec<u8> {
        self
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Argument for $number {
            fn into_bytes(self) -> Vec<u8> {
                self.to_string().into_bytes()
            }
        })*
    };
}

numbers!(i32 u32 u64 usize);

/// A reply that is not an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// An integer.
    Int(i64),
    /// A line.
    SimpleString(String),
    /// Any bytes.
    BulkString(Vec<u8>),
    /// Several replies.
    Array(Vec<Value>),
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
            Value::SimpleString(line) => Ok(line),
            Value::BulkString(bytes) => Ok(Self::from_utf8(bytes)?),
            other => bail!("{other:?} is no text"),
        }
    }
}

impl FromReply for u32 {
    fn from_reply(reply: Value) -> Result<Self> {
        let Value::Int(number) = reply else { bail!("{reply:?} is no integer") };
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
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects to a server on this machine.
    ///
    /// # Errors
    ///
    /// If no server listens on the port.
    pub fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends packed commands with one write.
    ///
    /// # Errors
    ///
    /// If the connection is lost.
    pub fn send(&mut self, packed: &[u8]) -> Result<()> {
        Ok(self.0.get_mut().write_all(packed)?)
    }

    /// Reads the next reply.
    ///
    /// # Errors
    ///
    /// If the connection is lost, or the reply is an error.
    pub fn receive(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").context("the connection is lost")?;
        let (kind, rest) = line.split_at_checked(1).context("a reply has a type")?;
        match kind {
            "+" => Ok(Value::SimpleString(rest.to_owned())),
            ":" => Ok(Value::Int(rest.parse()?)),
            "$" | "*" if rest == "-1" => Ok(Value::Nil),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>()? + 2];
                self.0.read_exact(&mut bytes)?;
                ensure!(bytes.ends_with(b"\r\n"), "a string ends with its line");
                bytes.truncate(bytes.len() - 2);
                Ok(Value::BulkString(bytes))
            }
            "*" => {
                let count: usize = rest.parse()?;
                Ok(Value::Array((0..count).map(|_| self.receive()).collect::<Result<_>>()?))
            }
            _ => bail!("the server answers {line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_packed_with_the_lengths_of_its_words() {
        let mut command = cmd("SET");
        command.arg("key").arg(-1).arg(&b"\r\n"[..]);
        assert_eq!(command.packed(), b"*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\n-1\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn replies_are_converted_or_rejected() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let scanned = Value::Array(vec![text("17"), Value::Array(vec![text("a"), text("b")])]);
        let (cursor, names): (u64, Vec<String>) = FromReply::from_reply(scanned).unwrap();
        assert_eq!((cursor, names), (17, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(u32::from_reply(Value::Int(7)).unwrap(), 7);
        assert!(u32::from_reply(Value::Int(-1)).is_err() && u32::from_reply(text("7")).is_err());
        assert!(String::from_reply(Value::Nil).is_err());
    }
}
