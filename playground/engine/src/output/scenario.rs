//! A lane as a scenario file: what `portcullis replay` decides again, in any store.

use std::fmt::Write as _;

use portcullis_core::{Anchor, Policy, Strategy};

use super::rules::{fields, key_of};
use crate::json::quoted;
use crate::lane::{Lane, Row, Step, Verdict};
use crate::scene::{KeyKind, Scene, StoreKind};

/// One case, or one for each instance if each has its share. A case has what the store has decided: nothing that was decided while the
/// store was cut off. `None` without limits or decisions, with keys of two kinds, or with a policy that a case does not describe.
pub(super) fn of(scene: &Scene, lane: &Lane<'_>) -> Option<String> {
    let limits = &lane.settings.limits;
    let key = limits.first()?.key;
    if limits.iter().any(|limit| limit.key != key || !is_described(&limit.policy)) {
        return None;
    }
    let instances = match lane.settings.store {
        StoreKind::Shared => vec![None],
        StoreKind::Share => (0..lane.settings.instances as usize).map(Some).collect(),
    };
    let mut text = String::new();
    for instance in instances {
        let policies = (0..limits.len()).map(|limit| strategy(lane.policy(limit, instance)));
        let policies: Vec<_> = policies.collect::<Option<_>>()?;
        let steps = steps(lane, instance, key);
        if steps.is_empty() {
            continue;
        }
        let mut name = format!("{}: {}", scene.title, lane.settings.name);
        if let Some(instance) = instance {
            let _ = write!(name, ", instance {}", instance + 1);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[case]]\nname = {}", quoted(&name));
        let _ = writeln!(text, "start = \"{}\"", instant(scene.start));
        let _ = writeln!(text, "policies = {{ {} }}", policies.join(", "));
        let _ = writeln!(text, "steps = [\n{}]\n", steps.concat());
    }
    (!text.is_empty()).then_some(text)
}

/// Whether a case has a form for a policy: none for leases, for what is unlimited, and for windows from an instant on.
fn is_described(policy: &Policy) -> bool {
    let is_anchored = match policy.strategy() {
        Strategy::FixedWindow(window) => matches!(window.anchor(), Anchor::Instant(_)),
        _ => false,
    };
    policy.max_lease().is_none() && !policy.is_unlimited() && !is_anchored
}

/// The steps of a case, of all instances or of one.
fn steps(lane: &Lane<'_>, instance: Option<usize>, key: KeyKind) -> Vec<String> {
    let limits = &lane.settings.limits;
    let mut steps = Vec::new();
    // The numbers of the steps that have charged rows.
    let mut charged = vec![None; lane.rows.len()];
    for step in &lane.steps {
        let number = match *step {
            Step::Check(number) | Step::Release { row: number, .. } | Step::Settle { row: number, .. } => {
                number
            }
        };
        let row = &lane.rows[number];
        let is_of_other = instance.is_some_and(|instance| instance != row.instance);
        if is_of_other || row.is_degraded || row.verdict == Verdict::StoreFailed {
            continue;
        }
        let of_charge = |at: u64, op: &str, limit: usize| {
            let name = quoted(limits[limit].policy.name().as_str());
            let step = charged[number]?;
            Some(format!("  {{ at = \"{at}us\", op = \"{op}\", step = {step}, policy = {name}"))
        };
        let text = match *step {
            Step::Check(_) => {
                if row.is_admitted() && row.request.cost > 0 {
                    charged[number] = Some(steps.len() + 1);
                }
                Some(check(lane, row, key))
            }
            Step::Release { at, limit, .. } => of_charge(at, "refund", limit).map(|text| text + " },\n"),
            Step::Settle { at, limit, cost, .. } => {
                of_charge(at, "settle", limit).map(|text| format!("{text}, cost = {cost} }},\n"))
            }
        };
        steps.extend(text);
    }
    steps
}

fn check(lane: &Lane<'_>, row: &Row, key: KeyKind) -> String {
    let key = match key {
        KeyKind::All => "all".to_owned(),
        KeyKind::Client => match row.request.member {
            0 => lane.scene.clients[row.request.client].name.clone(),
            member => format!("{} {member}", lane.scene.clients[row.request.client].name),
        },
    };
    let Row { request, remaining, wait, .. } = row;
    let mut text = format!("  {{ at = \"{}us\", key = {}, cost = {}", request.at, quoted(&key), request.cost);
    let _ = write!(text, ", allow = {}, remaining = {remaining}", row.is_admitted());
    if row.is_admitted() {
        let _ = write!(text, ", delay = \"{wait}us\"");
    }
    text + " },\n"
}

/// A policy as a member of `policies`. Its share of two limits may be no quota.
fn strategy(policy: &Policy) -> Option<String> {
    let fields = fields(policy)?;
    let fields = fields.iter().filter(|(name, _)| {
        let is_of_policy =
            ["name", "on_store_failure", "caller_quotas", "overrides"].contains(&name.as_str());
        // Every leaky bucket has a queue, which is its wait.
        !is_of_policy
    });
    let fields: Vec<_> = fields.map(|(name, value)| format!("{name} = {value}")).collect();
    Some(format!("{} = {{ {} }}", key_of(policy.name().as_str()), fields.join(", ")))
}

/// An instant in RFC 3339, from milliseconds since the Unix epoch.
///
/// Source: Hinnant, chrono-compatible low-level date algorithms, `civil_from_days`.
fn instant(millis: u64) -> String {
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates() {
        assert_eq!(instant(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(instant(1_767_225_600_000), "2026-01-01T00:00:00.000Z");
        assert_eq!(instant(951_827_696_789), "2000-02-29T12:34:56.789Z");
    }
}
