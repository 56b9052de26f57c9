//! A Redis server, and its protocol without a client library, so that every byte that is sent is known.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use portcullis_servers::RedisServer;

/// A server that ends with this process.
pub(crate) struct Server {
    process: RedisServer,
    socket: BufReader<TcpStream>,
}

/// What a server replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nil,
    List(Vec<Reply>),
}

impl Server {
    pub(crate) fn start() -> Self {
        let process = RedisServer::start().expect("redis-server is installed");
        let socket = TcpStream::connect(("127.0.0.1", process.port())).expect("the server listens");
        socket.set_nodelay(true).expect("a socket has this option");
        // A script that does not end is a finding.
        socket.set_read_timeout(Some(MAX_SCRIPT_TIME)).expect("a timeout above zero");
        Self { process, socket: BufReader::new(socket) }
    }

    pub(crate) fn url(&self) -> String {
        self.process.url()
    }

    /// Sends all commands at once, and reads their replies.
    pub(crate) fn call(&mut self, commands: &[Vec<&[u8]>]) -> Vec<Reply> {
        let mut request = Vec::new();
        for command in commands {
            request.extend(format!("*{}\r\n", command.len()).bytes());
            for word in command {
                request.extend(format!("${}\r\n", word.len()).bytes());
                request.extend_from_slice(word);
                request.extend(b"\r\n");
            }
        }
        self.socket.get_mut().write_all(&request).expect("the server is there");
        commands.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.socket.read_line(&mut line).expect("the server replies in time");
        let line = line.trim_end();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().expect("a number");
        match kind {
            "-" => Reply::Error(rest.to_owned()),
            "+" => Reply::Bytes(rest.as_bytes().to_vec()),
            ":" => Reply::Number(number()),
            "$" => usize::try_from(number()).map_or(Reply::Nil, |length| self.bytes(length)),
            "*" => usize::try_from(number())
                .map_or(Reply::Nil, |length| Reply::List((0..length).map(|_| self.reply()).collect())),
            _ => panic!("unexpected reply {line:?}"),
        }
    }

    fn bytes(&mut self, length: usize) -> Reply {
        let mut bytes = vec![0; length + 2];
        self.socket.read_exact(&mut bytes).expect("the server replies in time");
        bytes.truncate(length);
        Reply::Bytes(bytes)
    }
}

impl Reply {
    pub(crate) fn number(&self) -> i64 {
        if let Self::Number(number) = self { *number } else { panic!("{self:?} is not a number") }
    }
}

const MAX_SCRIPT_TIME: Duration = Duration::from_secs(20);
