//! A link: one client at a time, and the task that keeps it connected.
//!
//! When fred's task for a connection ends, the link is down, and a new client is made: fred's own reconnection would let commands queue.

mod call;
mod combined_call;
mod in_flight_call;
mod probe;
mod reply;
mod reply_observer;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::fred::clients::Client;
use ::fred::error::{Error, ErrorKind};
use ::fred::interfaces::{ClientLike, EventInterface};
use ::fred::types::ConnectHandle;
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::combined_call::{LaneKey, QueuedCheck};
use super::error::reason_of;
use super::live::Live;
use crate::protocol::wire::MAX_LOAD;
use crate::resilience::breaker::{Breaker, NoReply};
use crate::resilience::call_timer::CallTimer;
use crate::resilience::combining::CombiningQueue;
use crate::resilience::deadline::wait_until;
use crate::resilience::in_flight::InFlightLimit;
use crate::resilience::jitter::around;
use crate::resilience::liveness::Liveness;
use crate::resilience::outage_log::OutageLog;
use crate::resilience::overtime::{LateCall, Overtime, wait_on};
use crate::stats::Gauges;
use crate::transport::{Availability, CallError, Options};

/// A connection to a server, renewed with a new client whenever it is lost.
#[derive(Debug)]
pub(crate) struct Link {
    state: watch::Receiver<LinkState>,
    health: Arc<LinkHealth>,
    /// Whether the client routes in a cluster by itself.
    is_clustered: bool,
    combining: CombiningQueue<LaneKey, QueuedCheck>,
    timer: Arc<CallTimer>,
    runtime: Handle,
}

/// What a link, the task that keeps it connected, and its calls know and record of the server.
#[derive(Debug)]
struct LinkHealth {
    /// Whether there is a connection, for questions that every decision asks: the state is behind a lock.
    is_up: AtomicBool,
    breaker: Arc<Breaker>,
    in_flight: Arc<InFlightLimit>,
    outage_log: Arc<OutageLog>,
}

/// Whether there is a connection.
#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    /// Connected: calls may be sent.
    Up(Live),
    /// Not connected, and the last error.
    Down(Error),
}

/// Publishes the state of a link; held by the task that keeps the link connected.
struct LinkPublisher {
    state: watch::Sender<LinkState>,
    health: Arc<LinkHealth>,
    /// Whether there was a connection before.
    was_connected: AtomicBool,
    /// For clients that outlive their connections.
    never_closed: watch::Sender<()>,
}

impl Link {
    /// Makes a link, and the future that keeps it connected. `refresh_signal` is notified when it fails or connects.
    pub(crate) fn supervised<M: Fn() -> Client>(
        make: M,
        options: &Options,
        outage_log: Arc<OutageLog>,
        refresh_signal: Arc<Notify>,
    ) -> (Self, impl Future<Output = ()> + use<M>) {
        // In a cluster, a client is for one node.
        let (link, publisher) = Self::new(false, options, outage_log, refresh_signal);
        (link, supervise(make, publisher, options.deadline))
    }

    /// Makes a link to a client that reconnects by itself, and the future that watches it.
    pub(crate) fn watched(
        client: Client,
        options: &Options,
        outage_log: Arc<OutageLog>,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (link, publisher) = Self::new(client.is_clustered(), options, outage_log, Arc::default());
        if client.is_connected() {
            publisher.up_again(&client);
        }
        (link, observe(client, publisher, options.deadline))
    }

    fn new(
        is_clustered: bool,
        options: &Options,
        outage_log: Arc<OutageLog>,
        refresh_signal: Arc<Notify>,
    ) -> (Self, LinkPublisher) {
        let (sender, state) = watch::channel(LinkState::Down(starting()));
        let health = Arc::new(LinkHealth {
            is_up: AtomicBool::new(false),
            breaker: Breaker::new(refresh_signal, Arc::clone(&options.stats)),
            in_flight: InFlightLimit::new(options.max_in_flight, options.max_waiting),
            outage_log,
        });
        let publisher = LinkPublisher {
            state: sender,
            health: Arc::clone(&health),
            was_connected: AtomicBool::new(false),
            never_closed: watch::channel(()).0,
        };
        let combining = CombiningQueue::new(MAX_LOAD);
        let runtime = Handle::current();
        let timer = CallTimer::new(runtime.clone());
        (Self { state, health, is_clustered, combining, timer, runtime }, publisher)
    }

