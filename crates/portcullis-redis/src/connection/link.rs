//! One client and the task that keeps it alive.
//!
//! fred could reconnect by itself. But then its state says `Connected` during the first delay, commands
//! queue behind the reconnection until their deadline, and a router task that ends stays ended. Here fred
//! makes one connection; when its task ends, for whatever reason, the link is down at that moment, and a new
//! client is made.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::ConnectHandle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::journal::Journal;
use super::pulse::Pulse;

/// The state of one client, as the calls see it.
#[derive(Debug)]
pub(super) struct Link(watch::Receiver<State>);

/// Whether there is a connection.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Connected: calls may be sent.
    Up(Live),
    /// Not connected, and the last error.
    Down(Error),
}

/// A connected client.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) client: Client,
    pub(super) pulse: Arc<Pulse>,
}

impl Link {
    /// Makes a link, and the future that keeps it alive with clients of its own.
    pub(super) fn supervised(
        make: impl Fn() -> Client,
        journal: Arc<Journal>,
    ) -> (Self, impl Future<Output = ()>) {
        let (sender, receiver) = watch::channel(State::Down(starting()));
        (Self(receiver), supervise(make, sender, journal))
    }

    /// Makes a link to a client that somebody else keeps alive, and the future that watches it.
    pub(super) fn watched(client: Client, journal: Arc<Journal>) -> (Self, impl Future<Output = ()>) {
        let state = if client.is_connected() { up(&client) } else { State::Down(starting()) };
        let (sender, receiver) = watch::channel(state);
        (Self(receiver), observe(client, sender, journal))
    }

    /// Reads the state.
    pub(super) fn state(&self) -> State {
        self.0.borrow().clone()
    }

    /// Waits until the link is up, or down for a reason that `is_final`.
    pub(super) async fn settled(&self, is_final: impl Fn(&Error) -> bool) -> State {
        let mut state = self.0.clone();
        let settled = state.wait_for(|state| match state {
            State::Up(_) => true,
            State::Down(error) => is_final(error),
        });
        match settled.await {
            Ok(state) => state.clone(),
            Err(_) => State::Down(Error::new(ErrorKind::Canceled, "the client was closed")),
        }
    }
}

/// Connects for ever.
async fn supervise(make: impl Fn() -> Client, state: watch::Sender<State>, journal: Arc<Journal>) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let client = make();
        let error = match connect(&client).await {
            Ok(mut router) => {
                pause = SHORTEST_PAUSE;
                let live = Live { client, pulse: Arc::new(Pulse::new()) };
                let pulse = Arc::clone(&live.pulse);
                state.send_replace(State::Up(live));
                journal.up();
                tokio::select! {
                    ended = &mut router.0 => reason(ended),
                    () = pulse.given_up() => Error::new(ErrorKind::IO, "the server does not answer, or takes no writes"),
                }
            }
            Err(error) => error,
        };
        journal.down(reason_of(&error));
        state.send_replace(State::Down(error));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The task in which fred runs a connection. It ends with this value, and the sockets close.
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
    // Polled once before the task exists, it is subscribed before there is anything to miss.
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
async fn observe(client: Client, state: watch::Sender<State>, journal: Arc<Journal>) {
    let (mut errors, mut connections) = (client.error_rx(), client.reconnect_rx());
    // It may have connected before there was anybody to hear of it.
    if client.is_connected() {
        state.send_replace(up(&client));
    }
    loop {
        let error = tokio::select! {
            // Of an error and a reconnection that both wait to be heard, the reconnection is the later.
            biased;
            error = errors.recv() => error.map(|(error, _)| Some(error)),
            server = connections.recv() => server.map(|_| None),
        };
        match error {
            Ok(Some(error)) => {
                journal.down(reason_of(&error));
                state.send_replace(State::Down(error));
            }
            Ok(None) => {
                state.send_replace(up(&client));
                journal.up();
            }
            Err(RecvError::Lagged(_)) if client.is_connected() => {
                state.send_replace(up(&client));
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => break,
        }
    }
    journal.down("the client was closed");
}

/// What went wrong, in words. Of an I/O error fred keeps the debug form, which has the words in its middle.
pub(super) fn reason_of(error: &Error) -> &str {
    let words = error.details().split_once("message: \"").and_then(|(_, rest)| rest.split_once('"'));
    words.map_or(error.details(), |(words, _)| words)
}

fn up(client: &Client) -> State {
    State::Up(Live { client: client.clone(), pulse: Arc::new(Pulse::new()) })
}

fn starting() -> Error {
    Error::new(ErrorKind::Canceled, "not connected yet")
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Half a second keeps the recovery after a restart well under two.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
