//! The model: what a request has to be charged to before it may reach the inner service.

use std::collections::{BTreeMap, HashMap};

use portcullis_core::Key;
use portcullis_tower::OnMissing;

use super::identity::{Who, trimmed, values};
use super::message::Message;
use super::setup::{KeyKind, Plan, Setup};
use super::store::{Mode, Record};

pub(super) struct Law<'a> {
    setup: &'a Setup,
    /// The key of each caller, and the caller of each key.
    keys: HashMap<String, Key>,
    callers: HashMap<u128, String>,
    /// The units that requests were let through for, by policy and caller.
    spent: HashMap<(usize, String), u32>,
}

/// What has to happen to a request.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It is rejected for its identity.
    Rejected,
    /// It is charged under these policies to these callers, and passes if they let it.
    Charged(BTreeMap<usize, String>),
}

impl<'a> Law<'a> {
    pub(super) fn new(setup: &'a Setup) -> Self {
        Self { setup, keys: HashMap::new(), callers: HashMap::new(), spent: HashMap::new() }
    }

    pub(super) fn holds(&mut self, message: &Message, has_reached: bool, record: &Record) {
        let preflight = self.preflight(message);
        if preflight.is_some() {
            let is_left_out = |plan: &Plan| plan.is_shadow || plan.resolved == KeyKind::LookedUp;
            let left_out = self.setup.policies.iter().filter(|plan| is_left_out(plan));
            for plan in left_out {
                assert!(
                    !record.asked.iter().any(|name| *name == *plan.policy.name().as_str()),
                    "{message:?}"
                );
            }
        }
        let fate = preflight.unwrap_or_else(|| self.request(message));
        let expected = match (fate, has_reached) {
            (Fate::Rejected, true) => panic!("reached without an identity: {message:?} {record:?}"),
            (Fate::Rejected, false) => return,
            (Fate::Charged(expected), _) => expected,
        };
        let has_failed = match message.mode {
            Mode::AtOnce | Mode::Later => false,
            Mode::Down | Mode::Overloaded => !expected.is_empty(),
        };
        if !has_reached {
            let is_open = expected.keys().all(|index| !self.setup.policies[*index].is_closed);
            let is_refused = has_failed && (message.mode == Mode::Overloaded || !is_open);
            assert!(
                record.was_denied || is_refused,
                "neither denied nor let through: {message:?} {record:?}"
            );
            return;
        }
        if has_failed {
            let open = expected.keys().all(|index| !self.setup.policies[*index].is_closed);
            assert!(open && message.mode == Mode::Down, "let through in spite of a failure: {message:?}");
            return;
        }
        self.is_charged(message, &expected, record);
    }

    /// Exactly the expected policies are charged, to the caller's keys, and no caller exceeds a limit.
    fn is_charged(&mut self, message: &Message, expected: &BTreeMap<usize, String>, record: &Record) {
        for (index, plan) in self.setup.policies.iter().enumerate().filter(|(_, plan)| !plan.is_shadow) {
            let name = plan.policy.name().as_str();
            let charged: Vec<_> = record.charged.iter().filter(|charged| charged.policy == name).collect();
            let Some(caller) = expected.get(&index) else {
                assert!(charged.is_empty(), "{name} is charged for nothing: {message:?}");
                continue;
            };
            let [charged] = charged[..] else {
                panic!("{name} does not count {caller}: {message:?} {record:?}")
            };
            let path = message.target.split('?').next().unwrap_or_default();
            assert_eq!(charged.cost, plan.cost.of(&message.method, path), "{name} {message:?}");
            let key = *self.keys.entry(caller.clone()).or_insert(charged.key);
            assert_eq!(key, charged.key, "{caller} has two keys");
            let same = self.callers.entry(key.fingerprint()).or_insert_with(|| caller.clone());
            assert_eq!(same, caller, "two callers have one key");
            if let Some(own) = caller.strip_prefix(PREFLIGHT).and_then(|own| self.keys.get(own)) {
                assert_eq!((own.slot(), own.own_parts()), (key.slot(), key.own_parts()), "{caller}");
            }
            let spent = self.spent.entry((index, caller.clone())).or_insert(0);
            *spent += charged.cost;
            assert!(*spent <= plan.policy.strategy().limit(), "{name} lets {caller} exceed its limit");
        }
    }

    /// What an ordinary request is charged to.
    fn request(&self, message: &Message) -> Fate {
        let mut charged = BTreeMap::new();
        for (index, plan) in self.setup.policies.iter().enumerate().filter(|(_, plan)| !plan.is_shadow) {
            match (Who::sends(message, plan.resolved), plan.on_missing) {
                (Who::Found(caller), _) => drop(charged.insert(index, caller)),
                (Who::Missing, OnMissing::Shared) => drop(charged.insert(index, "nobody".to_owned())),
                (Who::Exempt, _) | (Who::Missing, OnMissing::Exempt) => {}
                (Who::Missing | Who::Broken, _) => return Fate::Rejected,
            }
        }
        Fate::Charged(charged)
    }

    /// What a preflight is charged to; `None` if the request is none.
    fn preflight(&self, message: &Message) -> Option<Fate> {
        let once = |name| matches!(values(message, name)[..], [value] if !trimmed(value).is_empty());
        let none = |name| values(message, name).is_empty();
        let is_preflight = message.method.as_str() == "OPTIONS"
            && message.body.is_provably_empty()
            && once("origin")
            && once("access-control-request-method")
            && none("content-type")
            && none("transfer-encoding")
            && values(message, "content-length").iter().all(|length| *length == b"0");
        if self.setup.limits_preflights || !is_preflight {
            return None;
        }
        let mut charged = BTreeMap::new();
        for (index, plan) in self.setup.policies.iter().enumerate() {
            if plan.is_shadow || plan.resolved == KeyKind::LookedUp {
                continue;
            }
            match Who::sends(message, plan.resolved) {
                Who::Found(caller) => drop(charged.insert(index, format!("{PREFLIGHT}{caller}"))),
                Who::Missing | Who::Exempt => {}
                Who::Broken => return None,
            }
        }
        let shows_none = none("authorization") && none("proxy-authorization") && none("cookie");
        (!charged.is_empty() || shows_none).then_some(Fate::Charged(charged))
    }
}

const PREFLIGHT: &str = "preflight of ";
