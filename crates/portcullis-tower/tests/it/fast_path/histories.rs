//! Random histories of a layer of each way: requests whose handlers change their charges, at once or later, and what operators do in
//! between.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use portcullis_core::overrides::LockOut;
use portcullis_core::{Decision, Key, ManualClock, Policy, PolicyName, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Charge, Header, Mode, PolicyExt as _, RateLimit, Registry};
use proptest::collection::vec;
use proptest::prelude::*;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{SETTINGS, Setting, layer, of_way, record};
use crate::probe::{Seen, grpc, request};
use crate::support::block_on;

/// What a handler does with its charge.
#[derive(Clone, Copy, Debug)]
enum Handling {
    Nothing,
    ChargeMore(u64),
    Settle(u64),
    Refund,
    /// The charge is kept and settled by a later step.
    Keep,
    /// The charge is dropped before the handler answers.
    Drop,
}

#[derive(Clone, Debug)]
enum Step {
    Request { user: usize, method: Option<Method>, handling: Handling },
    SettleKept(u64),
    Advance(Duration),
    SetPolicy(u64),
    SetMode(Mode),
    Block(usize, Duration),
    Unblock(usize),
    Grant(usize, u64, Duration),
    Revoke(usize),
}

const USERS: [&str; 3] = ["ada", "bob", "eve"];

/// A policy, and its quota of a limit.
type Limited = (fn(Quota) -> Policy, fn(u64) -> Quota);

/// Of each algorithm that a fast layer may have.
const POLICIES: [Limited; 5] = [
    (|quota| Policy::fixed_window("all", quota), Quota::per_minute),
    (|quota| Policy::sliding_window("all", quota), Quota::per_minute),
    (|quota| Policy::sliding_log("all", quota), Quota::per_minute),
    (|quota| Policy::token_bucket("all", quota), |burst| Quota::per_minute(6).burst(burst)),
    (|quota| Policy::gcra("all", quota), |burst| Quota::per_minute(6).burst(burst)),
];

const MINUTE: Duration = Duration::from_secs(60);

/// Settings that need a clock, or keys with blocks.
const MORE_SETTINGS: [Setting; 4] = [
    |registry, all| layer(registry, all).spread_retries(MINUTE),
    |registry, all| {
        layer(registry, all.lock_out(LockOut::after(2).within(MINUTE).block_for(MINUTE * 2))).with_charge()
    },
    |registry, all| layer(registry, all).spread_retries(MINUTE).with_charge(),
    |registry, all| {
        let lock_out = LockOut::after(1).within(MINUTE).block_for(MINUTE);
        layer(registry, all.lock_out(lock_out)).spread_retries(MINUTE).with_charge()
    },
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let user = || 0..USERS.len();
    let time = || (1..150_u64).prop_map(Duration::from_secs);
    let handling = prop_oneof![
        4 => Just(Handling::Nothing),
        1 => (0..4_u64).prop_map(Handling::ChargeMore),
        2 => (0..5_u64).prop_map(Handling::Settle),
        1 => Just(Handling::Refund),
        1 => Just(Handling::Keep),
        1 => Just(Handling::Drop),
    ];
    // Without a method it is a call of gRPC.
    let method = prop_oneof![6 => Just(Some(Method::GET)), 1 => Just(Some(Method::HEAD)), 1 => Just(None)];
    let mode = prop_oneof![3 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 1 => Just(Mode::Off)];
    let sent = (user(), method, handling).prop_map(|(user, method, handling)| Step::Request {
        user,
        method,
        handling,
    });
    let step = prop_oneof![
        20 => sent,
        2 => (0..5_u64).prop_map(Step::SettleKept),
        4 => time().prop_map(Step::Advance),
        2 => (1..6_u64).prop_map(Step::SetPolicy),
        1 => mode.prop_map(Step::SetMode),
        1 => (user(), time()).prop_map(|(user, time)| Step::Block(user, time)),
        1 => user().prop_map(Step::Unblock),
        1 => (user(), 1..9_u64, time()).prop_map(|(user, limit, time)| Step::Grant(user, limit, time)),
        1 => user().prop_map(Step::Revoke),
    ];
    vec(step, 1..40)
}

type Inner = BoxCloneSyncService<Request<String>, Response<Full<Bytes>>, std::convert::Infallible>;

