//! Sends the lines of a log through the layers of a limiter, at the instants of the log.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::header::HOST;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use portcullis_core::{Clock as _, ManualClock, Secret, Timestamp};
use portcullis_memory::{MemoryStats, MemoryStore};
use portcullis_tower::Registry;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::counts::{Counts, Recorder};
use super::line::Line;
use super::store::{Recording, RecordingStore};
use super::suggest::{self, Suggestion, Target};
use super::upstream::Upstream;

/// What a simulation keeps and shows.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is shown as the caller: this header, or the address of the client.
    pub caller: Option<HeaderName>,
    /// The `host` of requests whose line has none.
    pub host: Option<HeaderValue>,
    /// The number of pairs of rule and caller that are counted exactly.
    pub kept_callers: usize,
    /// The number of checks that are kept to suggest quotas; 0 if there are no suggestions.
    pub kept_checks: usize,
    /// Headers of the lines that nothing in the layer reads, so that requests are made without them.
    pub unread: Vec<HeaderName>,
}

impl Default for Options {
    fn default() -> Self {
        Self { caller: None, host: None, kept_callers: 100_000, kept_checks: 1_000_000, unread: Vec::new() }
    }
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It passes.
    Admitted,
    /// It is rejected.
    Rejected,
    /// It waits, as the rules let it, and is counted when the wait is over.
    Waits,
    /// It is no HTTP request.
    Unusable,
}

/// A limiter in memory, on the clock of the log, with a service that answers as the log says.
///
/// The layers are those of a server, and so is the store, with room for 4 000 000 keys per policy. Shares of keys
/// ([`Percent`](portcullis_tower::Percent)) are drawn by a fixed secret: other clients are in them than in production.
///
/// ```
/// use portcullis_cli::simulate::{Engine, LogReader, Options, Outcome};
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{ClientIp, PolicyExt as _, RateLimitLayer};
///
/// let mut engine = Engine::new(Options::default(), |registry| {
///     let search = Policy::gcra("search", Quota::per_minute(2).burst(2));
///     RateLimitLayer::try_new(registry.clone(), [search.by(ClientIp::peer())])
/// })?;
/// let line = "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /search HTTP/1.1\" 200 17\n";
/// let log = line.repeat(3);
/// let mut reader = LogReader::new(log.as_bytes());
/// let mut outcomes = Vec::new();
/// while let Some(line) = reader.next()? {
///     outcomes.push(engine.handle(line));
/// }
/// assert_eq!(outcomes, [Outcome::Admitted, Outcome::Admitted, Outcome::Rejected]);
/// let counts = engine.finish();
/// assert_eq!((counts.requests, counts.rejected), (3, 1));
/// assert_eq!(counts.callers.top(1), [(0, "192.0.2.1", 1)]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Engine<S> {
    options: Options,
    service: S,
    upstream: Upstream,
    clock: ManualClock,
    store: Arc<RecordingStore<MemoryStore<ManualClock>>>,
    recorder: Recorder,
    runtime: Runtime,
    waiting: JoinSet<()>,
    /// An instant of the runtime, and of the log. Kept while requests wait.
    origin: Option<(Instant, u64)>,
    /// The caller of the request, if it is a header.
    caller: String,
}

