//! Each event is logged at the level and as often as `docs/reference/events.md` states, and no other event is logged.
//!
//! With `UPDATE_REFERENCE` in the environment the test writes the page instead of comparing it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use portcullis_core::overrides::{Block, LockOut, Override};
use portcullis_core::{Decision, Policy, PolicyName, Quota, StoreError, StoreErrorKind, Timestamp};

use portcullis_engine::{Class, Event, EventKind, EventLog, QuotaRefusal, Reason, SettlementLoss, UsageLoss};

use crate::{KeyError, OnMissing, Registry};

/// What the events are about.
struct Subjects {
    policy: PolicyName,
    decision: Decision,
    store_error: StoreError,
    key_error: KeyError,
    refusal: QuotaRefusal,
    block: Block,
}

impl Subjects {
    fn new() -> Self {
        let policy = Policy::gcra("all", Quota::per_second(1));
        let lock_out = LockOut::after(1).within(Duration::from_secs(60)).block_for(Duration::from_secs(60));
        let mut record = Override::NONE;
        Self {
            policy: policy.name().clone(),
            decision: Decision::degraded(&policy, Timestamp::EPOCH),
            store_error: StoreError::new(StoreErrorKind::Unavailable, "no connection"),
            key_error: KeyError::server("no address"),
            refusal: QuotaRefusal::NotLookedUp,
            block: record.record_denials(Timestamp::EPOCH, 1, &lock_out).unwrap(),
        }
    }

    /// Each kind, as the first column of the table names it. One that is logged in some cases is here for each of them.
    fn kinds(&self) -> Vec<(&'static str, EventKind<'_>)> {
        let Self { policy, decision, store_error, key_error, refusal, block } = self;
        let (decisions, quota, cause) =
            (std::slice::from_ref(decision), Quota::per_second(1), SettlementLoss::Refused);
        let shed = |is_shadow| EventKind::Shed { class: Class::Default, limit: 10, in_flight: 10, is_shadow };
        vec![
            ("`Misconfigured`", EventKind::Misconfigured { error: key_error }),
            ("`OutcomePanicked`", EventKind::OutcomePanicked { policy }),
            ("`RulesRejected`", EventKind::RulesRejected { generation: 1, findings: "none" }),
            (
                "`StoreFailed`, the first of an outage of the store",
                EventKind::StoreFailed { error: store_error, is_new: true },
            ),
            ("`OpenForExpired`", EventKind::OpenForExpired { policy }),
            ("`StoreOverloaded`", EventKind::StoreOverloaded { error: store_error }),
            ("`TooManyWaiting`", EventKind::TooManyWaiting),
            ("`NotReady`", EventKind::NotReady),
            ("`Shed`", shed(false)),
            ("`TooManyUnsettled`", EventKind::TooManyUnsettled { policy }),
            ("`LookupFailed`", EventKind::LookupFailed { policy, error: key_error }),
            ("`QuotaLookupFailed`", EventKind::QuotaLookupFailed { policy, error: key_error }),
            ("`QuotaRefused`", EventKind::QuotaRefused { policy, quota, error: refusal }),
            ("`IdentityMissing`", EventKind::IdentityMissing { policy, on_missing: OnMissing::Reject }),
            ("`IdentityMalformed`", EventKind::IdentityMalformed { policy, error: key_error }),
            ("`ShadowUnidentified`", EventKind::ShadowUnidentified { policy, error: key_error }),
            ("`LockedOut`", EventKind::LockedOut { policy, block: *block }),
            ("`RefundDropped`", EventKind::RefundDropped),
            ("`ChargeDropped`", EventKind::ChargeDropped),
            ("`DebtExceeded`", EventKind::DebtExceeded { policy, uncharged: 1 }),
            ("`SettlementLost`", EventKind::SettlementLost { policy, reserved: 2, used: 1, cause }),
            ("`UsageLost`", EventKind::UsageLost { policy, cause: UsageLoss::Missing }),
            ("`PermitLapsed`", EventKind::PermitLapsed { policy }),
            ("`UpgradeReleased`", EventKind::UpgradeReleased { policy }),
            ("`ChargedTwice`", EventKind::ChargedTwice { policy }),
            (
                "`OutgoingClosed`",
                EventKind::OutgoingClosed { policy, length: Duration::from_secs(60), is_capped: true },
            ),
            ("`OutgoingHintIgnored`", EventKind::OutgoingHintIgnored { policy, header: "retry-after" }),
            ("`OutgoingNotShared`", EventKind::OutgoingNotShared { policy }),
            ("`StoreRecovered`", EventKind::StoreRecovered),
            ("`RulesReloaded`", EventKind::RulesReloaded { generation: 1 }),
            (
                "`Rejected` with `Reason::Denied`",
                EventKind::Rejected { reason: Reason::Denied, decisions: &[] },
            ),
            ("`SoftLimitReached`", EventKind::SoftLimitReached { decision }),
            ("`Shed` in shadow mode", shed(true)),
            ("`ShadowWouldReject`", EventKind::ShadowWouldReject { decision }),
            ("`Rejected`", EventKind::Rejected { reason: Reason::Limited, decisions }),
            ("`Admitted`", EventKind::Admitted { decisions }),
            ("`ChargedMore`", EventKind::ChargedMore { decisions, units: 1 }),
            ("`ChargeDenied`", EventKind::ChargeDenied { decisions, units: 1 }),
            ("", EventKind::Exempt { policy }),
            ("", EventKind::Skipped),
            ("", EventKind::Preflight { is_counted: true }),
            ("", EventKind::Waited { policy, waited: Duration::from_secs(1) }),
            ("", EventKind::Charged { decision, units: 1 }),
            ("", EventKind::Refunded { decision, units: 1 }),
            ("", EventKind::PermitAcquired { decision }),
            ("", EventKind::PermitReleased { decision }),
        ]
    }
}

