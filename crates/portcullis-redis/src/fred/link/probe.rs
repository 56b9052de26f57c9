//! The probes that a link sends by itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::in_flight_call::{ReplyObserver, reply_to};
use super::{LinkPublisher, State};
use crate::fred::command::Command;
use crate::fred::error::is_answer;
use crate::fred::live::Live;
use crate::resilience::breaker::BreakerPermit;
use crate::resilience::deadline::ReplyTime;
use crate::resilience::in_flight::InFlightLimit;
use crate::resilience::jitter::around;
use crate::resilience::outage_log::OutageLog;

impl LinkPublisher {
    /// Probes a server that is suspected to be in an outage, in a task, because no event of the client may be missed meanwhile.
    pub(super) fn spawn_probe(&self, deadline: Duration) {
        let Some(breaker_permit) = self.breaker.admit_suspicion_probe() else { return };
        let State::Up(live) = self.state.borrow().clone() else { return };
        let (in_flight, outage_log) = (Arc::clone(&self.in_flight), Arc::clone(&self.outage_log));
        tokio::spawn(async move {
            probe(&live, breaker_permit, &in_flight, &outage_log, deadline).await;
        });
    }

    /// Probes the server when an outage is suspected, and during an outage without calls. Otherwise a short outage would last until
    /// the next call, and that call would be the one to find out that the connection is dead.
    pub(super) async fn probe_in_background(&self, live: &Live, deadline: Duration) -> Infallible {
        loop {
            let breaker_permit = tokio::select! {
                () = self.breaker.suspected() => self.breaker.admit_suspicion_probe(),
                () = sleep(around(BACKGROUND_PROBE_PAUSE)) => self.breaker.admit_background_probe(),
            };
            if let Some(breaker_permit) = breaker_permit {
                probe(live, breaker_permit, &self.in_flight, &self.outage_log, deadline).await;
            }
        }
    }
}

/// Sends a probe of its own, and waits for its reply for a while. The probe of a suspicion waits
/// [in parts](crate::resilience::overtime) from the beginning.
async fn probe(
    live: &Live,
    breaker_permit: BreakerPermit,
    in_flight: &Arc<InFlightLimit>,
    outage_log: &Arc<OutageLog>,
    deadline: Duration,
) {
    let mut command = Command::time(deadline);
    if breaker_permit.settles_suspicion() {
        command.end = Instant::now();
    }
    let observer =
        ReplyObserver::new(&command, ReplyTime::Sufficient, breaker_permit, live, in_flight, outage_log);
    let late = observer.wait_for_reply(deadline, reply_to(live, command)).await;
    // Those beyond their deadline wait for the finding.
    in_flight.recheck_breaker();
    if let Some(late) = late
        && timeout(LATE_REPLY_WAIT, late).await.is_ok_and(|result| is_answer(&result))
    {
        live.liveness.reply();
    }
}

/// Calls, if there are any, probe earlier.
const BACKGROUND_PROBE_PAUSE: Duration = Duration::from_millis(500);
/// How long the late reply to a probe is waited for.
const LATE_REPLY_WAIT: Duration = Duration::from_secs(1);