impl<S, B> Engine<S>
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
{
    /// Builds a limiter, whose layer is made by `layer`.
    ///
    /// # Errors
    ///
    /// If `layer` returns an error, or the runtime for requests that wait cannot be made.
    pub fn new<L, E>(
        options: Options,
        layer: impl FnOnce(&Arc<Registry>) -> Result<L, E>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>>
    where
        L: Layer<Upstream, Service = S>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Its time passes only while all its tasks wait.
        let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let clock = ManualClock::default();
        let inner = MemoryStore::builder()
            .clock(clock.clone())
            .capacity(CAPACITY)
            .total_capacity(usize::MAX)
            .total_bytes(usize::MAX)
            .build();
        let recording = (options.kept_checks > 0).then(|| Recording::new(options.kept_checks));
        let recorder = Recorder::new(options.kept_callers);
        let store = Arc::new(RecordingStore::new(inner, clock.clone(), recording, recorder.clone()));
        let registry = Arc::new(Registry::new(Arc::clone(&store) as _, Secret::published()));
        registry.observe(Arc::new(recorder.clone()));
        let upstream = Upstream::default();
        let service = {
            let _context = runtime.enter();
            layer(&registry).map_err(Into::into)?.layer(upstream.clone())
        };
        let (waiting, caller) = (JoinSet::new(), String::new());
        Ok(Self {
            options,
            service,
            upstream,
            clock,
            store,
            recorder,
            runtime,
            waiting,
            origin: None,
            caller,
        })
    }

    /// Sends a request through the layers, after those that have waited until its instant.
    ///
    /// Call it with lines in the order of time: an earlier instant counts as that of the line before.
    pub fn handle(&mut self, line: &Line) -> Outcome {
        let Some(request) = self.request(line) else {
            self.recorder.state().counts.unusable += 1;
            return Outcome::Unusable;
        };
        let now = line.micros.max(self.clock.now().as_micros());
        self.advance(now);
        self.clock.set(Timestamp::from_micros(now));
        let caller = self.options.caller.as_ref().map(|_| self.caller.as_str());
        self.recorder.begin(now, caller, line.peer);
        self.upstream.set_status(line.status);

        let _context = self.runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        // The service behind the layers is always ready, and so are they.
        let Poll::Ready(Ok(())) = self.service.poll_ready(&mut cx) else { return Outcome::Unusable };
        let mut response = Box::pin(self.service.call(request));
        match response.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(_)) if self.recorder.state().current.is_rejected => Outcome::Rejected,
            Poll::Ready(Ok(_)) => Outcome::Admitted,
            Poll::Pending => {
                self.wait(response, now, line.status);
                Outcome::Waits
            }
        }
    }

    /// Waits for the requests that still wait, and returns the counts.
    pub fn finish(&mut self) -> Counts {
        let waiting = &mut self.waiting;
        self.runtime.block_on(async { while waiting.join_next().await.is_some() {} });
        self.origin = None;
        self.recorder.state().counts.clone()
    }

    /// How full the store is.
    pub fn store_stats(&self) -> MemoryStats {
        self.store.inner.stats()
    }

    /// For each policy, the smallest quota that would have rejected no more than the target.
    pub fn suggestions(&self, target: Target) -> Vec<Suggestion> {
        self.store.recording().map_or_else(Vec::new, |recording| suggest::suggest(&recording, target))
    }

    fn request(&mut self, line: &Line) -> Option<Request<String>> {
        let method = match line.method() {
            b"" => Method::GET,
            method => Method::from_bytes(method).ok()?,
        };
        let mut request = self.upstream.request();
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(line.target()).ok()?;
        for (name, value) in line.headers() {
            if !self.options.unread.contains(name) {
                request.headers_mut().append(name.clone(), HeaderValue::from_bytes(value).ok()?);
            } else if !is_header_value(value) {
                return None;
            }
        }
        if let Some(host) = &self.options.host
            && !request.headers().contains_key(HOST)
        {
            request.headers_mut().insert(HOST, host.clone());
        }
        request.extensions_mut().insert(SocketAddr::new(line.peer, 0));
        if let Some(name) = &self.options.caller {
            self.caller.clear();
            let value = request.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
            self.caller.push_str(value.as_deref().unwrap_or("(none)"));
        }
        Some(request)
    }

    /// Lets time pass for the requests that wait.
    fn advance(&mut self, now: u64) {
        let Some((instant, micros)) = self.origin else { return };
        let until = instant + Duration::from_micros(now.saturating_sub(micros));
        self.runtime.block_on(async { tokio::time::sleep_until(until).await });
        while self.waiting.try_join_next().is_some() {}
        if self.waiting.is_empty() {
            self.origin = None;
        }
    }

    /// Lets the response wait, in a task that sets the clock of the store whenever its time has passed.
    fn wait(&mut self, mut response: Pin<Box<S::Future>>, now: u64, status: u16) {
        let (instant, micros) = *self.origin.get_or_insert_with(|| (Instant::now(), now));
        let mut current = {
            let mut state = self.recorder.state();
            state.counts.waited += 1;
            state.current.clone()
        };
        let (upstream, recorder, clock) = (self.upstream.clone(), self.recorder.clone(), self.clock.clone());
        let waiting = poll_fn(move |cx| {
            let passed = u64::try_from(instant.elapsed().as_micros()).unwrap_or(u64::MAX);
            let now = micros.saturating_add(passed).max(clock.now().as_micros());
            clock.set(Timestamp::from_micros(now));
            upstream.set_status(status);
            recorder.swap(&mut current);
            let polled = response.as_mut().poll(cx);
            recorder.swap(&mut current);
            polled.map(drop)
        });
        self.waiting.spawn_on(waiting, self.runtime.handle());
    }
}

impl<S> Engine<S> {
    /// The names of the rules that rejected the last request.
    pub fn rejected_by(&self) -> Vec<String> {
        let state = self.recorder.state();
        let rules = state.current.rejected_by.iter();
        rules.map(|rule| state.counts.rules[*rule].name.clone()).collect()
    }

    /// The caller of the last request, as the log shows it.
    pub fn caller(&self) -> String {
        self.recorder.state().current.caller().to_owned()
    }
}

/// What a server takes for the value of a header.
fn is_header_value(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..))
}

/// The keys of each policy. Memory is allocated as keys arrive.
const CAPACITY: usize = 4_000_000;

#[cfg(test)]
mod tests;
