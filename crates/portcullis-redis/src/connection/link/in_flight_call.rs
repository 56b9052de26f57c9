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
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::breaker::{Breaker, BreakerPermit, Silence};
use super::super::error::CallError;
use super::super::in_flight::{InFlightLimit, Permit, QueueKey};
use super::super::liveness::Liveness;
use super::super::outage_log::OutageLog;
use super::super::script::untimed;
use super::{Link, Live};

/// A command, how long it may take, and what it is for.
#[derive(Clone, Debug)]
pub(in super::super) struct Command {
    pub(in super::super) custom: CustomCommand,
    pub(in super::super) words: Vec<Value>,
    /// Whether the command is to be let pass although its slot is still on its way to the server.
    pub(in super::super) asking: bool,
    /// Whether a reply proves that the server takes writes.
    pub(in super::super) wrote: fn(&Value) -> bool,
    pub(in super::super) deadline: Duration,
    pub(in super::super) end: Instant,
}

impl Command {
    /// Asks the time, which any user may who may decide.
    pub(super) fn time(deadline: Duration) -> Self {
        let custom = CustomCommand::new_static("TIME", ClusterHash::Random, false);
        let end = Instant::now() + deadline;
        Self { custom, words: Vec::new(), asking: false, wrote: |_| false, deadline, end }
    }
}

impl Link {
    /// Sends a command once.
    ///
    /// # Errors
    /// At the deadline, and at once if the link is shut or too much waits for it, in all or under the same key.
    ///
    /// # Cancel safety
    /// A call that is dropped before its turn has sent nothing; else it may still run, and keeps its permit until then. What
    /// is heard of it until its deadline counts as if somebody waited.
    pub(in super::super) async fn call(
        &self,
        command: Command,
        queue: QueueKey<'_>,
    ) -> Result<Value, CallError> {
        if let Some(error) = self.shut() {
            // The same in the words of the last error, which it takes an allocation to tell.
            return Err(self.live().err().unwrap_or(error));
        }
        let (end, deadline) = (command.end, command.deadline);
        let before = end.saturating_duration_since(Instant::now());
        let permit = self.permit(queue, end, deadline).await?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallError::NotSent(deadline));
        }
        let live = self.live()?;
        let ticket = self.breaker.admit().ok_or_else(CallError::silent)?;
        let patience = Patience::of(before, left, deadline);
        let observer =
            ReplyObserver::new(&command, patience, ticket, &live, &self.in_flight, &self.outage_log);
        let (mut flight, first) =
            InFlightCall::begin(&live, command, permit, observer, self.runtime.clone()).await;
        let result = match first {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => {
                // Whoever was sent before it has been answered: it is this one that the next reply is for.
                let next = self.in_flight.has_one();
                let result = by(end, flight.landing()).await;
                result.ok_or(()).map(|result| result.map_err(|error| (error, next)))
            }
        };
        let observer = flight.observer.take().expect("nobody has heard of it yet");
        let Ok(result) = result else { return Err(observer.observe_silence(deadline)) };
        let result = result.map_err(|(error, next)| CallError::from_fred(&error, next));
        observer.observe(&result);
        result
    }

    async fn permit(
        &self,
        queue: QueueKey<'_>,
        end: Instant,
        deadline: Duration,
    ) -> Result<Permit, CallError> {
        if self.breaker.is_closed() {
            return self.in_flight.acquire(queue, &self.breaker, end, deadline).await;
        }
        if let Some(permit) = self.in_flight.try_acquire() {
            return Ok(permit);
        }
        // All permits are held by calls without a reply, so that there is none for a probe: that is silence as well.
        self.breaker.postpone();
        if let Ok(live) = self.live() {
            live.liveness.silence();
        }
        Err(CallError::silent())
    }
}

