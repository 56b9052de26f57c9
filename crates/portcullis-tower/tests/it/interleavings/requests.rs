//! Requests through two layers, whose handlers correct what is charged and hand permits to tasks.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use portcullis_tower::{InFlightPermit, Limit, PolicyExt as _, RateLimitLayer, ResponseBody};

use super::history::Mark;
use super::world::{EXPORTS, Seen, UPLOADS, World, units};
use super::*;

/// How a request ends, and what its handler does before.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    number: usize,
    cost: u64,
    /// What the charge under a policy is changed to, or by.
    act: Option<(&'static str, Act)>,
    /// Whether a task takes the permits of the inner and of the outer layer.
    takes: [bool; 2],
    yields: u64,
    end: End,
    is_refused: bool,
    rows: u64,
    polls: u64,
    row_polls: u64,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let cost = 1 + random.below(5);
        let act = match random.below(6) {
            0 => Some(("daily", Act::Settle(random.below(cost + 1)))),
            1 | 2 => Some(("daily", Act::Settle(0))),
            3 => Some(("daily", Act::More(1 + random.below(4)))),
            4 => Some(("loose", Act::Settle(random.below(9)))),
            _ => None,
        };
        Self {
            number: random.index(KEYS.len()),
            cost,
            act,
            takes: [random.below(4) == 0, random.below(4) == 0],
            yields: random.below(4),
            end: [End::Respond, End::Respond, End::Respond, End::Error, End::Panic][random.index(5)],
            is_refused: random.below(3) == 0,
            rows: random.below(4),
            polls: if random.below(4) == 0 { random.below(12) } else { u64::MAX },
            row_polls: if random.below(3) == 0 { random.below(3) } else { u64::MAX },
        }
    }
}

/// What has happened to a request or a check.
pub(super) struct Run {
    world: Arc<World>,
    plan: Plan,
    begin: Mark,
    pub(super) charged: Arc<Mutex<Totals>>,
    /// The units that a policy has charged in the end, whatever was charged before.
    corrected: Mutex<BTreeMap<&'static str, u64>>,
    is_acting: AtomicBool,
}

impl Run {
    pub(super) fn new(world: &Arc<World>, plan: Plan) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            plan,
            begin: world.begin(),
            charged: Arc::default(),
            corrected: Mutex::default(),
            is_acting: AtomicBool::default(),
        })
    }

    fn saw(&self, seen: Seen) {
        self.world.saw(self.plan.number, self.begin, seen);
    }

    fn correct(&self, policy: &'static str, units: u64) {
        self.corrected.lock().unwrap().insert(policy, units);
    }

    /// Counts units under the daily limit, which are charged.
    fn spend(&self, begin: Mark, units: u64) {
        let spent = self.world.keys[self.plan.number].spent.fetch_add(units, SeqCst) + units;
        self.world.saw(self.plan.number, begin, Seen::Spent(spent));
    }

    /// The units that it leaves, once nothing of it runs.
    pub(super) fn left(&self) -> Totals {
        let mut totals = self.charged.lock().unwrap().clone();
        for (policy, units) in &*self.corrected.lock().unwrap() {
            totals.set(self.plan.number, policy, *units);
        }
        totals
    }
}

/// An export that runs: it has a permit of the outer layer, or of a check.
pub(super) struct Export(Arc<World>, usize);

impl Export {
    pub(super) fn start(world: &Arc<World>, number: usize) -> Self {
        let running = world.keys[number].exports.fetch_add(1, SeqCst) + 1;
        let export = Self(Arc::clone(world), number);
        assert!(running <= EXPORTS.policy().strategy().limit(), "{running} exports run");
        export
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.0.keys[self.1].exports.fetch_sub(1, SeqCst);
    }
}

/// From the outer layer to the handler.
type ExportSlot = Arc<Mutex<Option<Export>>>;

/// An upload that runs: it has a permit of the inner layer or of a check, unless that was reset.
pub(super) struct Upload(Arc<World>, usize, Mark);

impl Upload {
    /// The request or the check began at `begin`.
    pub(super) fn start(world: &Arc<World>, number: usize, begin: Mark) -> Self {
        let mut uploads = world.keys[number].uploads.lock().unwrap();
        uploads.begun.push(begin.number);
        let since_reset = uploads.begun.iter().filter(|begun| **begun > uploads.last_reset).count() as u64;
        let is_limited = uploads.is_resetting || since_reset <= UPLOADS.policy().strategy().limit();
        // Not with the lock held, which uploads that end need.
        drop(uploads);
        assert!(is_limited, "{since_reset} uploads run");
        Self(Arc::clone(world), number, begin)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut uploads = self.0.keys[self.1].uploads.lock().unwrap();
        let index = uploads.begun.iter().position(|begun| *begun == self.2.number).unwrap();
        uploads.begun.swap_remove(index);
    }
}

/// A body that runs until its end, or until it is dropped.
pub(super) struct Rows {
    left: u64,
    export: Option<Export>,
}

impl Body for Rows {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            self.export = None;
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"row")))))
    }
}

/// Between the layers: the outer one has admitted the request.
#[derive(Clone)]
struct Between<S>(S);