/// A limiter with a layer of one way.
struct World {
    registry: Arc<Registry>,
    clock: ManualClock,
    limited: Limited,
    service: RateLimit<Inner>,
    kept: Arc<Mutex<Vec<Charge>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(limited: Limited, setting: Setting, is_general: bool) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
        let seen = record(&registry);
        let limit = policy(limited, 3).by(Header::named("x-user"));
        let layer = of_way(is_general, setting(Arc::clone(&registry), limit));
        let kept = Arc::<Mutex<Vec<Charge>>>::default();
        let service = layer.layer(handlers(Arc::clone(&kept)));
        Self { registry, clock, limited, service, kept, seen }
    }

    /// Does a step, and records all that is seen of it.
    async fn run(&self, step: Step) {
        let seen = match step {
            Step::Request { user, method, handling } => self.send(user, method, handling).await,
            Step::SettleKept(units) => {
                let kept = self.kept.lock().unwrap().pop();
                match kept {
                    Some(charge) => format!("{:?} {:?}", charge.settle(units).await, charge.decisions()),
                    None => String::new(),
                }
            }
            Step::Advance(time) => {
                self.clock.advance(time);
                String::new()
            }
            Step::SetPolicy(limit) => format!("{:?}", self.registry.set_policy(policy(self.limited, limit))),
            Step::SetMode(mode) => format!("{:?}", self.registry.set_mode(&name(), mode)),
            Step::Block(user, time) => {
                format!("{:?}", self.registry.block(&self.registered(), self.key(user), time).await)
            }
            Step::Unblock(user) => {
                format!("{:?}", self.registry.unblock(&self.registered(), self.key(user)).await)
            }
            Step::Grant(user, limit, time) => {
                let (policy, quota) = (self.registered(), self.limited.1(limit));
                let grant = self.registry.grant(&policy, self.key(user), quota).for_duration(time);
                format!("{:?}", grant.await)
            }
            Step::Revoke(user) => {
                format!("{:?}", self.registry.revoke_grant(&self.registered(), self.key(user)).await)
            }
        };
        self.seen.lock().unwrap().push(seen);
    }

    async fn send(&self, user: usize, method: Option<Method>, handling: Handling) -> String {
        let headers = [("x-user", USERS[user])];
        let mut request = match method {
            Some(method) => {
                let mut request = request(&headers);
                *request.method_mut() = method;
                request
            }
            None => grpc(&headers),
        };
        request.extensions_mut().insert(handling);
        let (parts, body) = self.service.clone().oneshot(request).await.unwrap().into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let (seen, handled) = (parts.extensions.get::<Seen>(), parts.extensions.get::<Handled>());
        let seen = (seen.map(|seen| &seen.0), handled.map(|handled| &handled.0));
        let decision = parts.extensions.get::<Decision>();
        format!("{} {:?} {text:?} {seen:?} {decision:?}", parts.status, parts.headers)
    }

    fn registered(&self) -> Policy {
        self.registry.policy(&name()).unwrap()
    }

    fn key(&self, user: usize) -> Key {
        self.registry.key_of(&Header::named("x-user"), request(&[("x-user", USERS[user])])).unwrap()
    }
}

fn policy((policy, quota): Limited, limit: u64) -> Policy {
    policy(quota(limit)).allow_overrides()
}

fn name() -> PolicyName {
    PolicyName::literal("all")
}

/// What a handler did.
#[derive(Clone)]
struct Handled(String);

fn handlers(kept: Arc<Mutex<Vec<Charge>>>) -> Inner {
    BoxCloneSyncService::new(service_fn(move |mut request: Request<String>| {
        let kept = Arc::clone(&kept);
        async move {
            let handling = *request.extensions().get::<Handling>().unwrap();
            let charge = request.extensions().get::<Charge>().cloned();
            let mut response = Response::new(Full::from("inner"));
            if let Some(charge) = charge {
                response.extensions_mut().insert(Seen(charge.decision()));
                let handled = match handling {
                    Handling::Nothing => String::new(),
                    Handling::ChargeMore(units) => format!("{:?}", charge.charge_more(units).await),
                    Handling::Settle(units) => format!("{:?}", charge.settle(units).await),
                    Handling::Refund => format!("{:?}", charge.refund().await),
                    Handling::Keep => {
                        kept.lock().unwrap().push(charge);
                        String::new()
                    }
                    Handling::Drop => format!("{:?}", request.extensions_mut().remove::<Charge>()),
                };
                response.extensions_mut().insert(Handled(handled));
            }
            Ok(response)
        }
    }))
}

fn history(limited: Limited, setting: Setting, is_general: bool, steps: &[Step]) -> Vec<String> {
    block_on(async {
        let world = World::new(limited, setting, is_general);
        for step in steps {
            world.run(step.clone()).await;
        }
        world.seen.lock().unwrap().clone()
    })
}

proptest! {
    #[test]
    fn both_ways_have_the_same_history(
        policy in 0..POLICIES.len(),
        setting in 0..SETTINGS.len() + MORE_SETTINGS.len(),
        steps in steps(),
    ) {
        let setting = *SETTINGS.iter().chain(&MORE_SETTINGS).nth(setting).unwrap();
        let [fast, general] =
            [false, true].map(|is_general| history(POLICIES[policy], setting, is_general, &steps));
        prop_assert_eq!(fast, general);
    }
}

/// Each history has each kind of event and answer that the histories are made for.
#[test]
fn histories_have_blocks_grants_and_corrections() {
    let sent = |handling| Step::Request { user: 0, method: Some(Method::GET), handling };
    let steps = [
        sent(Handling::Settle(0)),
        sent(Handling::Keep),
        sent(Handling::ChargeMore(1)),
        Step::SettleKept(0),
        sent(Handling::Refund),
        Step::SetPolicy(1),
        sent(Handling::Drop),
        sent(Handling::Nothing),
        sent(Handling::Nothing),
        Step::Advance(MINUTE * 3),
        Step::Grant(0, 5, MINUTE),
        sent(Handling::Nothing),
        Step::Revoke(0),
        Step::Block(0, MINUTE),
        sent(Handling::Nothing),
        Step::Unblock(0),
        sent(Handling::Nothing),
    ];
    for limited in POLICIES {
        for setting in [SETTINGS[4], MORE_SETTINGS[1], MORE_SETTINGS[3]] {
            let [fast, general] =
                [false, true].map(|is_general| history(limited, setting, is_general, &steps));
            assert_eq!(fast, general);
            let all = fast.join("\n");
            for part in ["Refunded", "ChargedMore", "429", "\"x-ratelimit-limit\": \"5\"", "Blocked"] {
                assert!(all.contains(part), "{part}: {all}");
            }
        }
    }
}
