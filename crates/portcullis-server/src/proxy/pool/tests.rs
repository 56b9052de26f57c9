use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use super::*;

/// A pool with a kept connection, and its other end.
async fn kept() -> (Pool, TcpStream) {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let pool = Pool::new(Upstream::new(&url).unwrap(), 1, Duration::from_secs(600), 16_384);
    let Ok(Lease::Http1 { mut connection, .. }) = pool.lease(false, false).await else {
        panic!("no connection of HTTP/1.1");
    };
    connection.sender.ready().await.unwrap();
    pool.put(connection);
    (pool, upstream.accept().unwrap().0)
}

#[tokio::test]
async fn quiet_connection_is_used_again() {
    let (pool, _end) = kept().await;
    assert!(pool.take_idle().is_some());
}

/// Nothing is awaited after the bytes are there, so that only the system knows of them.
#[tokio::test]
async fn connection_with_stray_bytes_is_not_used() {
    let (pool, mut end) = kept().await;
    end.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert!(pool.take_idle().is_none());
}

#[tokio::test]
async fn closed_connection_is_not_used() {
    let (pool, end) = kept().await;
    drop(end);
    assert!(pool.take_idle().is_none());
}