/// What learns from one call about the link.
struct ReplyObserver {
    ticket: BreakerPermit,
    liveness: Arc<Liveness>,
    in_flight: Arc<InFlightLimit>,
    outage_log: Arc<OutageLog>,
    wrote: fn(&Value) -> bool,
    sent: Instant,
    end: Instant,
    patience: Patience,
}

/// What silence until the deadline means.
#[derive(Clone, Copy)]
enum Patience {
    /// The call waited for a reply for half of its deadline at least.
    Enough,
    /// It waited for its permit for so long that a healthy server would not have answered either.
    SpentOnPermit,
    /// It was sent shortly before its deadline for another reason, such as that a script had to be loaded.
    Little,
}

impl Patience {
    /// Of a call that had so much time `before` it asked for its permit, and had so much `left` when it was sent.
    fn of(before: Duration, left: Duration, deadline: Duration) -> Self {
        let half = deadline / 2;
        match (before >= half, left >= half) {
            (_, true) => Self::Enough,
            (true, false) => Self::SpentOnPermit,
            (false, false) => Self::Little,
        }
    }
}

impl ReplyObserver {
    fn new(
        command: &Command,
        patience: Patience,
        ticket: BreakerPermit,
        live: &Live,
        in_flight: &Arc<InFlightLimit>,
        outage_log: &Arc<OutageLog>,
    ) -> Self {
        let (liveness, in_flight, outage_log) =
            (Arc::clone(&live.liveness), Arc::clone(in_flight), Arc::clone(outage_log));
        let sent = Instant::now();
        Self {
            ticket,
            liveness,
            in_flight,
            outage_log,
            wrote: command.wrote,
            sent,
            end: command.end,
            patience,
        }
    }

    /// Notes that there was no answer in time. Returns what that is to the caller.
    fn observe_silence(self, deadline: Duration) -> CallError {
        self.in_flight.unanswered(self.sent);
        match self.patience {
            Patience::Enough => {}
            Patience::SpentOnPermit => return CallError::Overtaken(deadline),
            Patience::Little => return CallError::TimedOut(deadline),
        }
        self.liveness.silence();
        match self.ticket.silent() {
            Silence::Outage => CallError::TimedOut(deadline),
            Silence::Overload { all_late } => {
                if all_late {
                    self.in_flight.congested(self.sent);
                }
                CallError::Overtaken(deadline)
            }
        }
    }

    fn observe(self, result: &Result<Value, CallError>) {
        let Self { ticket, liveness, in_flight, outage_log, wrote, sent, .. } = self;
        match result {
            Err(error) if error.is_cluster_down() => ticket.refused(true),
            // Nothing was heard.
            Err(CallError::Lost(_) | CallError::Overloaded | CallError::NotSent(_)) => {}
            Err(error) if error.is_loading() => {
                liveness.reply();
                ticket.refused(false);
            }
            Err(CallError::Unavailable(_)) => {}
            Err(error) if error.is_read_only() => {
                liveness.read_only();
                ticket.refused(false);
            }
            _ => {
                if result.as_ref().is_ok_and(wrote) {
                    liveness.success();
                } else {
                    liveness.reply();
                }
                if ticket.answered() {
                    outage_log.up();
                }
                in_flight.answered(sent);
            }
        }
    }

    /// Listens until the deadline in place of a caller who went away: callers of little patience would else never notice
    /// a server that answers nobody. Returns what is still to come.
    async fn listen(self, mut landing: ReplyFuture) -> Option<ReplyFuture> {
        let Some(result) = by(self.end, &mut landing).await else {
            self.observe_silence(Duration::ZERO);
            return Some(landing);
        };
        self.observe(&result.map_err(|error| CallError::from_fred(&error, false)));
        None
    }
}

type ReplyFuture = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;

/// A call in fred's hands. It keeps its permit until fred is done with it, even if nobody waits any more.
struct InFlightCall {
    landing: Option<ReplyFuture>,
    permit: Option<Permit>,
    /// Gone as soon as it has heard what became of the call.
    observer: Option<ReplyObserver>,
    liveness: Arc<Liveness>,
    breaker: Arc<Breaker>,
    runtime: Handle,
}

