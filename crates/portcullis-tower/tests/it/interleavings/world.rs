//! What the requests of all threads share: the limiter, what it should have in the end, and what operators do meanwhile.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use portcullis_core::store::{Outcome, StoreFuture};
use portcullis_core::{Concurrency, Receipt, Settlement, Strategy};
use portcullis_memory::MemoryStore;

use super::history::{History, Mark, Part, Restarted, Span, Ticking};
use super::requests::Upload;
use super::*;

/// The last one is reset at any time, and its window begins with the first charge after that.
pub(super) const UNITS: [&str; 5] = ["guesses", "guarded", "daily", "loose", "restarted"];
pub(super) const DAILY_LIMIT: u64 = 40;
pub(super) const EXPORTS: Concurrency = Concurrency::new("exports", 4).lease(LEASE);
/// Is reset at any time.
pub(super) const UPLOADS: Concurrency = Concurrency::new("uploads", 3).lease(LEASE);
/// Longer than the clock goes on, so that no permit lapses.
const LEASE: Duration = Duration::from_secs(3_600);
const MOST_MICROS: u64 = 3_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn units(name: &str) -> Policy {
    let policy = |limit| {
        Policy::try_new(name, FixedWindow::new(Quota::per_day(limit)), PolicySettings::default()).unwrap()
    };
    match name {
        "daily" => policy(DAILY_LIMIT).allow_overrides(),
        "guarded" | "loose" => policy(LIMIT).allow_overrides(),
        "restarted" => {
            let window = portcullis_core::FixedWindow::new(Quota::per_day(LIMIT)).unwrap();
            let window = window.anchored(portcullis_core::Anchor::FirstRequest);
            Policy::literal("restarted", Strategy::FixedWindow(window))
        }
        _ => policy(LIMIT),
    }
}

tokio::task_local! {
    /// What the store has charged for a request or a check.
    pub(super) static CHARGED: Arc<Mutex<Totals>>;
}

/// A store in memory that records what it charges. It answers at once, or lets others run before and after.
pub(super) struct Recording {
    pub(super) store: MemoryStore<Ticking>,
    is_later: bool,
}

/// The receiver is an `Arc` behind this reference.
pub(super) struct Shared(pub(super) Arc<Recording>);

impl Shared {
    fn answer<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&MemoryStore<Ticking>) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let store = Arc::clone(&self.0);
        if !store.is_later {
            return ask(&store.store);
        }
        StoreFuture::boxed(async move {
            yield_now().await;
            let answer = ask(&store.store).into_ready().ok().unwrap();
            yield_now().await;
            answer
        })
    }
}

impl portcullis_core::store::Store for Shared {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let charged = CHARGED.try_with(Arc::clone).ok();
        self.answer(move |store| {
            let costs: Vec<_> = checks.iter().filter_map(|check| Some((id_of(check)?, check.cost))).collect();
            let outcome = store.check(checks).into_ready().ok().unwrap();
            if let (Ok(outcome), Some(charged)) = (&outcome, charged)
                && outcome.is_allowed()
            {
                for ((key, policy), units) in costs {
                    charged.lock().unwrap().add(key, policy, units);
                }
            }
            StoreFuture::ready(outcome)
        })
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<portcullis_core::Decision> {
        self.answer(move |store| store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.answer(move |store| store.settle(receipt, cost))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let policy = policy.clone();
        self.answer(move |store| store.reset(&policy, key))
    }

    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        let policy = policy.clone();
        self.answer(move |store| store.set_grant(&policy, key, grant))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        let policy = policy.clone();
        self.answer(move |store| store.block(&policy, key, length))
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let policy = policy.clone();
        self.answer(move |store| store.unblock(&policy, key))
    }
}

/// The number of a key, and the name of a policy. `None` for a permit.
fn id_of(check: &portcullis_core::store::Check) -> Option<(usize, &'static str)> {
    let name = UNITS.into_iter().find(|name| *name == check.policy.name().as_str())?;
    Some(((0..KEYS.len()).position(|number| key(number) == check.key)?, name))
}

/// The uploads of a key that run.
#[derive(Default)]
pub(super) struct Uploads {
    /// When their requests began.
    pub(super) begun: Vec<u64>,
    pub(super) is_resetting: bool,
    pub(super) last_reset: u64,
}

pub(super) struct PerKey {
    pub(super) exports: AtomicU64,
    pub(super) uploads: Mutex<Uploads>,
    /// At most what is charged under the daily limit.
    pub(super) spent: AtomicU64,
    pub(super) restarted: Mutex<Restarted>,
    pub(super) grants: Mutex<History>,
    pub(super) blocks: Mutex<History>,
    /// Held by the one operator that changes the key.
    operator: tokio::sync::Mutex<()>,
}

/// What a request has seen in a span of time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    Limit(u64),
    Spent(u64),
    IsBlocked(bool),
}

pub(super) struct World {
    pub(super) registry: Arc<Registry>,
    pub(super) store: Arc<Recording>,
    clock: Ticking,
    next_mark: AtomicU64,
    pub(super) keys: [PerKey; 3],
    pub(super) seen: Mutex<Vec<(usize, Span, Seen)>>,
}

