//! `charge_when` and `charge_after`: which responses are charged, and what happens before.

use portcullis_tower::Limit;

use super::super::charge_when::ChargeWhen;
use super::Reader;
use crate::fields::{Fields, decode, quoted};
use crate::tables::MOST_UNSETTLED;
use crate::tree::{Node, Value};

impl Reader<'_> {
    /// `true`, or the most requests of a key that are unsettled at the same time.
    pub(super) fn charge_after(fields: &Fields<'_>, limit: Limit) -> Limit {
        let Some(node) = fields.node("charge_after") else { return limit };
        match node.value {
            Value::Bool(false) => {}
            Value::Bool(true) => return limit.charge_after(),
            Value::Integer(_) | Value::Float(_) => {
                let Some(requests) = fields.read("charge_after") else { return limit };
                if requests > MOST_UNSETTLED {
                    let message =
                        format!("a policy cannot wait for {requests} responses of a key at the same time");
                    fields.error("charge_after", message).help(format!("write at most {MOST_UNSETTLED}"));
                    return limit;
                }
                if requests == 0 {
                    fields
                        .warning("charge_after", "every request is rejected")
                        .help("write how many requests of a key may be without a response at the same time");
                }
                return limit.charge_after_at_most(requests);
            }
            _ => {
                fields
                    .expected("charge_after", node, "true, false or a number of requests")
                    .help("write true, or the most requests of a key at the same time, such as 20");
            }
        }
        limit
    }

    pub(super) fn charge_when(&self, fields: &Fields<'_>) -> Option<ChargeWhen> {
        let fields = fields.table("charge_when")?;
        let (status, grpc_status) = (fields.path("status"), fields.path("grpc_status"));
        let (what, without) = (["charge", "charge_when"], "it charges no response");
        let charge_when = ChargeWhen {
            status: fields.each("status").filter_map(|one| self.status(one, &status)).collect(),
            grpc_status: fields
                .each("grpc_status")
                .filter_map(|one| self.grpc_status(one, &grpc_status))
                .collect(),
            function: self.function(&self.hooks.charges, &fields, what, without, None),
            function_name: fields.node("function").map(ToString::to_string),
        };
        if fields.is_empty() {
            fields
                .missing_any("the table names no response")
                .help("write { status = [401, 403] }, { grpc_status = [16] } or { function = \"name\" }");
        }
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
