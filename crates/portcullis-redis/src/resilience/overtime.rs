//! Waits for a reply beyond its deadline, to find out whether the server or this process is late.
//!
//! In a busy process, a call may lie unsent, or its reply unread, until its deadline. So the call waits on while nothing proves either, for one
//! more deadline, in parts, so that the tasks which write and read have their turns meanwhile. A part whose timer fires late does not count
//! for some deadlines, because what holds up this process may hold up a server beside it. Meanwhile a probe is on its way, whose end the
//! call waits for as well, but not for longer than late parts go uncounted: the thread of its task may stand still while others run.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::breaker::{Breaker, NoReply};
use super::deadline::final_polls;

/// How a wait beyond a deadline has ended.
pub(crate) struct Overtime<T> {
    pub(crate) reply: Option<T>,
    /// The deadline, if this process stood still, so that a reply is not late by the server.
    pub(crate) stalled: Option<Instant>,
}

/// Which call waits for a reply.
#[derive(Clone, Copy)]
pub(crate) struct LateCall {
    pub(crate) sent: Instant,
    /// Its deadline, which has passed.
    pub(crate) end: Instant,
    pub(crate) deadline: Duration,
    /// Whether it probes a server that is suspected to be in an outage, or is in one.
    pub(crate) is_probe: bool,
}

/// Waits on for a reply, as long as only a probe can tell what its absence means, or this process has stood still.
pub(crate) async fn wait_on<F: Future + ?Sized>(
    breaker: &Breaker,
    call: LateCall,
    mut reply: Pin<&mut F>,
) -> Overtime<F::Output> {
    let part = (call.deadline / PARTS).max(Duration::from_millis(1));
    let tolerance = part.max(SHORTEST_STALL);
    let mut has_stalled = call.end.elapsed() > tolerance;
    let (begun, mut waited) = (Instant::now(), Duration::ZERO);
    let is_probed =
        || !call.is_probe && breaker.is_suspected() && begun.elapsed() < call.deadline * UNCOUNTED;
    while waited < call.deadline || is_probed() {
        match breaker.silence(call.sent) {
            None => breaker.suspect(call.sent),
            Some(NoReply::Outage) if call.is_probe && has_stalled => {}
            Some(NoReply::Overload { .. }) if has_stalled => {}
            Some(_) => break,
        }
        let start = Instant::now();
        let end = start + part.min(LONGEST_PART);
        if let Ok(reply) = timeout_at(end, reply.as_mut()).await {
            has_stalled |= end.elapsed() > tolerance;
            return Overtime { reply: Some(reply), stalled: has_stalled.then_some(call.end) };
        }
        let is_late = end.elapsed() > tolerance;
        has_stalled |= is_late;
        if !is_late || begun.elapsed() >= call.deadline * UNCOUNTED {
            waited += start.elapsed().min(part);
        }
    }
    Overtime { reply: final_polls(reply).await, stalled: has_stalled.then_some(call.end) }
}

