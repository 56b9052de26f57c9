//! A command over a connection of its own. Tests send thousands, and a process for each would take most of their time.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};

use crate::TIMEOUT;

/// Sends a command as the default user, and returns what `redis-cli` would print: the elements of an array in lines of their own,
/// an error as its text, and nothing for nil, or where no server answers.
pub(super) fn query(port: u16, arguments: &[&str]) -> io::Result<Vec<u8>> {
    match exchange(port, arguments) {
        Ok(reply) => Ok(reply),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(io::Error::other(format!("no answer after {TIMEOUT:?} to {arguments:?}")))
        }
        Err(_) => Ok(Vec::new()),
    }
}

fn exchange(port: u16, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    write!(request, "*{}\r\n", arguments.len())?;
    for argument in arguments {
        write!(request, "${}\r\n{argument}\r\n", argument.len())?;
    }
    stream.write_all(&request)?;
    let mut reader = BufReader::new(&stream);
    let mut text = Vec::new();
    append_reply(&mut reader, &mut text)?;
    // The server closes the connection when it has removed the client, which a later `CLIENT LIST` must not show. Its reply is
    // complete without that.
    if stream.shutdown(Shutdown::Write).is_ok() {
        let _ = reader.read_to_end(&mut Vec::new());
    }
    Ok(text)
}

/// Reads one reply in version 2 of the protocol.
fn append_reply(reader: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<()> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let Some((kind, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    match kind {
        b'+' | b'-' | b':' => text.extend(rest),
        b'$' => {
            if let Some(length) = length(rest) {
                let start = text.len();
                text.resize(start + length, 0);
                reader.read_exact(&mut text[start..])?;
                reader.read_exact(&mut [0; 2])?;
            }
        }
        b'*' => {
            for element in 0..length(rest).unwrap_or(0) {
                if element > 0 {
                    text.push(b'\n');
                }
                append_reply(reader, text)?;
            }
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(())
}

/// The length of a string or an array; none if it is nil, with the length -1.
fn length(digits: &[u8]) -> Option<usize> {
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(reply: &str) -> io::Result<String> {
        let (mut reader, mut text) = (reply.as_bytes(), Vec::new());
        append_reply(&mut reader, &mut text)?;
        Ok(String::from_utf8(text).unwrap())
    }

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
            assert_eq!(shown(reply).unwrap(), text, "{reply:?}");
        }
    }

    #[test]
    fn an_incomplete_reply_is_an_error() {
        for reply in ["", "+OK", "$3\r\nab", "*2\r\n:1\r\n", "?\r\n"] {
            assert!(shown(reply).is_err(), "{reply:?}");
        }
    }
}