impl World {
    pub(super) fn new(is_later: bool) -> Self {
        let clock = Ticking::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let store = Arc::new(Recording { store, is_later });
        let registry = Registry::new(Arc::new(Shared(Arc::clone(&store))), Secret::published());
        let per_key = || PerKey {
            exports: AtomicU64::default(),
            uploads: Mutex::default(),
            spent: AtomicU64::default(),
            restarted: Mutex::default(),
            grants: Mutex::new(History::new()),
            blocks: Mutex::new(History::new()),
            operator: tokio::sync::Mutex::default(),
        };
        Self {
            registry: Arc::new(registry),
            store,
            clock,
            next_mark: AtomicU64::new(1),
            keys: [(); 3].map(|()| per_key()),
            seen: Mutex::default(),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        let micros = self.clock.micros();
        let number = self.next_mark.fetch_add(1, SeqCst);
        Mark { number, micros: micros.max(self.clock.micros()) }
    }

    pub(super) fn begin(&self) -> Mark {
        let micros = self.clock.micros();
        Mark { micros, ..self.mark() }
    }

    pub(super) fn saw(&self, number: usize, begin: Mark, seen: Seen) {
        let span = Span { begin, end: self.mark() };
        self.seen.lock().unwrap().push((number, span, seen));
    }

    /// One change that an operator makes.
    pub(super) async fn operate(&self, random: &mut Random) {
        let number = random.index(KEYS.len());
        let (per_key, key, registry) = (&self.keys[number], key(number), &self.registry);
        let Ok(_operator) = per_key.operator.try_lock() else { return };
        let length =
            if random.below(2) == 0 { DAY } else { Duration::from_micros(1 + random.below(9_000_000)) };
        let part = |limit| Some(Part { limit, length: u64::try_from(length.as_micros()).unwrap() });
        let (daily, guarded) = (units("daily"), units("guarded"));
        let begin = self.begin();
        match random.below(8) {
            0 | 1 => {
                let limit = 1 + random.below(6 * DAILY_LIMIT);
                registry.grant(&daily, key, Quota::per_day(limit)).for_duration(length).await.unwrap();
                per_key.grants.lock().unwrap().push(Span { begin, end: self.mark() }, part(limit));
            }
            2 => {
                registry.revoke_grant(&daily, key).await.unwrap();
                per_key.grants.lock().unwrap().push(Span { begin, end: self.mark() }, None);
            }
            3 => {
                registry.block(&guarded, key, length).await.unwrap();
                per_key.blocks.lock().unwrap().push(Span { begin, end: self.mark() }, part(0));
            }
            4 => {
                registry.unblock(&guarded, key).await.unwrap();
                per_key.blocks.lock().unwrap().push(Span { begin, end: self.mark() }, None);
            }
            5 => {
                registry.store().reset(&units("restarted"), key).await.unwrap();
                per_key.restarted.lock().unwrap().reset(Span { begin, end: self.mark() });
            }
            6 => self.reset_uploads(number).await,
            _ if self.clock.micros() < MOST_MICROS => self.clock.advance(random.below(4_000_000)),
            _ => {}
        }
    }

    async fn reset_uploads(&self, number: usize) {
        let uploads = || self.keys[number].uploads.lock().unwrap();
        uploads().is_resetting = true;
        self.registry.store().reset(&UPLOADS.policy(), key(number)).await.unwrap();
        let mut uploads = uploads();
        (uploads.is_resetting, uploads.last_reset) = (false, self.mark().number);
    }

    /// Resets uploads three times in a row, and takes all permits after each. Each time the same serial numbers are given out, which
    /// are then released in any order: those from before a reset free none that was taken after it.
    pub(super) async fn reset_uploads_in_a_row(self: &Arc<Self>, random: &mut Random) {
        let number = random.index(KEYS.len());
        let Ok(_operator) = self.keys[number].operator.try_lock() else { return };
        let take = async || {
            let (policy, begin) = (UPLOADS.policy(), self.begin());
            let check = CheckBuilder::new(&self.registry, &policy).by_key(key(number));
            let charge = check.await.ok()?;
            Some((Upload::start(self, number, begin), charge.take_permit().unwrap()))
        };
        let mut held = Vec::new();
        for _ in 0..3 {
            self.reset_uploads(number).await;
            while let Some(permit) = take().await {
                held.push(permit);
            }
        }
        // Each release of an old permit is followed by a request that is denied, unless a later permit is released.
        while !held.is_empty() {
            let (upload, permit) = held.swap_remove(random.index(held.len()));
            drop(upload);
            drop(permit);
            for _ in 0..3 {
                yield_now().await;
            }
            drop(take().await);
        }
    }

    /// The units that are charged under a policy, or its permits that are held.
    pub(super) fn used(&self, number: usize, policy: Policy) -> u64 {
        let limit = if policy.name().as_str() == "daily" {
            // More than are charged, so that none is hidden.
            let quota = Quota::per_day(LIMIT);
            self.store
                .store
                .set_grant(&policy, key(number), Some((quota, DAY)))
                .into_ready()
                .unwrap()
                .unwrap();
            LIMIT
        } else {
            policy.strategy().limit()
        };
        if policy.reads_overrides() {
            self.store.store.unblock(&policy, key(number)).into_ready().unwrap().unwrap();
        }
        let peek =
            self.store.store.check(Checks::one(policy, key(number), 0)).into_ready().ok().unwrap().unwrap();
        assert_eq!(peek.decision().limit(), limit);
        limit - peek.decision().remaining()
    }
}
