//! Replies that come too late, and calls for several decisions.

use ::fred::interfaces::ClientLike as _;
use ::fred::types::config::Config;
use bytes::Bytes;
use portcullis_core::{Policy, Quota};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::connection::tests::server::Server;
use crate::connection::tests::waiting::until;
use crate::fred::command::Command;
use crate::protocol::script::Script;
use crate::protocol::value::Value;
use crate::protocol::wire::{CallWords, Operation, Replay, Words, arguments};
use crate::protocol::{scripts, wire};
use crate::transport::{Call, QueueKey};

/// Long, because a machine may stand still before a call is sent with a part of it.
const DEADLINE: Duration = Duration::from_secs(4);

async fn ask(link: &Arc<Link>) -> Result<Value, CallError> {
    link.call(Command::time(DEADLINE), QueueKey::none(), Instant::now()).await
}

fn in_flight_limit(link: &Link) -> u64 {
    let mut gauges = Gauges::default();
    link.add_to(&mut gauges);
    gauges.in_flight_limit
}

/// A link to a client of the user, because such a link sends no commands of its own.
async fn link_to(server: &Server, max_in_flight: usize) -> (Arc<Link>, JoinHandle<()>) {
    let client = Client::new(Config::from_url(&server.admin_url()).unwrap(), None, None, None);
    client.init().await.unwrap();
    let options = Options::default().max_in_flight(max_in_flight).deadline(DEADLINE);
    let (link, watching) = Link::watched(client, &options, OutageLog::new("redis".to_owned(), None));
    (Arc::new(link), tokio::spawn(watching))
}

/// However little time it had: it waits for the probe.
#[tokio::test]
async fn missing_reply_opens_after_a_failed_probe() {
    let server = Server::start(&[]);
    let (link, watching) = link_to(&server, 8).await;
    ask(&link).await.unwrap();
    let call = async |left: Duration| {
        let command = Command { end: Instant::now() + left, ..Command::time(DEADLINE) };
        link.call(command, QueueKey::none(), Instant::now()).await
    };
    for left in [DEADLINE / 4, DEADLINE * 3 / 4] {
        server.signal("STOP");
        let mut suspected = pin!(until(|| link.health.breaker.is_suspected()));
        let mut answer = pin!(call(left));
        let is_answered = tokio::select! {
            _ = answer.as_mut() => true,
            () = suspected.as_mut() => false,
        };
        // The machine stood still until the end, so that it was not sent.
        if !is_answered {
            assert!(link.health.breaker.is_closed() && link.availability().outage.is_none(), "{left:?}");
            assert_eq!(answer.await, Err(CallError::TimedOut(DEADLINE)));
            assert!(!link.health.breaker.is_closed() && link.availability().outage.is_some(), "{left:?}");
        }
        server.signal("CONT");
        until_answered(&link).await;
    }
    watching.abort();
}

/// A reply to the probe, or to the call itself before the probe has failed, shows that the server is there.
#[tokio::test]
async fn answered_probe_is_no_outage() {
    let server = Server::start(&[]);
    let (link, watching) = link_to(&server, 8).await;
    ask(&link).await.unwrap();
    server.signal("STOP");
    let (answer, ()) = tokio::join!(ask(&link), async {
        until(|| link.health.breaker.is_suspected()).await;
        server.signal("CONT");
    });
    assert!(answer.is_ok(), "{answer:?}");
    until(|| !link.health.breaker.is_suspected()).await;
    assert!(link.health.breaker.is_closed() && link.availability().outage.is_none());
    watching.abort();
}

/// This process has read it late, so that it does not show what the server answers in time.
#[tokio::test]
async fn reply_after_a_stall_raises_no_limit() {
    let server = Server::start(&[]);
    let (link, watching) = link_to(&server, 8).await;
    ask(&link).await.unwrap();
    link.health.in_flight.congested(Instant::now());
    assert_eq!(in_flight_limit(&link), 1);
    // The limit grows after 64 replies in time. The reply to the probe of the suspicion comes at any time from here on.
    link.health.in_flight.answered(Instant::now(), 60);
    let left = Duration::from_millis(200);
    let command = Command { end: Instant::now() + left, ..Command::time(DEADLINE) };
    let call = link.call(command, QueueKey::none(), Instant::now());
    server.signal("STOP");
    let (answer, ()) = tokio::join!(biased; call, async {
        std::thread::sleep(left * 2);
        until(|| link.health.breaker.is_suspected()).await;
        server.signal("CONT");
    });
    assert!(answer.is_ok(), "{answer:?}");
    for limit in [1, 2] {
        ask(&link).await.unwrap();
        ask(&link).await.unwrap();
        assert_eq!(in_flight_limit(&link), limit);
    }
    watching.abort();
}

