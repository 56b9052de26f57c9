//! An nginx that answers with the client address that it finds.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use super::PEER;
use crate::process::{Proxy, free_address};

/// An nginx with one connection, which is kept alive for all requests.
pub(super) struct RealIp {
    stream: TcpStream,
    _proxy: Proxy,
}

impl RealIp {
    pub(super) fn start(trusted: &[&str]) -> Self {
        let address = free_address();
        let trusted: String =
            trusted.iter().map(|network| ["    set_real_ip_from ", network, ";\n"].concat()).collect();
        let http = format!(
            "keepalive_requests 1000000;\nserver {{\n    listen {address};\n{trusted}    real_ip_header X-Forwarded-For;\n    \
             real_ip_recursive on;\n    location / {{ return 200 $remote_addr; }}\n}}\n"
        );
        let proxy = Proxy::nginx(&http, address);
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream, _proxy: proxy }
    }

    /// The client of a request with these lines of `X-Forwarded-For`. An IPv4-mapped address is returned as IPv4.
    pub(super) fn client(&mut self, lines: &[String]) -> IpAddr {
        let mut request = "GET / HTTP/1.1\r\nHost: localhost\r\n".to_owned();
        for line in lines {
            request.extend(["X-Forwarded-For: ", line, "\r\n"]);
        }
        request.push_str("\r\n");
        self.stream.write_all(request.as_bytes()).unwrap();
        let body = self.body(lines);
        body.parse::<IpAddr>().unwrap_or_else(|_| panic!("{lines:?}: {body}")).to_canonical()
    }

    /// Whether nginx parses an element as an address, which is then the client, as it is the only element.
    pub(super) fn reads(&mut self, element: &str) -> bool {
        self.client(&[element.to_owned()]) != PEER
    }

    fn body(&mut self, lines: &[String]) -> String {
        let mut answer = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                assert!(head.starts_with("HTTP/1.1 200 "), "{lines:?}: {head}");
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
                if body.len() == length.parse::<usize>().unwrap() {
                    return body.to_owned();
                }
            }
            let mut more = [0; 1024];
            let count = self.stream.read(&mut more).unwrap();
            assert_ne!(count, 0, "{lines:?}: nginx closed the connection");
            answer.extend_from_slice(&more[..count]);
        }
    }
}