impl InFlightCall {
    /// Hands a command to fred.
    async fn begin(
        live: &Live,
        command: Command,
        permit: Permit,
        observer: ReplyObserver,
        runtime: Handle,
    ) -> (Self, Poll<Result<Value, (Error, bool)>>) {
        let landing: ReplyFuture = if command.asking {
            Box::pin(while_connected(asked(live, command), live.over.clone()))
        } else {
            Box::pin(while_connected(sent(live, command), live.over.clone()))
        };
        let (liveness, breaker) = (Arc::clone(&live.liveness), observer.ticket.breaker());
        let (landing, permit, observer) = (Some(landing), Some(permit), Some(observer));
        let mut flight = Self { landing, permit, observer, liveness, breaker, runtime };
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

impl Drop for InFlightCall {
    fn drop(&mut self) {
        let Some(landing) = self.landing.take() else { return };
        let (permit, observer) = (self.permit.take(), self.observer.take());
        let (liveness, breaker) = (Arc::clone(&self.liveness), Arc::clone(&self.breaker));
        self.runtime.spawn(async move {
            let late = match observer {
                Some(observer) => observer.listen(landing).await,
                None => Some(landing),
            };
            if let Some(landing) = late
                && CallError::is_answer(&landing.await)
            {
                liveness.reply();
                breaker.replied();
            }
            drop(permit);
        });
    }
}

/// Asks the time in place of a caller, and listens for a while.
pub(super) async fn probe(
    live: &Live,
    ticket: BreakerPermit,
    in_flight: &Arc<InFlightLimit>,
    outage_log: &Arc<OutageLog>,
    deadline: Duration,
) {
    let command = Command::time(deadline);
    let observer = ReplyObserver::new(&command, Patience::Enough, ticket, live, in_flight, outage_log);
    let landing = Box::pin(while_connected(sent(live, command), live.over.clone()));
    if let Some(late) = observer.listen(landing).await
        && timeout(LATEST, late).await.is_ok_and(|result| CallError::is_answer(&result))
    {
        live.liveness.reply();
    }
}

/// What a call becomes by an instant; `None` if there is no reply then.
///
/// In a process that is too busy, the timer may end a call whose reply is in the socket already. Silence would be blamed on
/// the server, so what has arrived is read first: a task that yields is polled again after the sockets and whoever they wake.
async fn by<T>(end: Instant, landing: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(landing);
    if let Ok(result) = timeout_at(end, &mut landing).await {
        return Some(result);
    }
    for _ in 0..LAST_LOOKS {
        yield_now().await;
        let looked = poll_fn(|context| Poll::Ready(landing.as_mut().poll(context))).await;
        if let Poll::Ready(result) = looked {
            return Some(result);
        }
    }
    None
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

fn sent(live: &Live, command: Command) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
    let client = live.client.with_options(&untimed());
    async move { client.custom(command.custom, command.words).await }
}

/// Sends `ASKING` before the command. fred writes what is in one pipeline without anything in between.
fn asked(live: &Live, command: Command) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
    let pipeline = live.client.pipeline().with_options(&untimed());
    async move {
        let asking = CustomCommand::new_static("ASKING", ClusterHash::Random, false);
        let _: Value = pipeline.custom(asking, Vec::<Value>::new()).await?;
        let _: Value = pipeline.custom(command.custom, command.words).await?;
        pipeline.last().await
    }
}

/// The socket, the task that reads it, and the one that waits for a reply, with one to spare.
const LAST_LOOKS: usize = 4;
/// What fred has to say of a call, and whether it was sent, it says when its connection ends.
const LAST_WORDS: Duration = Duration::from_millis(20);
/// How long a probe that nobody waits for is listened to.
const LATEST: Duration = Duration::from_secs(1);
