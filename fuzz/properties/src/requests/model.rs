//! The model: what a request has to be charged to before it may reach the inner service.

use std::collections::{BTreeMap, HashMap};

use portcullis_core::Key;
use portcullis_tower::OnMissing;

use super::identity::{ExpectedKey, values};
use super::message::Message;
use super::setup::{KeyKind, Plan, Setup};
use super::store::{Mode, Record};

pub(super) struct Model<'a> {
    setup: &'a Setup,
    /// The key of each client, and the client of each key.
    keys: HashMap<String, Key>,
    clients: HashMap<u128, String>,
    /// The units that were charged for admitted requests, by policy and client.
    spent: HashMap<(usize, String), u64>,
}

/// What has to happen to a request.
#[derive(Debug, PartialEq, Eq)]
enum Expectation {
    /// It is rejected for its identity.
    Rejected,
    /// It is charged under these policies to these clients, and passes if they admit it.
    Charged(BTreeMap<usize, String>),
}

impl<'a> Model<'a> {
    pub(super) fn new(setup: &'a Setup) -> Self {
        Self { setup, keys: HashMap::new(), clients: HashMap::new(), spent: HashMap::new() }
    }

    pub(super) fn check(&mut self, message: &Message, has_reached: bool, record: &Record) {
        let preflight = self.preflight(message);
        if preflight.is_some() {
            let is_excluded = |plan: &Plan| plan.is_shadow || plan.resolved == KeyKind::LookedUp;
            let excluded = self.setup.policies.iter().filter(|plan| is_excluded(plan));
            for plan in excluded {
                assert!(
                    !record.checked.iter().any(|name| *name == *plan.policy.name().as_str()),
                    "{message:?}"
                );
            }
        }
        let expectation = preflight.unwrap_or_else(|| self.request(message));
        let expected = match (expectation, has_reached) {
            (Expectation::Rejected, true) => panic!("reached without an identity: {message:?} {record:?}"),
            (Expectation::Rejected, false) => return,
            (Expectation::Charged(expected), _) => expected,
        };
        let has_failed = match message.mode {
            Mode::AtOnce | Mode::Later => false,
            Mode::Down | Mode::Overloaded => !expected.is_empty(),
        };
        if !has_reached {
            let is_open = expected.keys().all(|index| !self.setup.policies[*index].is_closed);
            let is_refused = has_failed && (message.mode == Mode::Overloaded || !is_open);
            assert!(record.was_denied || is_refused, "neither denied nor admitted: {message:?} {record:?}");
            return;
        }
        if has_failed {
            let open = expected.keys().all(|index| !self.setup.policies[*index].is_closed);
            assert!(open && message.mode == Mode::Down, "admitted despite a failure: {message:?}");
            return;
        }
        self.is_charged(message, &expected, record);
    }

    /// Exactly the expected policies are charged, to the client's keys, and no client exceeds a limit.
    fn is_charged(&mut self, message: &Message, expected: &BTreeMap<usize, String>, record: &Record) {
        for (index, plan) in self.setup.policies.iter().enumerate().filter(|(_, plan)| !plan.is_shadow) {
            let name = plan.policy.name().as_str();
            let charged: Vec<_> = record.charged.iter().filter(|charged| charged.policy == name).collect();
            let Some(client) = expected.get(&index) else {
                assert!(charged.is_empty(), "{name} is charged for nothing: {message:?}");
                continue;
            };
            let [charged] = charged[..] else {
                panic!("{name} does not count {client}: {message:?} {record:?}")
            };
            let path = message.target.split('?').next().unwrap_or_default();
            assert_eq!(charged.cost, plan.cost.of(&message.method, path), "{name} {message:?}");
            let key = *self.keys.entry(client.clone()).or_insert(charged.key);
            assert_eq!(key, charged.key, "{client} has two keys");
            let same = self.clients.entry(key.fingerprint()).or_insert_with(|| client.clone());
            assert_eq!(same, client, "two clients have one key");
            if let Some(own) = client.strip_prefix(PREFLIGHT).and_then(|own| self.keys.get(own)) {
                assert_eq!((own.slot(), own.own_parts()), (key.slot(), key.own_parts()), "{client}");
            }
            let spent = self.spent.entry((index, client.clone())).or_insert(0);
            *spent += charged.cost;
            assert!(*spent <= plan.policy.strategy().limit(), "{name} lets {client} exceed its limit");
        }
    }

    /// What an ordinary request is charged to.
    fn request(&self, message: &Message) -> Expectation {
        let mut charged = BTreeMap::new();
        for (index, plan) in self.setup.policies.iter().enumerate().filter(|(_, plan)| !plan.is_shadow) {
            match (ExpectedKey::of(message, plan.resolved), plan.on_missing) {
                (ExpectedKey::Found(client), _) => drop(charged.insert(index, client)),
                (ExpectedKey::Missing, OnMissing::Shared) => {
                    drop(charged.insert(index, "missing identity".to_owned()));
                }
                (ExpectedKey::Exempt, _) | (ExpectedKey::Missing, OnMissing::Exempt) => {}
                (ExpectedKey::Missing | ExpectedKey::Broken, _) => return Expectation::Rejected,
            }
        }
        Expectation::Charged(charged)
    }

    /// What a preflight is charged to; `None` if the request is not a preflight.
    fn preflight(&self, message: &Message) -> Option<Expectation> {
        let once = |name| matches!(values(message, name)[..], [value] if !value.trim_ascii().is_empty());
        let is_absent = |name| values(message, name).is_empty();
        let is_preflight = message.method.as_str() == "OPTIONS"
            && message.body.is_provably_empty()
            && once("origin")
            && once("access-control-request-method")
            && is_absent("content-type")
            && is_absent("transfer-encoding")
            && values(message, "content-length").iter().all(|length| *length == b"0");
        if self.setup.limits_preflights || !is_preflight {
            return None;
        }
        let mut charged = BTreeMap::new();
        for (index, plan) in self.setup.policies.iter().enumerate() {
            if plan.is_shadow || plan.resolved == KeyKind::LookedUp {
                continue;
            }
            match ExpectedKey::of(message, plan.resolved) {
                ExpectedKey::Found(client) => drop(charged.insert(index, format!("{PREFLIGHT}{client}"))),
                ExpectedKey::Missing | ExpectedKey::Exempt => {}
                ExpectedKey::Broken => return None,
            }
        }
        let has_no_credentials =
            is_absent("authorization") && is_absent("proxy-authorization") && is_absent("cookie");
        (!charged.is_empty() || has_no_credentials).then_some(Expectation::Charged(charged))
    }
}

const PREFLIGHT: &str = "preflight of ";
