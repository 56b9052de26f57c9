//! One call on a link.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike as _;
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::breaker::Ticket;
use super::super::error::CallError;
use super::super::journal::Journal;
use super::super::pulse::Pulse;
use super::super::script::untimed;
use super::{Link, Live};

/// A command, how long it may take, and what it is for.
#[derive(Clone, Debug)]
pub(in super::super) struct Order {
    pub(in super::super) command: CustomCommand,
    pub(in super::super) words: Vec<Value>,
    /// Whether the command is to be let pass although its slot is still on its way to the server.
    pub(in super::super) asking: bool,
    /// Whether a reply proves that the server takes writes.
    pub(in super::super) wrote: fn(&Value) -> bool,
    pub(in super::super) deadline: Duration,
    pub(in super::super) end: Instant,
}

impl Order {
    /// Asks the time, which any user may who may decide.
    pub(super) fn time(deadline: Duration) -> Self {
        let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
        let end = Instant::now() + deadline;
        Self { command, words: Vec::new(), asking: false, wrote: |_| false, deadline, end }
    }
}

impl Link {
    /// Sends a command once.
    ///
    /// # Errors
    /// At the deadline, and at once if the link is shut or too much waits for it.
    ///
    /// # Cancel safety
    /// A call that is dropped before its turn has sent nothing; else it may still run, and keeps its seat until then. What
    /// is heard of it until its deadline counts as if somebody waited.
    pub(in super::super) async fn call(&self, order: Order) -> Result<Value, CallError> {
        if let Some(error) = self.shut() {
            // The same in the words of the last error, which it takes an allocation to tell.
            return Err(self.live().err().unwrap_or(error));
        }
        let (end, deadline) = (order.end, order.deadline);
        let seat = self.seat(end, deadline).await?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::NotSent(deadline));
        }
        let live = self.live()?;
        let ticket = self.breaker.admit().ok_or_else(CallError::silent)?;
        let ear = Ear::new(&order, left, ticket, &live, &self.journal);
        let (mut flight, first) = Flight::begin(&live, order, seat, ear, self.runtime.clone()).await;
        let result = match first {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => {
                // Whoever was sent before it has been answered: it is this one that the next reply is for.
                let next = self.window.has_one();
                let result = timeout_at(end, flight.landing()).await;
                result.map(|result| result.map_err(|error| (error, next)))
            }
        };
        let result = match result {
            Ok(result) => result.map_err(|(error, next)| CallError::from_fred(&error, next)),
            Err(_) => Err(CallError::TimedOut(deadline)),
        };
        if let Some(ear) = flight.ear.take() {
            ear.hear(&result);
        }
        result
    }

    async fn seat(&self, end: Instant, deadline: Duration) -> Result<OwnedSemaphorePermit, CallError> {
        if self.breaker.is_closed() {
            return self.window.enter(&self.breaker, end, deadline).await;
        }
        if let Some(seat) = self.window.try_enter() {
            return Ok(seat);
        }
        // All seats are kept by calls without a reply, so that there is none for a probe: that is silence as well.
        self.breaker.postpone();
        if let Ok(live) = self.live() {
            live.pulse.silence();
        }
        Err(CallError::silent())
    }
}

/// What learns from one call about the link.
struct Ear {
    ticket: Ticket,
    pulse: Arc<Pulse>,
    journal: Arc<Journal>,
    wrote: fn(&Value) -> bool,
    end: Instant,
    /// Whether silence means anything: what was sent shortly before its deadline, such as after a script was loaded, would
    /// not have been answered by a healthy server either.
    is_patient: bool,
}

impl Ear {
    /// Of an order that has so much time `left`.
    fn new(order: &Order, left: Duration, ticket: Ticket, live: &Live, journal: &Arc<Journal>) -> Self {
        let (pulse, journal) = (Arc::clone(&live.pulse), Arc::clone(journal));
        let is_patient = left >= order.deadline / 2;
        Self { ticket, pulse, journal, wrote: order.wrote, end: order.end, is_patient }
    }

    fn hear(self, result: &Result<Value, CallError>) {
        let Self { ticket, pulse, journal, wrote, is_patient, .. } = self;
        match result {
            Err(CallError::TimedOut(_)) if !is_patient => {}
            Err(CallError::TimedOut(_)) => {
                pulse.silence();
                ticket.silent();
            }
            Err(error) if error.is_cluster_down() => ticket.refused(true),
            // Nothing was heard.
            Err(CallError::Lost(_) | CallError::Overloaded | CallError::NotSent(_)) => {}
            Err(error) if error.is_loading() => {
                pulse.reply();
                ticket.refused(false);
            }
            Err(CallError::Unavailable(_)) => {}
            Err(error) if error.is_read_only() => {
                pulse.read_only();
                ticket.refused(false);
            }
            _ => {
                if result.as_ref().is_ok_and(wrote) {
                    pulse.success();
                } else {
                    pulse.reply();
                }
                if ticket.answered() {
                    journal.up();
                }
            }
        }
    }