/// What is logged within an hour of an event that happens 200 times at its beginning, and again after 59 s, 60 s and an hour, with the
/// lines between them, and what is left in the end. Each level has its number of lines and the first of them.
async fn log_of(kind: EventKind<'_>, captured: &Captured) -> Vec<(&'static str, [usize; 5], String)> {
    let (registry, log) = (Registry::off(), EventLog::default());
    let mut counts = Vec::new();
    if let EventKind::StoreRecovered = kind {
        let error = StoreError::new(StoreErrorKind::Unavailable, "no connection");
        let failed = EventKind::StoreFailed { error: &error, is_new: true };
        registry.engine().emit(&log, &Event::new(&[], failed));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    captured.take();
    for (seconds, times) in [(0, 200), (59, 1), (1, 1), (3_540, 1)] {
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
        for _ in 0..times {
            match kind {
                // No layer emits these.
                EventKind::RulesReloaded { generation } => {
                    registry.rules_reloaded(generation, Path::new("limits.toml"));
                }
                EventKind::RulesRejected { generation, findings } => {
                    registry.rules_rejected(generation, findings);
                }
                kind => registry.engine().emit(&log, &Event::new(&[], kind)),
            }
        }
        counts.push(captured.take());
    }
    let _ = registry.drain(Duration::from_secs(1)).await;
    counts.push(captured.take());
    let of_level = |level: &'static str| {
        let lines = |index: usize| counts[index].lines().filter(|line| line.trim_start().starts_with(level));
        let first = (0..counts.len()).find_map(|index| lines(index).next()).unwrap_or_default();
        (level, [0, 1, 2, 3, 4].map(|index| lines(index).count()), first.to_owned())
    };
    for line in counts.iter().flat_map(|lines| lines.lines()) {
        let needs_code = ["ERROR", "WARN"].iter().any(|level| line.trim_start().starts_with(level));
        assert_eq!(line.contains(" code=PC"), needs_code, "{line}");
    }
    let levels = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].map(of_level);
    levels.into_iter().filter(|(_, counts, _)| *counts != [0; 5]).collect()
}

/// The text of a line of the log, without its level and its fields.
fn text_of(line: &str) -> String {
    let is_field = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name).unwrap_or_default();
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    };
    let text =
        line.split_whitespace().skip(1).take_while(|word| !is_field(word)).collect::<Vec<_>>().join(" ");
    text.trim_end_matches("; counted since the last such line").to_owned()
}

/// A link to what the code of a line means and what to do.
fn code_of(line: &str) -> String {
    let code = line.split_once(" code=").and_then(|(_, rest)| rest.split_whitespace().next());
    code.map_or_else(String::new, |code| format!("[{code}](codes.md#{})", code.to_lowercase()))
}

fn how_often(counts: [usize; 5]) -> &'static str {
    match counts {
        [200, 1, 1, 1, 0] => "each",
        // The others when the minute is over.
        [100, 0, 2, 1, 0] => "each, at most 100 a minute",
        // The last but one as well.
        [1, 0, 1, 2, 0] => "once a minute",
        [1, 0, 0, 1, 1] => "once an hour",
        [1, 0, 0, 0, 0] => "once an outage",
        _ => "in no way that an operator expects",
    }
}