/// In how many parts at least the wait is counted: more than the turns that a call takes to be written and its reply to be read.
const PARTS: u32 = 8;
/// For how many deadlines parts that are late do not count, and a probe is waited for.
const UNCOUNTED: u32 = 3;
/// What others have found out is looked at this often.
const LONGEST_PART: Duration = Duration::from_millis(25);
/// A timer that fires later than this was held up by this process. The timers of Tokio are exact to a millisecond.
const SHORTEST_STALL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::sync::Arc;

    use tokio::time::{advance, sleep};

    use super::*;

    const DEADLINE: Duration = Duration::from_millis(800);

    /// A closed breaker, ten seconds after its last reply.
    async fn breaker() -> Arc<Breaker> {
        let breaker = Breaker::new(Arc::default(), Arc::default());
        assert!(breaker.connected());
        advance(Duration::from_secs(10)).await;
        breaker
    }

    /// A call whose deadline has passed `late` ago.
    fn late_by(late: Duration) -> LateCall {
        let end = Instant::now() - late;
        LateCall { sent: end - DEADLINE, end, deadline: DEADLINE, is_probe: false }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_for_another_deadline_is_an_outage() {
        let (breaker, start) = (breaker().await, Instant::now());
        let probe = async {
            breaker.suspected().await;
            let probe = breaker.admit_suspicion_probe().unwrap();
            sleep(DEADLINE).await;
            assert!(breaker.is_suspected() && breaker.is_closed());
            probe.timed_out(None);
        };
        let call = late_by(Duration::ZERO);
        let silent = pin!(pending::<()>());
        let (Overtime { reply, stalled }, ()) = tokio::join!(wait_on(&breaker, call, silent), probe);
        assert_eq!((reply, stalled), (None, None));
        assert!((DEADLINE..=DEADLINE + LONGEST_PART).contains(&start.elapsed()));
        assert_eq!(breaker.conclude(call.sent, stalled), NoReply::Outage);
        assert!(breaker.outage() >= Some(DEADLINE) && !breaker.is_closed());
    }

    /// The thread of its task may stand still while that of the call runs.
    #[tokio::test(start_paused = true)]
    async fn unsent_probe_is_waited_for() {
        for (sent_after, no_reply) in
            [(2, NoReply::Overload { all_late: false }), (UNCOUNTED + 1, NoReply::Outage)]
        {
            let (breaker, start) = (breaker().await, Instant::now());
            let probe = async {
                breaker.suspected().await;
                sleep(DEADLINE * sent_after).await;
                if let Some(probe) = breaker.admit_suspicion_probe() {
                    probe.answered();
                }
            };
            let call = async {
                let call = late_by(Duration::ZERO);
                let overtime = wait_on(&breaker, call, pin!(pending::<()>())).await;
                (breaker.conclude(call.sent, overtime.stalled), start.elapsed())
            };
            let ((concluded, took), ()) = tokio::join!(call, probe);
            assert_eq!(concluded, no_reply);
            assert!(took <= DEADLINE * UNCOUNTED + LONGEST_PART);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answered_probe_ends_the_wait() {
        let (breaker, start) = (breaker().await, Instant::now());
        let call = late_by(Duration::ZERO);
        let probe = async {
            breaker.suspected().await;
            let probe = breaker.admit_suspicion_probe().unwrap();
            assert!(breaker.admit().is_some(), "other calls are sent");
            sleep(DEADLINE / 4).await;
            probe.answered();
        };
        let silent = pin!(pending::<()>());
        let (overtime, ()) = tokio::join!(wait_on(&breaker, call, silent), probe);
        assert!(overtime.reply.is_none() && start.elapsed() < DEADLINE / 2);
        assert_eq!(breaker.conclude(call.sent, None), NoReply::Overload { all_late: false });
        assert!(breaker.is_closed() && breaker.outage().is_none() && !breaker.is_suspected());
    }

    #[tokio::test(start_paused = true)]
    async fn reply_during_the_wait_is_read() {
        let breaker = breaker().await;
        let reply = pin!(sleep(DEADLINE / 2));
        let overtime = wait_on(&breaker, late_by(Duration::ZERO), reply).await;
        assert!(overtime.reply.is_some() && overtime.stalled.is_none() && breaker.is_closed());
    }

    /// A late reply to another call is the fault of the process if it stood still, and that of the server otherwise.
    #[tokio::test(start_paused = true)]
    async fn late_reply_proves_a_stall() {
        for (late, no_reply) in
            [(Duration::ZERO, NoReply::Outage), (DEADLINE / 2, NoReply::Overload { all_late: true })]
        {
            let breaker = breaker().await;
            let call = late_by(late);
            let reply = async {
                sleep(DEADLINE / 4).await;
                breaker.replied();
            };
            let silent = pin!(pending::<()>());
            let (overtime, ()) = tokio::join!(wait_on(&breaker, call, silent), reply);
            assert_eq!(overtime.stalled, (!late.is_zero()).then_some(call.end));
            assert_eq!(breaker.conclude(call.sent, overtime.stalled), no_reply);
        }
    }

    /// Otherwise each late reply of a slow server would excuse the call after it.
    #[tokio::test(start_paused = true)]
    async fn earlier_late_reply_proves_nothing() {
        let breaker = breaker().await;
        breaker.replied();
        advance(DEADLINE).await;
        let call = late_by(DEADLINE / 2);
        breaker.suspect(call.sent);
        let overtime = wait_on(&breaker, call, pin!(pending::<()>())).await;
        assert_eq!(overtime.stalled, Some(call.end));
        assert_eq!(breaker.conclude(call.sent, overtime.stalled), NoReply::Outage);
    }

    /// Otherwise it would be over before the reply is read.
    #[tokio::test(start_paused = true)]
    async fn stalled_call_waits_although_others_are_answered() {
        let breaker = breaker().await;
        let call = late_by(DEADLINE);
        breaker.admit().unwrap().answered();
        let overtime = wait_on(&breaker, call, pin!(sleep(DEADLINE / 2))).await;
        assert!(overtime.reply.is_some() && overtime.stalled.is_some());
        let prompt = LateCall { end: Instant::now(), ..late_by(DEADLINE * 2) };
        breaker.admit().unwrap().answered();
        let start = Instant::now();
        assert!(wait_on(&breaker, prompt, pin!(pending::<()>())).await.reply.is_none());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