    /// Listens until the deadline in place of a caller who went away: callers of little patience would else never notice
    /// a server that answers nobody. Returns what is still to come.
    async fn listen(self, mut landing: Landing) -> Option<Landing> {
        let Ok(result) = timeout_at(self.end, &mut landing).await else {
            self.hear(&Err(CallError::TimedOut(Duration::ZERO)));
            return Some(landing);
        };
        self.hear(&result.map_err(|error| CallError::from_fred(&error, false)));
        None
    }
}

type Landing = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// A call in fred's hands. It keeps its seat until fred is done with it, even if nobody waits any more.
struct Flight {
    landing: Option<Landing>,
    seat: Option<OwnedSemaphorePermit>,
    /// Gone as soon as it has heard what became of the call.
    ear: Option<Ear>,
    pulse: Arc<Pulse>,
    runtime: Handle,
}

impl Flight {
    /// Hands a command to fred.
    async fn begin(
        live: &Live,
        order: Order,
        seat: OwnedSemaphorePermit,
        ear: Ear,
        runtime: Handle,
    ) -> (Self, Poll<Result<Value, (Error, bool)>>) {
        let landing: Landing = if order.asking {
            Box::pin(while_connected(asked(live, order), live.over.clone()))
        } else {
            Box::pin(while_connected(sent(live, order), live.over.clone()))
        };
        let (landing, seat, ear, pulse) = (Some(landing), Some(seat), Some(ear), Arc::clone(&live.pulse));
        let mut flight = Self { landing, seat, ear, pulse, runtime };
        let first = poll_fn(|context| {
            let landing = flight.landing.as_mut().expect("it has not landed yet");
            Poll::Ready(landing.as_mut().poll(context))
        });
        let first = first.await;
        if first.is_ready() {
            flight.landing = None;
        }
        (flight, first.map(|result| result.map_err(|error| (error, false))))
    }

    async fn landing(&mut self) -> Result<Value, Error> {
        let landing = self.landing.as_mut().expect("it has not landed yet");
        let result = landing.as_mut().await;
        self.landing = None;
        result
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let Some(landing) = self.landing.take() else { return };
        let (seat, ear, pulse) = (self.seat.take(), self.ear.take(), Arc::clone(&self.pulse));
        self.runtime.spawn(async move {
            let late = match ear {
                Some(ear) => ear.listen(landing).await,
                None => Some(landing),
            };
            if let Some(landing) = late
                && CallError::is_answer(&landing.await)
            {
                pulse.reply();
            }
            drop(seat);
        });
    }
}

/// Asks the time in place of a caller, and listens for a while.
pub(super) async fn probe(live: &Live, ticket: Ticket, journal: &Arc<Journal>, deadline: Duration) {
    let order = Order::time(deadline);
    let ear = Ear::new(&order, deadline, ticket, live, journal);
    let landing = Box::pin(while_connected(sent(live, order), live.over.clone()));
    if let Some(late) = ear.listen(landing).await
        && timeout(LATEST, late).await.is_ok_and(|result| CallError::is_answer(&result))
    {
        live.pulse.reply();
    }
}

/// Ends soon after the connection: a call that fred is given at that very moment it neither sends nor fails.
async fn while_connected(
    landing: impl Future<Output = Result<Value, Error>>,
    mut over: watch::Receiver<()>,
) -> Result<Value, Error> {
    let ended = async {
        // Nothing is ever sent: it is the end that is waited for.
        let _ = over.changed().await;
        sleep(LAST_WORDS).await;
    };
    tokio::select! {
        biased;
        result = landing => result,
        () = ended => Err(Error::new(ErrorKind::IO, "the connection was lost")),
    }
}

fn sent(live: &Live, order: Order) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
    let client = live.client.with_options(&untimed());
    async move { client.custom(order.command, order.words).await }
}

/// Sends `ASKING` before the command. fred writes what is in one pipeline without anything in between.
fn asked(live: &Live, order: Order) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
    let pipeline = live.client.pipeline().with_options(&untimed());
    async move {
        let asking = CustomCommand::new_static("ASKING", ClusterHash::Random, false);
        let _: Value = pipeline.custom(asking, Vec::<Value>::new()).await?;
        let _: Value = pipeline.custom(order.command, order.words).await?;
        pipeline.last().await
    }
}

/// What fred has to say of a call, and whether it was sent, it says when its connection ends.
const LAST_WORDS: Duration = Duration::from_millis(20);
/// How long a probe that nobody waits for is listened to.
const LATEST: Duration = Duration::from_secs(1);