#[tokio::test(start_paused = true)]
async fn reference_page_has_all_events() {
    let (captured, _guard) = Captured::start();
    let subjects = Subjects::new();
    let mut rows = String::new();
    for (label, kind) in subjects.kinds() {
        let logged = log_of(kind, &captured).await;
        assert_eq!(logged.is_empty(), label.is_empty(), "{kind:?}: {logged:?}");
        for (level, counts, line) in logged {
            let (often, code, text) = (how_often(counts), code_of(&line), text_of(&line));
            writeln!(rows, "| {label} | {level} | {often} | {code} | `{text}` |").unwrap();
        }
    }
    let page = PAGE.replace("ROWS\n", &rows).replace("KINDS\n", &kinds_of_source());
    portcullis_pages::compare("events.md", &page);
}

/// A section for each kind, from its documentation.
fn kinds_of_source() -> String {
    let (mut sections, mut about, mut fields, mut field) =
        (String::new(), Vec::new(), String::new(), Vec::new());
    let (_, source) = KIND_SOURCE.split_once("pub enum EventKind<'a> {\n").unwrap();
    for line in source.lines().take_while(|line| *line != "}") {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim_start();
        match (depth, line.strip_prefix("/// ")) {
            (4, Some(text)) => about.push(text),
            (8, Some(text)) => field.push(text),
            (8, None) => {
                let name = line.split(':').next().unwrap();
                writeln!(fields, "- `{name}`: {}", plain(&std::mem::take(&mut field).join(" "))).unwrap();
            }
            (4, None) if line.starts_with('}') => {
                writeln!(sections, "\n{}", std::mem::take(&mut fields).trim_end()).unwrap();
            }
            (4, None) => {
                let name = line.trim_end_matches([' ', '{', ',']);
                let about = plain(&std::mem::take(&mut about).join(" "));
                writeln!(sections, "\n### `{name}`\n\n{about}").unwrap();
            }
            _ => {}
        }
    }
    sections
}

/// A text of the documentation without its links, which are paths of Rust.
fn plain(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let open = plain.rfind('[').unwrap();
        plain.remove(open);
        plain += part.split_once(')').unwrap().1;
    }
    plain
}

#[test]
fn page_was_made_from_all_kinds() {
    let (_, kinds) = KIND_SOURCE.split_once("pub enum EventKind").unwrap();
    let variants = kinds.lines().filter_map(|line| line.strip_prefix("    "));
    let variants: BTreeSet<_> = variants
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|line| line.trim_end_matches([' ', '{', ',']).to_owned())
        .collect();
    let subjects = Subjects::new();
    let debug = |(_, kind): &(_, EventKind<'_>)| format!("{kind:?}");
    let name = |debug: String| debug.split(' ').next().unwrap_or_default().to_owned();
    assert_eq!(subjects.kinds().iter().map(debug).map(name).collect::<BTreeSet<_>>(), variants);
}

const KIND_SOURCE: &str = include_str!("../../../portcullis-engine/src/event/kind.rs");

const PAGE: &str = "\
# Events

<!-- generated by: UPDATE_REFERENCE=1 cargo test -p portcullis-tower --lib reference_page -->

Look up here when each event is emitted, which fields it has, and what the log says about it.
[Observe decisions](../how-to/service/observers.md) shows an observer.

An observer is called in the task of the request, so it must not wait. It gets every event, except those that are emitted only if it asks for
them. Each request through a layer ends with `Admitted` or `Rejected`, unless its client disconnects before, or the inner service fails before
it is called. Each check of a handler and each message of a stream ends so too. No event and no line of the log has an identity. An observer
whose `wants_fingerprints` is `true` gets fingerprints of keys.

## Lines of the log

Events that are not in the table have no line. *each* means a line for each event. Of the others the first event is logged at once. After it there is at most one
line in the stated time for each layer, with the number of events since the last line: `counted since the last such line`. `Limiter::drain`
writes what is left when the process ends.

The levels: ERROR is a mistake in the program or its rules. An operator should look into a WARN. INFO is a change, or a limit that works as
configured. DEBUG has single rejections: 100 a minute and layer, then one line with the number of the others. TRACE has single decisions,
without a bound.

The code leads to what the line means and what to do.

The target of the lines is `portcullis_engine::event::log`, except for those about rules.

| event | level | lines | code | text |
|---|---|---|---|---|
ROWS

## Kinds

The kinds are the variants of [`EventKind`](https://docs.rs/portcullis/latest/portcullis/event/enum.EventKind.html). `Limit` is a
[policy with a key](https://docs.rs/portcullis/latest/portcullis/struct.Limit.html), and `Charge` is
[what a handler gets](https://docs.rs/portcullis/latest/portcullis/struct.Charge.html).
KINDS
";

/// The log of this thread, with all levels.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        static GLOBAL_SUBSCRIBER: Once = Once::new();

        // Otherwise a line that another test logs first, without a subscriber, may be disabled for all threads.
        GLOBAL_SUBSCRIBER.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        let captured = Self::default();
        let writer = captured.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .finish();
        (captured, tracing::subscriber::set_default(subscriber))
    }

    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
