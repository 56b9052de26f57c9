//! The probes that a link sends by itself.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::fred::interfaces::ClusterInterface as _;
use tokio::time::{Instant, sleep, timeout};

use super::reply::reply_to;
use super::reply_observer::{ReplyFuture, ReplyObserver};
use super::{LinkHealth, LinkPublisher, LinkState};
use crate::fred::command::Command;
use crate::fred::error::is_answer;
use crate::fred::live::Live;
use crate::resilience::breaker::BreakerPermit;
use crate::resilience::deadline::{ReplyTime, final_polls};
use crate::resilience::jitter::around;

impl LinkPublisher {
    /// Probes a server that is suspected to be in an outage, in a task, because no event of the client may be missed meanwhile.
    pub(super) fn spawn_probe(&self, deadline: Duration) {
        let Some(breaker_permit) = self.health.breaker.admit_suspicion_probe() else { return };
        let LinkState::Up(live) = self.state.borrow().clone() else { return };
        let health = Arc::clone(&self.health);
        tokio::spawn(async move { probe(&live, breaker_permit, &health, deadline).await });
    }

    /// Probes the server when an outage is suspected, and during an outage, which would last until the next call otherwise.
    pub(super) async fn probe_in_background(&self, live: &Live, deadline: Duration) -> Infallible {
        loop {
            let breaker_permit = tokio::select! {
                () = self.health.breaker.suspected() => self.health.breaker.admit_suspicion_probe(),
                () = sleep(around(BACKGROUND_PROBE_PAUSE)) => self.health.breaker.admit_background_probe(),
            };
            if let Some(breaker_permit) = breaker_permit {
                probe(live, breaker_permit, &self.health, deadline).await;
            }
        }
    }
}

/// Sends a probe of its own, and waits for its reply for a while.
async fn probe(live: &Live, breaker_permit: BreakerPermit, health: &Arc<LinkHealth>, deadline: Duration) {
    let (command, is_of_suspicion) = (Command::time(deadline), breaker_permit.settles_suspicion());
    let observer =
        ReplyObserver::new(&command, ReplyTime::Sufficient, breaker_permit, live, health, Instant::now());
    let reply = reply_to(live, command);
    let late = if is_of_suspicion {
        settle(observer, live, reply, deadline).await
    } else {
        observer.wait_for_reply(deadline, reply).await
    };
    // Those beyond their deadline wait for the finding.
    health.in_flight.recheck_breaker();
    if let Some(late) = late
        && timeout(LATE_REPLY_WAIT, late).await.is_ok_and(|result| is_answer(&result))
    {
        live.liveness.reply();
    }
}

/// Waits for the reply to the probe of a suspicion, [in parts](crate::resilience::overtime) from when it was certainly written until
/// what has come was certainly read. Returns the pending reply, if there is none by then.
async fn settle(
    mut observer: ReplyObserver,
    live: &Live,
    mut reply: ReplyFuture,
    deadline: Duration,
) -> Option<ReplyFuture> {
    let mut result = wait_for_turn(live, reply.as_mut(), deadline).await;
    if result.is_none() {
        result = observer.wait_on(Instant::now(), deadline, reply.as_mut()).await;
    }
    if result.is_none() {
        result = wait_for_turn(live, reply.as_mut(), deadline).await;
    }
    if observer.observe_result(result) { None } else { Some(reply) }
}

/// Waits for a turn of fred's task, which writes and reads, for a deadline at most. It may stand still while timers are exact, behind
/// another task on its thread. Returns the reply if it comes meanwhile.
async fn wait_for_turn<F: Future + ?Sized>(
    live: &Live,
    mut reply: Pin<&mut F>,
    deadline: Duration,
) -> Option<F::Output> {
    // In a cluster behind a client of the user, it is more than a turn: fred reads the map.
    if live.is_clustered() {
        return None;
    }
    // What is before a command that sends nothing is not flushed before the next one that does.
    let flush = reply_to(live, Command::time(deadline));
    tokio::select! {
        biased;
        _ = live.client.sync_cluster() => final_polls(reply).await,
        reply = reply.as_mut() => Some(reply),
        _ = flush => final_polls(reply).await,
        () = sleep(deadline) => None,
    }
}

/// Calls, if there are any, probe earlier.
const BACKGROUND_PROBE_PAUSE: Duration = Duration::from_millis(500);
/// How long the late reply to a probe is waited for.
const LATE_REPLY_WAIT: Duration = Duration::from_secs(1);
