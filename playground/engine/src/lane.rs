//! A lane: instances of a service that decide about the requests of a scene, in virtual time.

mod decide;
mod instance;
mod leased;
mod reach;
mod service;
mod written;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::{Key, ManualClock, Policy, Receipt, Secret, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_response::internal::{ResponseSettings, RetrySpread, ShownPolicy};

use crate::by_key::ByKey;
use crate::json::Json;
use crate::sample::Samples;
use crate::scene::{Balance, KeyKind, LaneSettings, Scene, StoreKind};
use crate::traffic::{MAX_REQUESTS, Random, Request};
use instance::{Instance, Redis};
use service::{Entered, Gate};

/// What became of a request. Times are microseconds.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) request: Request,
    pub(crate) verdict: Verdict,
    pub(crate) wait: u64,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: u64,
    /// The exact wait of a denial. `None` if no retry is known to succeed.
    pub(crate) retry: Option<u64>,
    /// The index of the decisive limit.
    pub(crate) policy: Option<usize>,
    pub(crate) instance: usize,
    pub(crate) is_degraded: bool,
    pub(crate) is_leased: bool,
    /// When it ended.
    pub(crate) end: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Wait,
    Limited,
    StoreFailed,
    Shed,
}

/// What happened to the states, in the order of time, for a scenario file.
pub(crate) enum Step {
    /// The row was decided.
    Check(usize),
    /// The permits of the row were released, under the limit.
    Release { at: u64, row: usize, limit: usize },
    /// The row was settled at a cost, under the limit.
    Settle { at: u64, row: usize, limit: usize, cost: u64 },
}

/// A lane while it runs, and what it has found.
pub(crate) struct Lane<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) settings: &'a LaneSettings,
    clock: ManualClock,
    is_cut: Arc<AtomicBool>,
    /// The states of the store that the instances share.
    redis: Arc<MemoryStore<Arc<ManualClock>>>,
    instances: Vec<Instance>,
    responses: ResponseSettings,
    random: Random,
    gate: Option<Gate>,
    /// The rows that are in the service.
    entered: ByKey<usize, Entered>,
    events: BinaryHeap<Reverse<Event>>,
    /// What is owed for admitted requests, by their rows.
    receipts: ByKey<usize, Vec<Receipt>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) steps: Vec<Step>,
    pub(crate) samples: Samples,
    seen: Vec<(usize, Owner)>,
    turn: usize,
    wanted: Option<usize>,
    explained: Option<String>,
}

/// Whose state it is: a client, or -1 for all, and an instance, or 0 for what they share.
pub(crate) type Owner = (i64, usize);

