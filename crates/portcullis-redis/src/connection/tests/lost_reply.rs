//! Replies that are lost after the server got the request.

use std::time::Duration;

use portcullis_servers::Fault;

use crate::protocol::script::Script;
use crate::transport::CallError;

use super::scripts::{COUNT, count};
use super::server::Server;
use super::waiting::{patient, recovery};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_an_unknown_result_with_one_charge() {
    let server = Server::start(&[]);
    let (proxy, connection) = server.behind_proxy(patient().deadline(Duration::from_secs(2))).await;
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    for round in 1..=5 {
        proxy.set_fault(Fault::CutReply);
        let error = count(&connection, &script, "k").await.unwrap_err();
        assert!(matches!(error, CallError::Lost(_)) && error.fate_unknown(), "{error}");
        proxy.set_fault(Fault::None);
        assert!(recovery(&connection, &script, "warm").await < Duration::from_secs(5));
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), round.to_string());
    }
    assert!(proxy.cut_replies() >= 5);
}
