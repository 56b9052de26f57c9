//! Corrections without a reply.

use std::time::Duration;

use portcullis_core::StoreErrorKind;
use portcullis_core::store::Store as _;

use super::{MONTHLY, Server, left_at_last, patient, receipt};

#[tokio::test]
async fn an_unanswered_correction_is_made_exactly_once() {
    let server = Server::start(&[]);
    let deadline = Duration::from_secs(2);
    let store = patient(server.url()).deadline(deadline).connect().await.unwrap();
    let mut left = 1_000;
    for instead in [None, Some(1), Some(9)] {
        let charged = receipt(&store, &MONTHLY, 4).await;
        assert_eq!(server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).trim(), "OK");
        let corrected = match instead {
            None => store.refund(charged).await.map(drop),
            Some(cost) => store.settle(charged, cost).await.map(drop),
        };
        assert_eq!(corrected.unwrap_err().kind(), StoreErrorKind::TimedOut);
        assert_eq!(server.cli(&["CLIENT", "UNPAUSE"]).trim(), "OK");
        left -= instead.unwrap_or(0);
        assert_eq!(left_at_last(&store, &MONTHLY).await, left, "{instead:?}");
    }
}
