//! `portcullis admin URL watch`: the rates of each policy, until it is interrupted.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::Client;
use super::{SNAPSHOT, print};
use crate::calendar;
use crate::table::Table;

/// Shows the requests per second of each policy, once per second, until it is interrupted.
///
/// It asks for one snapshot after the other, and occupies none of the server's streams. With `--json` each snapshot is a line. An answer
/// that fails is reported, and the next one is asked for; after 30 failures in a row it exits with 2.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The seconds between two snapshots.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    every: u64,

    /// Stops after this number of snapshots.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl Watch {
    /// Returns whether the server has answered until the end.
    pub(super) fn run(&self, client: &Client, json: bool) -> anyhow::Result<bool> {
        let mut former = None;
        let (mut shown, mut failures) = (0, 0);
        loop {
            match client.get(SNAPSHOT) {
                Ok(Ok(snapshot)) => {
                    let text = if json { format!("{snapshot}\n") } else { rates(former.as_ref(), &snapshot) };
                    match print(&text) {
                        // The reader of a pipe has what it wants.
                        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(true),
                        result => result?,
                    }
                    former = Some(snapshot);
                    (shown, failures) = (shown + 1, 0);
                }
                Ok(Err(refusal)) => {
                    eprintln!("portcullis: {refusal}");
                    return Ok(false);
                }
                Err(error) if former.is_some() && failures < MAX_FAILURES => {
                    eprintln!("portcullis: {error:#}");
                    failures += 1;
                }
                Err(error) => return Err(error),
            }
            if self.count.is_some_and(|count| shown >= count) {
                return Ok(true);
            }
            thread::sleep(Duration::from_secs(self.every));
        }
    }
}

/// What has happened per second since the former snapshot. The first has no rates, only totals.
fn rates(former: Option<&Value>, snapshot: &Value) -> String {
    let millis = |snapshot: &Value| snapshot["time"].as_u64().unwrap_or(0);
    let elapsed = former.map_or(0, |former| millis(snapshot).saturating_sub(millis(former)));
    let unit = if elapsed > 0 { "/s" } else { "" };
    let mut text = calendar::text(millis(snapshot) / 1_000);
    for (name, label) in [("in_flight", "in flight"), ("waiting", "waiting")] {
        if let Some(number) = snapshot[name].as_u64() {
            let _ = write!(text, ", {number} {label}");
        }
    }
    if snapshot["store"]["healthy"] == false {
        text.push_str(", the store does not answer");
    }
    text.push('\n');
    let head = ["admitted", "rejected", "would reject"].map(|name| format!("{name}{unit}"));
    let mut table = Table::new(&["policy", "mode", &head[0], &head[1], &head[2]]);
    for policy in snapshot["policies"].as_array().into_iter().flatten() {
        let before = former.and_then(|former| {
            former["policies"].as_array()?.iter().find(|one| one["name"] == policy["name"])
        });
        let rate = |name: &str| {
            let (now, then) = (count(policy, name), before.map_or(0, |before| count(before, name)));
            // A server that was restarted counts from zero.
            let since = now.checked_sub(then).unwrap_or(now);
            per_second(if elapsed > 0 { since } else { now }, elapsed)
        };
        let text = |name: &str| policy[name].as_str().unwrap_or("-").to_owned();
        table.row([text("name"), text("mode"), rate("admitted"), rate("rejected"), rate("would_reject")]);
    }
    table.write(&mut text);
    text.push('\n');
    text
}

fn count(policy: &Value, name: &str) -> u64 {
    policy[name].as_u64().unwrap_or(0)
}

/// A rate with one digit after the point, or the number itself if no time has passed.
fn per_second(number: u64, millis: u64) -> String {
    if millis == 0 {
        return number.to_string();
    }
    let tenths = u128::from(number) * 10_000 / u128::from(millis);
    format!("{}.{}", tenths / 10, tenths % 10)
}

const MAX_FAILURES: u32 = 30;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(time: u64, admitted: u64) -> Value {
        json!({ "time": time, "in_flight": 3, "store": { "healthy": admitted != 7 },
            "policies": [{ "name": "search", "mode": "enforce", "admitted": admitted, "rejected": 1, "would_reject": 0 }] })
    }

    #[test]
    fn the_first_snapshot_has_totals_and_the_next_ones_rates() {
        let (first, second) = (snapshot(1_700_000_000_000, 5), snapshot(1_700_000_002_000, 8));
        assert_eq!(
            rates(None, &first),
            "2023-11-14T22:13:20Z, 3 in flight\npolicy     mode  admitted  rejected  would reject\nsearch  enforce         5         1             0\n\n"
        );
        let text = rates(Some(&first), &second);
        assert!(text.contains("admitted/s") && text.contains("enforce         1.5         0.0"), "{text}");
    }

    #[test]
    fn a_server_that_was_restarted_counts_from_zero() {
        let text = rates(Some(&snapshot(1_000, 90)), &snapshot(2_000, 7));
        assert!(text.contains("7.0") && text.contains("the store does not answer"), "{text}");
        assert!(rates(Some(&snapshot(1_000, 90)), &json!(null)).starts_with("1970-01-01T00:00:00Z\n"));
    }
}