    /// Returns the client, if there is a connection.
    pub(crate) fn live(&self) -> Result<Live, CallError> {
        match &*self.state.borrow() {
            LinkState::Up(live) => Ok(live.clone()),
            LinkState::Down(error) => Err(CallError::Unavailable(reason_of(error).to_owned().into())),
        }
    }

    /// Whether the client routes in a cluster by itself.
    pub(crate) fn is_clustered(&self) -> bool {
        self.is_clustered
    }

    /// What a call would meet now. Does not allocate.
    pub(crate) fn availability(&self) -> Availability {
        let is_connected = self.health.is_up.load(Ordering::SeqCst);
        Availability { rejection: self.rejection(), outage: self.health.breaker.outage(), is_connected }
    }

    /// Why a call would be rejected now, if so. Does not allocate.
    fn rejection(&self) -> Option<CallError> {
        if self.health.is_up.load(Ordering::SeqCst) {
            self.health.breaker.rejects_now().then(CallError::no_replies)
        } else {
            Some(CallError::Unavailable("there is no connection to redis".into()))
        }
    }

    /// Adds what the link does now.
    pub(crate) fn add_to(&self, gauges: &mut Gauges) {
        let [open, probing] = self.health.breaker.open_and_probing();
        let [in_flight, in_flight_limit, waiting] = self.health.in_flight.counts();
        gauges.links += 1;
        gauges.connected += u64::from(self.health.is_up.load(Ordering::SeqCst));
        gauges.open += u64::from(open);
        gauges.probing += u64::from(probing);
        gauges.in_flight += in_flight;
        gauges.in_flight_limit += in_flight_limit;
        gauges.waiting += waiting;
        gauges.uncombined += u64::try_from(self.combining.waiting(QueuedCheck::count)).unwrap_or(u64::MAX);
    }

    /// Whether a call was answered in time since an instant.
    pub(crate) fn answered_since(&self, start: Instant) -> bool {
        self.health.breaker.answered_since(start)
    }

    /// Whether a reply has come since an instant, in time or not.
    pub(crate) fn replied_since(&self, start: Instant) -> bool {
        self.health.breaker.replied_since(start)
    }

    /// The output of a step of a call that began at `start`, by `end` or, as a reply, while it is open whether the server or this
    /// process is late. `None` may be the finding that there is an outage.
    pub(crate) async fn wait_until<F: Future>(
        &self,
        (start, end, deadline): (Instant, Instant, Duration),
        step: F,
    ) -> Option<F::Output> {
        let mut step = pin!(step);
        if let Some(output) = wait_until(end, step.as_mut()).await {
            return Some(output);
        }
        let call = LateCall { sent: start, end, deadline, is_probe: false };
        let Overtime { reply, stalled } = wait_on(&self.health.breaker, call, step).await;
        if reply.is_none() && self.health.breaker.conclude(start, stalled) == NoReply::Outage {
            self.health.in_flight.recheck_breaker();
        }
        reply
    }

    /// Makes the waiting calls of a key check whether they are denied.
    pub(crate) fn recheck_denied(&self, key: u128) {
        self.health.in_flight.recheck_denied(key);
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    /// Waits until the first attempt to connect has ended.
    pub(crate) async fn first_attempt(&self) {
        self.settled(|reason| reason != STARTING).await;
    }

    /// Waits until the link is up, or down for a reason that `is_final`.
    pub(crate) async fn settled(&self, is_final: impl Fn(&str) -> bool) -> LinkState {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| match state {
            LinkState::Up(_) => true,
            LinkState::Down(error) => is_final(error.details()),
        });
        match settled.await {
            Ok(state) => state.clone(),
            Err(_) => LinkState::Down(Error::new(ErrorKind::Canceled, "the client was closed")),
        }
    }
}

impl LinkHealth {
    /// Ends the waits for permits if the breaker has opened.
    fn recheck(&self) {
        if !self.breaker.is_closed() {
            self.in_flight.recheck_breaker();
        }
    }
}

impl LinkState {
    /// The message of the last error, if there is no connection.
    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Self::Up(_) => None,
            Self::Down(error) => Some(error.details()),
        }
    }
}

impl LinkPublisher {
    fn up(&self, client: &Client, closed: watch::Receiver<()>) -> Live {
        let live = Live { client: client.clone(), liveness: Arc::new(Liveness::new()), closed };
        let serves = self.health.breaker.connected();
        // A client of the user may report one connection twice.
        let is_new = !self.health.is_up.swap(true, Ordering::SeqCst);
        if is_new && self.was_connected.swap(true, Ordering::SeqCst) {
            self.health.breaker.stats().reconnects.fetch_add(1, Ordering::Relaxed);
        }
        self.state.send_replace(LinkState::Up(live.clone()));
        if serves {
            self.health.outage_log.up();
        }
        live
    }

