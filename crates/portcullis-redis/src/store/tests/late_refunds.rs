//! Refunds of decisions over several slots, whatever happens to the callers and their calls.

use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Policy, Quota, StoreError};
use portcullis_servers::{RedisCluster, RedisServer};
use tokio::task::JoinHandle;

use super::{RedisStore, key, left_at_last, name, patient};
use crate::connection::tests::waiting::until;
use crate::protocol::keys::slot;

const WIDE: Policy = Policy::fixed_window("wide", Quota::per_week(90));
const DOOR: Policy = Policy::fixed_window("door", Quota::per_week(1));

/// Ada has used 4 units before, and holds 3 more until they are refunded, because Grace is denied.
struct Decision {
    cluster: RedisCluster,
    store: RedisStore,
    pending: JoinHandle<Result<Outcome, StoreError>>,
}

impl Decision {
    /// Makes a decision whose refund has reached a paused server.
    async fn held(deadline: Duration, loses_scripts: bool) -> Self {
        let cluster = RedisCluster::start(3, 0).unwrap();
        let store = patient(cluster.url()).deadline(deadline).connect().await.unwrap();
        let (ada, grace) = (key(&["ada"]), key(&["grace"]));
        for checks in [Checks::one(WIDE, ada, 4), Checks::one(DOOR, grace, 1)] {
            assert!(store.check(checks).await.unwrap().is_allowed());
        }
        let [of_ada, of_grace] = [ada, grace].map(|key| cluster.primary_of(slot(key)).unwrap());
        assert_ne!(of_ada, of_grace);
        pause(&cluster.nodes()[of_grace]);
        let (asking, both) = (store.clone(), Checks::one(WIDE, ada, 3).and(DOOR, grace, 1).unwrap());
        let pending = tokio::spawn(async move { asking.check(both).await });
        let decision = Self { cluster, store, pending };
        decision.await_used(7).await;
        if loses_scripts {
            assert_eq!(decision.of_ada().cli(&["SCRIPT", "FLUSH"]).unwrap(), "OK");
        }
        pause(decision.of_ada());
        unpause(&decision.cluster.nodes()[of_grace]);
        until(|| decision.of_ada().cli(&["INFO", "clients"]).unwrap().contains("blocked_clients:1")).await;
        decision
    }

    fn of_ada(&self) -> &RedisServer {
        &self.cluster.nodes()[self.cluster.primary_of(slot(key(&["ada"]))).unwrap()]
    }

    /// Waits until Ada has used this number of units, which is the double at the end of the state.
    async fn await_used(&self, units: u32) {
        let state = || self.of_ada().cli(&["--no-raw", "GET", &name(&WIDE)]).unwrap();
        let count = format!("{}\"", f64::from(units).to_le_bytes().escape_ascii());
        until(|| state().trim_end().ends_with(&count)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_is_made_after_the_client_disconnects() {
    let mut decision = Decision::held(Duration::from_secs(20), true).await;
    decision.pending.abort();
    assert!((&mut decision.pending).await.unwrap_err().is_cancelled());
    // The refund was sent before the caller went away, and the server replies that the script is unknown: it must be repeated.
    unpause(decision.of_ada());
    decision.await_used(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_refund_is_made_exactly_once() {
    let mut decision = Decision::held(Duration::from_secs(6), false).await;
    let outcome = (&mut decision.pending).await.unwrap().unwrap();
    assert!(!outcome.is_allowed());
    unpause(decision.of_ada());
    assert_eq!(left_at_last(&decision.store, &WIDE).await, 90 - 4);
}

/// Pauses the writes of a server, for longer than a test takes.
fn pause(server: &RedisServer) {
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).unwrap(), "OK");
}

fn unpause(server: &RedisServer) {
    assert_eq!(server.cli(&["CLIENT", "UNPAUSE"]).unwrap(), "OK");
}
