use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use super::*;

/// A pool with a kept connection, and its other end.
async fn kept() -> (Pool, TcpStream) {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let pool = Pool::new(Upstream::new(&url).unwrap(), 1, Duration::from_secs(600), 16_384, 1);
    let Ok(Lease::Http1 { mut connection, .. }) = pool.lease(false, false).await else {
        panic!("no connection of HTTP/1.1");
    };
    connection.ready().await.unwrap();
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

/// What a burst has opened is closed, except one.
#[tokio::test]
async fn spare_connection_of_http2_is_closed() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let pool = Pool::new(Upstream::new(&url).unwrap().http2(), 1, Duration::ZERO, 16_384, 200);
    let mut burst = Vec::new();
    for _ in 0..101 {
        burst.push(pool.lease(false, false).await.unwrap());
    }
    assert_eq!(pool.shared().len(), 2);
    drop(burst);
    assert!(pool.lease(false, false).await.unwrap().is_http2());
    assert_eq!(pool.shared().len(), 1);
}

#[tokio::test]
async fn ended_connection_of_http2_is_not_used() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let pool = Pool::new(Upstream::new(&url).unwrap().http2(), 1, Duration::from_secs(600), 16_384, 1);
    drop(pool.lease(false, false).await.unwrap());
    drop(upstream.accept().unwrap());
    let ended = async {
        while pool.lease_stream().is_some() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), ended).await.unwrap();
}
