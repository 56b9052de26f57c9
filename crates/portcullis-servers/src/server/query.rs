//! A command over a connection of its own. Tests send thousands, and a process for each would take most of their time.

use std::io;

use crate::TIMEOUT;
use crate::connection::{Connection, Reply, encode_command};

/// Sends a command as the default user, and returns what `redis-cli` would print: the elements of an array in lines of their own,
/// an error as its text, and nothing for nil, or where no server answers.
pub(super) fn query(port: u16, arguments: &[&str]) -> io::Result<Vec<u8>> {
    match exchange(port, arguments) {
        Ok(reply) => Ok(shown(&reply)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(io::Error::other(format!("no answer after {TIMEOUT:?} to {arguments:?}")))
        }
        Err(_) => Ok(Vec::new()),
    }
}

fn exchange(port: u16, arguments: &[&str]) -> io::Result<Reply> {
    let mut connection = Connection::open(port)?;
    connection.send(&encode_command(arguments))?;
    let reply = connection.receive()?;
    connection.close();
    Ok(reply)
}

fn shown(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::SimpleString(text) | Reply::BulkString(text) => text.clone(),
        Reply::Error(text) => text.clone().into_bytes(),
        Reply::Integer(number) => number.to_string().into_bytes(),
        Reply::Null => Vec::new(),
        Reply::Array(elements) => elements.iter().map(shown).collect::<Vec<_>>().join(&b'\n'),
    }
}

#[cfg(test)]
mod tests {
    use redis_protocol::resp2::decode::decode;

    use super::*;

    #[test]
    fn replies_are_shown_as_redis_cli_shows_them() {
        for (reply, text) in [
            ("+OK\r\n", "OK"),
            ("-ERR no such key\r\n", "ERR no such key"),
            (":17\r\n", "17"),
            ("$6\r\na\r\nb\r\n\r\n", "a\r\nb\r\n"),
            ("$-1\r\n", ""),
            ("*0\r\n", ""),
            ("*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n+b\r\n", "a\n1\n\nb"),
        ] {
            let (decoded, _) = decode(reply.as_bytes()).unwrap().unwrap();
            assert_eq!(String::from_utf8(shown(&decoded)).unwrap(), text, "{reply:?}");
        }
    }
}
