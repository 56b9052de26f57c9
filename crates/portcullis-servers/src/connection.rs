//! A connection that sends and receives. `redis-protocol` encodes and decodes.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};

use redis_protocol::bytes::{Buf as _, BytesMut};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::encode::encode_borrowed;
use redis_protocol::resp2::types::{BorrowedFrame, OwnedFrame};

use crate::TIMEOUT;

/// A reply in version 2 of the protocol, which may be an error.
pub type Reply = OwnedFrame;

/// A plain connection of the default user to a server on this machine, which costs the server nothing but the commands.
///
/// ```
/// use portcullis_servers::{Connection, RedisServer, Reply, encode_command};
///
/// # fn main() -> std::io::Result<()> {
/// let server = RedisServer::start()?;
/// let mut connection = Connection::open(server.port())?;
/// connection.send(&encode_command(&["APPEND", "key", "text"]))?;
/// assert_eq!(connection.receive()?, Reply::Integer(4));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    /// The beginning of the next reply, and whatever follows it.
    received: BytesMut,
}

impl Connection {
    /// Connects to a server.
    pub fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::with_capacity(CHUNK, stream), received: BytesMut::new() })
    }

    /// Sends one or more [encoded](encode_command) commands with one write.
    pub fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(commands)
    }

    /// Reads the next reply.
    pub fn receive(&mut self) -> io::Result<Reply> {
        receive(&mut self.stream, &mut self.received)
    }

    /// Waits until the server has closed the connection as well. It has removed the client then, which a later `CLIENT LIST`
    /// must not show.
    pub(crate) fn close(mut self) {
        if self.stream.get_ref().shutdown(Shutdown::Write).is_ok() {
            // The replies are complete without what follows them.
            let _ = self.stream.read_to_end(&mut Vec::new());
        }
    }
}

fn receive(reader: &mut impl BufRead, received: &mut BytesMut) -> io::Result<Reply> {
    loop {
        let decoded = decode(received).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if let Some((reply, length)) = decoded {
            received.advance(length);
            return Ok(reply);
        }
        let chunk = match reader.fill_buf() {
            Ok([]) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(chunk) => chunk,
            // A socket with a timeout is interrupted when the process continues after a stop.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        received.extend_from_slice(chunk);
        let length = chunk.len();
        reader.consume(length);
    }
}

/// Encodes a command: its name, and its arguments.
///
/// ```
/// use portcullis_servers::encode_command;
///
/// assert_eq!(encode_command(&["GET", "key"]), b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// ```
pub fn encode_command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let words: Vec<_> = words.iter().map(|word| BorrowedFrame::BulkString(word.as_ref())).collect();
    let command = BorrowedFrame::Array(&words);
    let mut encoded = vec![0; command.encode_len(false)];
    encode_borrowed(&mut encoded, &command, false).expect("the buffer has the length of the command");
    encoded
}

/// The bytes of a read, at most. After a read that does not complete a reply, its beginning is decoded again.
const CHUNK: usize = 256 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_received_one_after_the_other() {
        for bytes_per_read in [1, 100] {
            let sent = b"+OK\r\n*3\r\n:1\r\n$-1\r\n$2\r\n\r\n\r\n-ERR no such key\r\n";
            let mut reader = BufReader::with_capacity(bytes_per_read, &sent[..]);
            let mut received = BytesMut::new();
            for reply in [
                Reply::SimpleString(b"OK".to_vec()),
                Reply::Array(vec![Reply::Integer(1), Reply::Null, Reply::BulkString(b"\r\n".to_vec())]),
                Reply::Error("ERR no such key".to_owned()),
            ] {
                assert_eq!(receive(&mut reader, &mut received).unwrap(), reply);
            }
            assert!(receive(&mut reader, &mut received).is_err());
        }
    }

    #[test]
    fn an_incomplete_reply_is_an_error() {
        for reply in ["", "+OK", "$3\r\nab", "*2\r\n:1\r\n", "?\r\n"] {
            assert!(receive(&mut reply.as_bytes(), &mut BytesMut::new()).is_err(), "{reply:?}");
        }
    }
}