/// What happens at an instant. Those of one instant happen in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Cut(bool),
    /// The row has ended.
    End(usize),
    /// A request of the list arrives.
    Arrive(usize),
    Tick,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(scene: &'a Scene, settings: &'a LaneSettings) -> Result<Self, String> {
        let clock = ManualClock::new(Timestamp::from_micros(scene.start * 1_000));
        let (is_cut, shared_clock) = (Arc::new(AtomicBool::new(false)), Arc::new(clock.clone()));
        let redis = Arc::new(memory(&shared_clock));
        let instances = (0..settings.instances).map(|_| {
            let reach = Redis::new(Arc::clone(&redis), Arc::clone(&is_cut));
            Instance::new(settings, reach, &shared_clock)
        });
        let instances = instances.collect::<Result<_, String>>()?;
        let mut responses = ResponseSettings::default();
        responses.set_headers(settings.headers.headers());
        if settings.spread > 0 {
            let spread = RetrySpread::new(Duration::from_millis(settings.spread));
            responses.set_retry_spread(spread.expect("a scene's spread is at most an hour"));
        }
        let shown: Vec<_> = settings
            .limits
            .iter()
            .enumerate()
            .map(|(index, limit)| ShownPolicy {
                index,
                policy: &limit.policy,
                is_listed: true,
                warn_at: None,
            })
            .collect();
        responses.render(&shown);
        Ok(Self {
            scene,
            settings,
            clock,
            is_cut,
            redis,
            instances,
            responses,
            random: Random::new(scene.seed),
            gate: settings.service.map(|service| Gate::new(service, settings.shed)),
            entered: ByKey::new(),
            events: BinaryHeap::new(),
            receipts: ByKey::new(),
            rows: Vec::new(),
            steps: Vec::new(),
            samples: Samples::new(settings.limits.len()),
            seen: Vec::new(),
            turn: 0,
            wanted: None,
            explained: None,
        })
    }

    /// Explains a row when it is decided.
    pub(crate) fn explain(&mut self, row: usize) {
        self.wanted = Some(row);
    }

    pub(crate) fn explained(self) -> Option<String> {
        self.explained
    }

    /// Sends the requests, and those that follow from denials.
    pub(crate) fn run(&mut self, mut requests: Vec<Request>) -> Result<(), String> {
        let end = self.scene.duration * 1_000;
        for [from, to] in &self.settings.outages {
            self.schedule(from * 1_000, What::Cut(true));
            self.schedule(to * 1_000, What::Cut(false));
        }
        for tick in 0..=TICKS {
            self.schedule(end * tick / TICKS, What::Tick);
        }
        for (index, request) in requests.iter().enumerate() {
            self.schedule(request.at, What::Arrive(index));
        }
        while let Some(Reverse(Event { at, what })) = self.events.pop() {
            if at > end {
                break;
            }
            self.clock.set(self.instant(at));
            for instance in &self.instances {
                instance.return_leases();
            }
            match what {
                What::Cut(is_cut) => self.is_cut.store(is_cut, Relaxed),
                What::End(row) => self.end(at, row),
                What::Tick => self.sample_all(at),
                What::Arrive(index) => {
                    let request = requests[index];
                    if let Some(retry) = self.arrive(request) {
                        if requests.len() >= MAX_REQUESTS {
                            return Err(format!("more than {MAX_REQUESTS} requests with the retries"));
                        }
                        self.schedule(retry.at, What::Arrive(requests.len()));
                        requests.push(retry);
                    }
                }
            }
        }
        Ok(())
    }

    fn schedule(&mut self, at: u64, what: What) {
        self.events.push(Reverse(Event { at, what }));
    }

    fn instant(&self, at: u64) -> Timestamp {
        Timestamp::from_micros(self.scene.start * 1_000 + at)
    }

    fn instance_of(&mut self, request: &Request) -> usize {
        let instances = self.instances.len();
        match self.settings.balance {
            Balance::Turns => {
                self.turn += 1;
                (self.turn - 1) % instances
            }
            Balance::Random => {
                let most = instances as u64 - 1;
                usize::try_from(self.random.between(0, most)).unwrap_or(0)
            }
            Balance::Sticky => (request.client + request.member as usize) % instances,
        }
    }

    /// The key of a client, or of one of its members, under a limit.
    fn key(&self, limit: usize, client: usize, member: u32) -> Key {
        let mut hasher = Secret::published().hasher();
        let mut writer = hasher.writer();
        match self.settings.limits[limit].key {
            KeyKind::All => writer.shared_part("all", b""),
            KeyKind::Client => {
                writer.part("client", self.scene.clients[client].name.as_bytes());
                writer.part("member", &member.to_be_bytes());
            }
        }
        hasher.finish().expect("there is a part")
    }

    /// The policy of a limit, as one instance has it or as all do.
    pub(crate) fn policy(&self, limit: usize, instance: Option<usize>) -> &Policy {
        match instance {
            Some(instance) => self.instances[instance].policy(limit),
            None => &self.settings.limits[limit].policy,
        }
    }

    /// Whose state a row changes under a limit.
    fn owner(&self, limit: usize, request: &Request, instance: usize) -> Owner {
        let client = match self.settings.limits[limit].key {
            KeyKind::All => -1,
            KeyKind::Client => i64::try_from(request.client).unwrap_or(-1),
        };
        (client, if self.settings.store == StoreKind::Share { instance } else { 0 })
    }

    fn sample_all(&mut self, at: u64) {
        for (limit, owner) in self.seen.clone() {
            self.sample(at, limit, owner, true);
        }
        if self.settings.limits.iter().any(|limit| limit.policy.max_lease().is_some()) {
            self.samples.add_leases(at, self.instances.iter().map(Instance::in_lease));
        }
        if let Some(gate) = &self.gate {
            self.samples.add_service(at, gate.figures());
        }
    }

    fn sample_row(&mut self, at: u64, row: usize) {
        let Row { request, instance, .. } = self.rows[row];
        // The members of a herd that have budgets of their own are too many to be drawn.
        for limit in 0..self.settings.limits.len() {
            let owner = self.owner(limit, &request, instance);
            if request.member <= 1 || owner.0 < 0 {
                if !self.seen.contains(&(limit, owner)) {
                    self.seen.push((limit, owner));
                }
                self.sample(at, limit, owner, false);
            }
        }
    }

    fn sample(&mut self, at: u64, limit: usize, owner: Owner, is_tick: bool) {
        let client = usize::try_from(owner.0).unwrap_or(0);
        let policy = self.instances[owner.1].policy(limit).clone();
        let herds =
            self.scene.streams.iter().any(|stream| stream.client == client && stream.members.is_some());
        let key = self.key(limit, client, u32::from(herds && owner.0 >= 0));
        let state = match self.instances[owner.1].own_states() {
            Some(states) => states.state(&policy, key),
            None => self.redis.state(&policy, key),
        };
        let now = self.instant(at);
        self.samples.add(limit, (at, owner), (policy.strategy(), state.as_ref(), now), is_tick);
    }

    pub(crate) fn write(&self, json: &mut Json) {
        written::write(self, json);
    }
}

/// A store in memory, by a clock that is set. It sweeps nothing: when an expired state is found depends on where it is in the table, which is
/// random.
fn memory(clock: &Arc<ManualClock>) -> MemoryStore<Arc<ManualClock>> {
    MemoryStore::builder().clock(Arc::clone(clock)).swept_per_check(0).build()
}

/// How many samples are taken beside those at requests.
const TICKS: u64 = 200;
