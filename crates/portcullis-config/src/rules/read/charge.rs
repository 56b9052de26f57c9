//! `charge_when` and `charge_after`: which responses are charged, and what happens before.

use std::sync::Arc;

use portcullis_tower::{Limit, ResponseOutcome};

use super::Reader;
use crate::fields::{Fields, decode, quoted};
use crate::hooks::Charges;
use crate::tree::{Node, Value};

/// The most requests of a key that are remembered until they are settled.
const MOST_UNSETTLED: usize = 1_024;

/// A policy that charges afterwards: how many requests of a key may be unsettled at the same time.
pub(super) enum ChargeAfter {
    /// As many as a limit allows by itself.
    Default,
    AtMost(usize),
}

/// Which responses are charged.
pub(super) struct ChargeWhen {
    /// From the first to the last, both included.
    status: Vec<(u16, u16)>,
    grpc_status: Vec<i32>,
    /// What the program registered.
    function: Option<Arc<Charges>>,
}

impl ChargeAfter {
    pub(super) fn add_to(&self, limit: Limit) -> Limit {
        match self {
            Self::Default => limit.charge_after(),
            Self::AtMost(requests) => limit.charge_after_at_most(*requests),
        }
    }
}

impl ChargeWhen {
    pub(super) fn charges(&self, outcome: &ResponseOutcome<'_>) -> bool {
        let status = outcome.status().as_u16();
        self.status.iter().any(|(first, last)| (*first..=*last).contains(&status))
            || outcome.grpc_status().is_some_and(|status| self.grpc_status.contains(&status))
            || self.function.as_ref().is_some_and(|charges| charges(outcome))
    }
}

impl Reader<'_> {
    /// `true`, or the most requests of a key that are unsettled at the same time.
    pub(super) fn charge_after(&self, fields: &mut Fields<'_>) -> Option<ChargeAfter> {
        let node = fields.node("charge_after")?;
        match node.value {
            Value::Bool(looks) => looks.then_some(ChargeAfter::Default),
            Value::Integer(_) | Value::Float(_) => {
                let path = fields.path("charge_after");
                let requests: usize = decode(node, &path, self.findings)?;
                if requests > MOST_UNSETTLED {
                    let message =
                        format!("a policy cannot wait for {requests} responses of a key at the same time");
                    self.findings
                        .error(path, node.span, message)
                        .help(format!("write at most {MOST_UNSETTLED}"));
                    return None;
                }
                if requests == 0 {
                    self.findings
                        .warning(path, node.span, "every request is rejected")
                        .help("write how many requests of a key may be without a response at the same time");
                }
                Some(ChargeAfter::AtMost(requests))
            }
            _ => {
                fields
                    .expected("charge_after", node, "true, false or a number of requests")
                    .help("write true, or the most requests of a key at the same time, such as 20");
                None
            }
        }
    }

    pub(super) fn charge_when(&self, fields: &mut Fields<'_>) -> Option<ChargeWhen> {
        let mut fields = fields.table("charge_when")?;
        let status = fields.node("status").map(Node::each).unwrap_or_default();
        let status = status.iter().filter_map(|one| self.status(one, &fields.path("status"))).collect();
        let grpc_status = fields.node("grpc_status").map(Node::each).unwrap_or_default();
        let path = fields.path("grpc_status");
        let grpc_status = grpc_status.iter().filter_map(|one| self.grpc_status(one, &path)).collect();
        let (what, without) = (["charge", "charge_when"], "it charges no response");
        let function = self.function(&self.hooks.charges, &mut fields, what, without, None);
        let charge_when = ChargeWhen { status, grpc_status, function };
        let names = ["status", "grpc_status", "function"];
        if !names.iter().any(|name| fields.has(name)) {
            fields
                .missing(&names, "the table names no response")
                .help("write { status = [401, 403] }, { grpc_status = [16] } or { function = \"name\" }");
        }
        fields.finish();
        Some(charge_when)
    }

    fn grpc_status(&self, node: &Node, path: &str) -> Option<i32> {
        let status: i32 = decode(node, path, self.findings)?;
        if status < 0 {
            let message = format!("{status} is no status of gRPC");
            self.findings.error(path, node.span, message).help("write a number such as 16");
            return None;
        }
        Some(status)
    }

    /// A status such as 401, or a class such as "4xx".
    fn status(&self, node: &Node, path: &str) -> Option<(u16, u16)> {
        let wrong = |what: String| {
            self.findings
                .error(path, node.span, what)
                .help("write a number from 100 to 599, or \"4xx\" for a class");
        };
        if let Value::String(text) = &node.value
            && let Some(class) = text.strip_suffix("xx")
        {
            return match class.parse::<u16>() {
                Ok(class) if (1..=5).contains(&class) => Some((class * 100, class * 100 + 99)),
                _ => {
                    wrong(format!("{} is no class of statuses", quoted(text)));
                    None
                }
            };
        }
        let status: u16 = decode(node, path, self.findings)?;
        if (100..600).contains(&status) {
            return Some((status, status));
        }
        wrong(format!("{status} is no status"));
        None
    }
}
