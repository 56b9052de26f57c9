//! Replies that are lost after the server got the request.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::connection::{CallError, Connection, Options, Script};

use super::proxy::Proxy;
use super::scripts::{COUNT, count};
use super::server::Server;
use super::waiting::recovery;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_an_unknown_fate_with_one_charge() {
    let server = Server::start(&[]);
    let proxy = Proxy::default();
    let port = proxy.listen(server.port).await;
    let options = Options::default().deadline(Duration::from_secs(2));
    let connection = Connection::open(&format!("redis://127.0.0.1:{port}"), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    for round in 1..=5 {
        proxy.cuts_replies.store(true, Ordering::SeqCst);
        let error = count(&connection, &script, "k").await.unwrap_err();
        assert!(matches!(error, CallError::Lost(_)) && error.fate_unknown(), "{error}");
        proxy.cuts_replies.store(false, Ordering::SeqCst);
        assert!(recovery(&connection, &script, "warm").await < Duration::from_secs(5));
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), round.to_string());
    }
    assert!(proxy.cuts.load(Ordering::SeqCst) >= 5);
}