impl<S, B> Service<Request<String>> for Between<S>
where
    S: Service<Request<String>, Response = Response<B>, Error = &'static str>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, &'static str>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<String>) -> Self::Future {
        let run = Arc::clone(request.extensions().get::<Arc<Run>>().unwrap());
        run.saw(Seen::IsBlocked(false));
        let export = Export::start(&run.world, run.plan.number);
        request.extensions_mut().insert::<ExportSlot>(Arc::new(Mutex::new(Some(export))));
        let response = self.0.call(request);
        Box::pin(async move {
            let response = response.await?;
            if response.status() != 401 {
                run.correct("guesses", 0);
            }
            Ok(response)
        })
    }
}

/// Changes the charge of a request as it is planned.
async fn act(run: &Run, charge: &Charge) {
    let Some((policy, act)) = run.plan.act else { return };
    let charge = charge.for_policy(policy).unwrap();
    match act {
        Act::More(units) => {
            let begin = run.world.begin();
            let decision = charge.charge_more(units).await.unwrap();
            if decision.is_allowed() {
                run.spend(begin, units);
            }
            run.world.saw(run.plan.number, begin, Seen::Limit(decision.limit()));
        }
        Act::Settle(units) => {
            if policy == "daily" {
                run.world.keys[run.plan.number].spent.fetch_sub(run.plan.cost - units, SeqCst);
            }
            let uncharged = match units {
                0 => charge.refund().await.map(|()| 0).unwrap(),
                _ => charge.settle(units).await.unwrap().uncharged,
            };
            run.correct(policy, units - uncharged);
        }
    }
}

/// Keeps what runs, and then its permit, for some time.
pub(super) async fn hold<T, P>(running: T, permit: P, yields: u64) {
    for _ in 0..yields {
        yield_now().await;
    }
    drop(running);
    drop(permit);
}

fn handle(
    request: &Request<String>,
) -> impl Future<Output = Result<Response<Rows>, &'static str>> + Send + use<> {
    let run = Arc::clone(request.extensions().get::<Arc<Run>>().unwrap());
    let charge = request.extensions().get::<Charge>().unwrap().clone();
    let mut export = request.extensions().get::<ExportSlot>().unwrap().lock().unwrap().take();
    let mut upload = Some(Upload::start(&run.world, run.plan.number, run.begin));
    run.saw(Seen::Limit(charge.for_policy("daily").unwrap().decision().limit()));
    run.spend(run.begin, run.plan.cost);
    async move {
        let plan = run.plan;
        run.is_acting.store(true, SeqCst);
        act(&run, &charge).await;
        run.is_acting.store(false, SeqCst);
        if plan.takes[0] {
            let permit: InFlightPermit = charge.take_permit().unwrap();
            tokio::spawn(hold(upload.take(), permit, plan.yields));
        }
        if plan.takes[1] {
            let permit = charge.outer().unwrap().take_permit().unwrap();
            tokio::spawn(hold(export.take(), permit, plan.yields));
        }
        for _ in 0..plan.yields {
            yield_now().await;
        }
        match plan.end {
            End::Error => return Err("broken"),
            End::Panic => std::panic::resume_unwind(Box::new("a bug in a handler")),
            End::Respond => {}
        }
        // Its permit is held until there are headers, and that of the export until the body ends.
        drop(upload);
        let mut response = Response::new(Rows { left: plan.rows, export });
        if plan.is_refused {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        Ok(response)
    }
}

pub(super) type Stack =
    BoxCloneService<Request<String>, Response<ResponseBody<ResponseBody<Rows>>>, &'static str>;

pub(super) fn stack(registry: &Arc<Registry>) -> Stack {
    let limit = |name| units(name).by(Header::named("x-key"));
    let layer = |limit| RateLimitLayer::new(Arc::clone(registry), limit).with_charge();
    let cost =
        |parts: &http::request::Parts| parts.headers["x-cost"].to_str().unwrap().parse::<u64>().unwrap();
    let outer = layer(limit("guesses").charge_when(is_refused)).and(units("guarded")).and(EXPORTS);
    let inner =
        layer(limit("daily").cost_by(cost)).and(units("loose")).and(Limit::new(UPLOADS).release_at_headers());
    let inner = inner.layer(service_fn(|request: Request<String>| handle(&request)));
    outer.layer(Between(inner)).boxed_clone()
}

/// Polls a request as often as planned, or to its end, then its body.
pub(super) async fn request(run: Arc<Run>, mut stack: Stack) {
    let plan = run.plan;
    let request = Request::builder().header("x-key", KEYS[plan.number]).header("x-cost", plan.cost);
    let request = request.extension(Arc::clone(&run)).body(String::new()).unwrap();
    let mut response = stack.ready().await.unwrap().call(request);
    let mut answer = None;
    for polls in 0.. {
        if polls >= plan.polls && !run.is_acting.load(SeqCst) {
            break;
        }
        let polled = std::future::poll_fn(|cx| {
            Poll::Ready(catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(cx))))
        });
        match polled.await {
            Err(panic) if panic.is::<&str>() => break,
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(Poll::Ready(result)) => {
                answer = result.ok();
                break;
            }
            Ok(Poll::Pending) => yield_now().await,
        }
    }
    drop(response);
    if let Some(answer) = answer {
        use http_body_util::BodyExt as _;

        if answer.status() == 429 {
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            if text.starts_with(b"this client is blocked") {
                run.saw(Seen::IsBlocked(true));
            }
            return;
        }
        let mut body = answer.into_body();
        for _ in 0..plan.row_polls {
            if body.frame().await.is_none() {
                break;
            }
            yield_now().await;
        }
    }
}