/// Waits until a probe is due and answered.
async fn until_answered(link: &Arc<Link>) {
    let started = Instant::now();
    while let Err(error) = ask(link).await {
        assert!(started.elapsed() < Duration::from_secs(20), "no probe is answered: {error}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn late_reply_leaves_the_breaker_open() {
    let server = Server::start(&[]);
    let (link, watching) = link_to(&server, 1).await;
    let is_free = || link.health.in_flight.try_acquire().is_some();
    ask(&link).await.unwrap();
    assert!(link.health.breaker.is_closed() && is_free());

    for goes_away in [false, true] {
        server.signal("STOP");
        if goes_away {
            timeout(Duration::from_millis(1), ask(&link)).await.unwrap_err();
            until(|| !link.health.breaker.is_closed()).await;
        } else {
            assert_eq!(ask(&link).await, Err(CallError::TimedOut(DEADLINE)));
        }
        assert!(!link.health.breaker.is_closed() && !is_free());
        // The probe has failed as well.
        until(|| !link.health.breaker.is_suspected()).await;

        server.signal("CONT");
        // The reply came after its caller had gone.
        until(is_free).await;
        assert!(!link.health.breaker.is_closed() && link.availability().outage.is_some());

        // Only a probe, as soon as one is due, proves that the server replies in time again.
        until_answered(&link).await;
        assert!(link.health.breaker.is_closed() && link.availability().outage.is_none());
    }
    watching.abort();
}

/// A decision under a key of its own, with this time left.
fn decision(script: &Script, key: &str, left: Duration) -> Command {
    let policy = Policy::fixed_window("weekly", Quota::per_week(9));
    let strategies = || [policy.strategy()].into_iter();
    let args = arguments(Operation::Check, None, strategies().map(|strategy| (strategy, 1)));
    let load = wire::load_of(strategies());
    let (keys, queue) = (Words::from_iter([Bytes::from(key.to_owned())]), QueueKey::none());
    let words = CallWords::of_decision(keys, args, Replay::of(policy.strategy(), 1));
    let call = Call { script, slot: Some(0), words, queue, load, decisions: 1, end: None };
    let command = Command::evalsha(call, false, Instant::now(), DEADLINE);
    Command { end: Instant::now() + left, ..command }
}

#[tokio::test]
async fn callers_of_one_call_end_at_their_own_deadlines() {
    for keys in [["c", "d"], ["c", "c"]] {
        end_at_their_own_deadlines(keys).await;
    }
}

/// The second of two decisions about these keys has a reply, and the first not in time.
async fn end_at_their_own_deadlines([first, second]: [&'static str; 2]) {
    let server = Server::start(&[]);
    let (link, watching) = link_to(&server, 8).await;
    let script = scripts::of_decisions(false);
    server.cli(&["SCRIPT", "LOAD", std::str::from_utf8(&script.source).unwrap()]);
    let ask = |key: &'static str, left| {
        let (link, command) = (Arc::clone(&link), decision(&script, key, left));
        tokio::spawn(async move {
            let queue = QueueKey { may_join: true, ..QueueKey::none() };
            link.call(command, queue, Instant::now()).await
        })
    };
    server.signal("STOP");
    let long = Duration::from_secs(20);
    let alone = ["a", "b"].map(|key| ask(key, long));
    let [short, patient] = [(first, DEADLINE * 3 / 4), (second, long)].map(|(key, left)| ask(key, left));
    assert_eq!(short.await.unwrap(), Err(CallError::TimedOut(DEADLINE)));
    // As without others, its deadline opens the breaker.
    assert!(!link.health.breaker.is_closed() && !patient.is_finished());
    server.signal("CONT");
    assert!(matches!(patient.await.unwrap(), Ok(Value::Text(text)) if text.len() == 32));
    for task in alone {
        task.await.unwrap().unwrap();
    }
    // Two calls alone, and one for both of the others, which writes each of their keys once.
    let keys = if first == second { 3 } else { 4 };
    assert_eq!(["evalsha", "set"].map(|command| server.calls(command)), [3, keys]);
    watching.abort();
}

#[tokio::test]
async fn short_deadline_joins_no_longer_one() {
    let server = Server::start(&[]);
    let (link, watching) = link_to(&server, 8).await;
    let script = scripts::of_decisions(false);
    server.cli(&["SCRIPT", "LOAD", std::str::from_utf8(&script.source).unwrap()]);
    // A decision waits for other calls longer than this test takes.
    let (deadline, long) = (Duration::from_secs(1_600), Duration::from_secs(40));
    let ask = |key: &'static str, left| {
        let (link, command) = (Arc::clone(&link), Command { deadline, ..decision(&script, key, left) });
        tokio::spawn(async move {
            let queue = QueueKey { may_join: true, ..QueueKey::none() };
            link.call(command, queue, Instant::now()).await
        })
    };
    server.signal("STOP");
    let mut patient = Vec::from(["a", "b", "c"].map(|key| ask(key, long)));
    let short = timeout(long / 2, ask("c", Duration::from_millis(50))).await.unwrap();
    assert_eq!(short.unwrap(), Err(CallError::NotSent(deadline)));
    patient.push(ask("c", long));
    server.signal("CONT");
    for task in patient {
        task.await.unwrap().unwrap();
    }
    watching.abort();
}