    /// For a client that outlives its connections.
    fn up_again(&self, client: &Client) {
        drop(self.up(client, self.never_closed.subscribe()));
    }

    fn down(&self, error: Error) {
        self.health.outage_log.down(reason_of(&error));
        self.health.outage_log.refused(reason_of(&error));
        self.set_down(error);
    }

    fn set_down(&self, error: Error) {
        // Before the state, so that no call finds a lost connection without an outage.
        self.health.breaker.disconnected();
        self.health.is_up.store(false, Ordering::SeqCst);
        self.state.send_replace(LinkState::Down(error));
        // A reply may have ended the outage in between.
        self.health.breaker.disconnected();
    }
}

impl Drop for LinkPublisher {
    /// Only the end of the runtime stops the task before the link is dropped, and fred does not reply without its task.
    fn drop(&mut self) {
        let is_up = matches!(*self.state.borrow(), LinkState::Up(_));
        if is_up && self.state.receiver_count() > 0 {
            self.set_down(Error::new(ErrorKind::Canceled, ENDED));
        }
    }
}

/// Connects, and connects again whenever the connection ends.
async fn supervise(make: impl Fn() -> Client, publisher: LinkPublisher, deadline: Duration) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let client = make();
        let error = match connect(&client).await {
            Ok(mut router) => {
                pause = SHORTEST_PAUSE;
                let (_closed_on_drop, closed) = watch::channel(());
                let live = publisher.up(&client, closed);
                tokio::select! {
                    ended = &mut router.0 => reason(ended),
                    never = publisher.probe_in_background(&live, deadline) => match never {},
                    () = live.liveness.given_up() => Error::new(ErrorKind::IO, "the server does not reply, or does not accept writes"),
                }
            }
            Err(error) => error,
        };
        publisher.down(error);
        tokio::time::sleep(around(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// fred's task for a connection. Dropping this aborts the task and closes the sockets.
struct Router(ConnectHandle);

impl Drop for Router {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes one attempt with a fresh client.
async fn connect(client: &Client) -> Result<Router, Error> {
    let connected = client.wait_for_connect();
    tokio::pin!(connected);
    // Polled once before the task exists, it is subscribed before the first event.
    tokio::select! {
        biased;
        early = &mut connected => early?,
        () = std::future::ready(()) => {}
    }
    let mut router = Router(client.connect());
    let result = tokio::select! {
        result = &mut connected => result,
        ended = &mut router.0 => Err(reason(ended)),
    };
    result.map(|()| router)
}

fn reason(ended: Result<Result<(), Error>, tokio::task::JoinError>) -> Error {
    match ended {
        Ok(Ok(())) => Error::new(ErrorKind::Canceled, "the connection was closed"),
        Ok(Err(error)) => error,
        Err(error) => Error::new(ErrorKind::Unknown, error.to_string()),
    }
}

/// Follows a client that reconnects by itself.
async fn observe(client: Client, publisher: LinkPublisher, deadline: Duration) {
    let (mut errors, mut connections) = (client.error_rx(), client.reconnect_rx());
    // It may have connected before the subscription.
    if client.is_connected() {
        publisher.up_again(&client);
    }
    loop {
        let error = tokio::select! {
            // If both an error and a reconnection are pending, the reconnection is the later event.
            biased;
            error = errors.recv() => error.map(|(error, _)| Some(error)),
            server = connections.recv() => server.map(|_| None),
            () = publisher.health.breaker.suspected() => {
                publisher.spawn_probe(deadline);
                continue;
            }
        };
        match error {
            Ok(Some(error)) => publisher.down(error),
            Ok(None) => publisher.up_again(&client),
            Err(RecvError::Lagged(_)) if client.is_connected() => publisher.up_again(&client),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => break,
        }
    }
    publisher.down(Error::new(ErrorKind::Canceled, "the client was closed"));
}

fn starting() -> Error {
    Error::new(ErrorKind::Canceled, STARTING)
}

const STARTING: &str = "not connected yet";
const ENDED: &str =
    "the runtime in which it was connected has ended: connect in one that lasts as long as the store";
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// With the random part up to three quarters of a second, which keeps the recovery after a restart under one.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
