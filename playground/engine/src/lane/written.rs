//! The result of a lane as text.

use portcullis_core::Quota;
use portcullis_memory::MemoryStore;

use super::{Lane, Row, Verdict};
use crate::figures::Figures;
use crate::json::Json;

pub(super) fn write(lane: &Lane<'_>, json: &mut Json) {
    let figures = Figures::of(lane);
    json.object(|json| {
        json.member("name", &lane.settings.name);
        json.member("note", &lane.settings.note);
        json.key("counts");
        json.object(|json| {
            let names = ["requests", "admitted", "waited", "degraded", "limited", "store_failed", "shed"];
            for (name, count) in names.into_iter().zip(figures.counts) {
                json.number(name, count);
            }
        });
        json.list("wait", figures.wait.into_iter(), Json::value);
        json.list("latency", figures.latency.into_iter(), Json::value);
        json.key("wrong");
        match figures.wrong {
            Some(wrong) => json.numbers(wrong.map(number)),
            None => json.null(),
        }
        json.list("limits", lane.settings.limits.iter().zip(&figures.limits), |json, (settings, figures)| {
            json.object(|json| {
                let strategy = settings.policy.strategy();
                json.member("name", settings.policy.name().as_str());
                json.member("strategy", strategy.tag());
                json.number("limit", figures.limit);
                json.number("units", strategy.quota().map_or(figures.limit, Quota::limit));
                json.number("period", figures.period);
                json.number("most", figures.most);
                json.key("bound");
                optional(json, figures.bound);
            });
        });
        json.list("memory", memory(lane).into_iter(), |json, [keys, bytes]| {
            json.array(|json| {
                json.value(keys);
                json.value(bytes);
            });
        });
        json.list("rows", lane.rows.iter(), |json, row| json.numbers(numbers(row)));
        lane.samples.write(json);
    });
}

/// The numbers of a row, in the order of the page of the crate.
fn numbers(row: &Row) -> [i64; 16] {
    let verdict = match row.verdict {
        Verdict::Pass => 0,
        Verdict::Wait => 1,
        Verdict::Limited => 2,
        Verdict::StoreFailed => 3,
        Verdict::Shed => 4,
    };
    let flags = i64::from(row.is_degraded) | i64::from(row.is_leased) << 1;
    let optional = |value: Option<u64>| value.map_or(-1, number);
    [
        number(row.request.at),
        number(row.request.client as u64),
        i64::from(row.request.member),
        number(row.request.cost),
        verdict,
        number(row.wait),
        number(row.limit),
        number(row.remaining),
        number(row.reset),
        optional(row.retry),
        row.policy.map_or(-1, |policy| number(policy as u64)),
        number(row.instance as u64),
        flags,
        i64::from(row.request.attempt),
        optional(row.end),
        optional(row.request.uses),
    ]
}

/// For each limit, the keys that are in memory at the end, and their bytes.
fn memory(lane: &Lane<'_>) -> Vec<[u64; 2]> {
    let own = lane.instances.iter().filter_map(|instance| instance.own_states());
    let stats: Vec<_> = own.chain([&*lane.redis]).flat_map(MemoryStore::policy_stats).collect();
    let of = |limit: &crate::scene::LimitSettings| {
        let same = stats.iter().filter(|stats| stats.policy == *limit.policy.name());
        same.fold([0, 0], |[keys, bytes], stats| [keys + stats.entries as u64, bytes + stats.bytes as u64])
    };
    lane.settings.limits.iter().map(of).collect()
}

fn optional(json: &mut Json, value: Option<u64>) {
    match value {
        Some(value) => json.value(value),
        None => json.null(),
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
