use portcullis_core::{Policy, Quota};
use portcullis_tower::{ClientIp, Header, Limit, OnMissing, PolicyExt as _, RateLimit, RateLimitLayer};

use super::*;

fn engine(limits: impl IntoIterator<Item = Limit>) -> Engine<RateLimit<Upstream>> {
    let layer = |registry: &Arc<Registry>| RateLimitLayer::try_new(Arc::clone(registry), limits);
    Engine::new(Options::default(), layer).unwrap()
}

fn line(micros: u64, peer: [u8; 4]) -> Line {
    let mut line = Line::default();
    line.micros = micros;
    line.peer = peer.into();
    line.set_method(b"GET");
    line.set_target(b"/");
    line
}

const ADA: [u8; 4] = [192, 0, 2, 1];
const BOB: [u8; 4] = [192, 0, 2, 2];
const SECOND: u64 = 1_000_000;

#[test]
fn rejections_are_counted_by_rule_caller_and_time() {
    let pages = Policy::fixed_window("pages", Quota::per_second(2));
    let daily = Policy::fixed_window("daily", Quota::per_day(5));
    let mut engine = engine([pages.by(ClientIp::peer()), daily.by(ClientIp::peer())]);
    for second in 10..13 {
        for _ in 0..3 {
            engine.handle(&line(second * SECOND, ADA));
        }
        engine.handle(&line(second * SECOND, BOB));
    }
    let counts = engine.finish();
    // Ada: two and two pass by the second, and of the third only one by the day.
    assert_eq!((counts.requests, counts.rejected, counts.waited), (12, 4, 0));
    let (pages, daily) = (counts.rule("pages").unwrap(), counts.rule("daily").unwrap());
    assert_eq!((pages.requests, pages.rejected), (12, 2));
    assert_eq!((daily.requests, daily.rejected), (12, 2));
    assert_eq!(counts.callers.top(9), [(0, "192.0.2.1", 2), (1, "192.0.2.1", 2)]);
    let rejected: Vec<_> = counts.series.buckets().iter().map(|one| (one.index, one.rejected)).collect();
    assert_eq!(rejected, [(10, 1), (11, 1), (12, 2)]);
    assert_eq!(counts.span, Some((10 * SECOND, 12 * SECOND)));
}

#[test]
fn shadow_policies_and_missing_identities_are_counted_apart() {
    let pages = Policy::fixed_window("pages", Quota::per_day(1));
    let keys = Policy::fixed_window("keys", Quota::per_day(1));
    let keys = keys.by(Header::named("x-api-key")).on_missing(OnMissing::Reject);
    let mut engine = engine([pages.by(ClientIp::peer()).shadow(), keys]);
    let mut with_key = line(SECOND, ADA);
    with_key.add_header(HeaderName::from_static("x-api-key"), b"k");
    assert_eq!(engine.handle(&with_key), Outcome::Admitted);
    assert_eq!(engine.handle(&with_key), Outcome::Rejected);
    assert_eq!(engine.rejected_by(), ["keys"]);
    assert_eq!(engine.handle(&line(SECOND, ADA)), Outcome::Rejected);
    assert_eq!(engine.rejected_by(), ["keys: no identity"]);
    let counts = engine.finish();
    assert_eq!((counts.requests, counts.rejected), (3, 2));
    assert_eq!(counts.rule("pages").map(|rule| rule.rejected), None.or(counts.rule("pages").map(|_| 0)));
}

#[test]
fn requests_that_wait_are_admitted_at_their_instants() {
    let exports = Policy::leaky_bucket("exports", Quota::per_second(1).burst(3));
    let mut engine = engine([exports.by(ClientIp::peer())]);
    let outcomes: Vec<_> = (0..4).map(|_| engine.handle(&line(10 * SECOND, ADA))).collect();
    assert_eq!(outcomes, [Outcome::Admitted, Outcome::Waits, Outcome::Waits, Outcome::Rejected]);
    // One has left the queue meanwhile.
    assert_eq!(engine.handle(&line(11 * SECOND, ADA)), Outcome::Waits);
    assert_eq!(engine.handle(&line(60 * SECOND, ADA)), Outcome::Admitted);
    let counts = engine.finish();
    assert_eq!((counts.requests, counts.rejected, counts.waited), (6, 1, 3));
    assert_eq!(counts.rule("exports").map(|rule| (rule.requests, rule.rejected)), Some((6, 1)));
}

#[test]
fn lines_that_are_no_request_do_not_reach_the_layers() {
    let pages = Policy::fixed_window("pages", Quota::per_day(9));
    let mut engine = engine([pages.by(ClientIp::peer())]);
    let mut bad = line(SECOND, ADA);
    bad.set_method(b"\\x16\\x03");
    assert_eq!(engine.handle(&bad), Outcome::Unusable);
    let mut bad = line(SECOND, ADA);
    bad.set_target(b"/a\x00");
    assert_eq!(engine.handle(&bad), Outcome::Unusable);
    let counts = engine.finish();
    assert_eq!((counts.requests, counts.unusable), (0, 2));
}

#[test]
fn an_earlier_instant_counts_as_that_before() {
    let pages = Policy::fixed_window("pages", Quota::per_second(1));
    let mut engine = engine([pages.by(ClientIp::peer())]);
    assert_eq!(engine.handle(&line(10 * SECOND, ADA)), Outcome::Admitted);
    assert_eq!(engine.handle(&line(9 * SECOND, ADA)), Outcome::Rejected);
    assert_eq!(engine.finish().span, Some((10 * SECOND, 10 * SECOND)));
}

#[test]
fn checks_beyond_the_bound_are_a_sample_of_keys() {
    let pages = Policy::fixed_window("pages", Quota::per_minute(1));
    let layer = |registry: &Arc<Registry>| {
        RateLimitLayer::try_new(Arc::clone(registry), [pages.by(ClientIp::peer())])
    };
    let mut engine = Engine::new(Options { kept_checks: 1_000, ..Options::default() }, layer).unwrap();
    for second in 0..4_u64 {
        for caller in 0..1_000_u16 {
            let [high, low] = caller.to_be_bytes();
            engine.handle(&line((60 + second) * SECOND, [10, 0, high, low]));
        }
    }
    let [suggestion] = &engine.suggestions(Target::Rejections(0.0))[..] else {
        panic!("one policy is one suggestion")
    };
    assert!(suggestion.requests <= 1_000 && suggestion.keys > 50 && suggestion.one_in >= 4, "{suggestion:?}");
    assert_eq!(suggestion.quota.as_deref(), Some("quota = \"4/min\""));
}

#[test]
fn unread_values_are_checked_like_others() {
    for byte in 0..=u8::MAX {
        assert_eq!(is_header_value(&[byte]), HeaderValue::from_bytes(&[byte]).is_ok(), "{byte}");
    }
}

#[test]
fn unread_header_makes_a_line_unusable() {
    let options = Options { unread: vec![http::header::USER_AGENT], ..Options::default() };
    let layer = |registry: &Arc<Registry>| {
        let pages = Policy::fixed_window("pages", Quota::per_day(1)).by(ClientIp::peer());
        RateLimitLayer::try_new(Arc::clone(registry), [pages])
    };
    let mut engine = Engine::new(options, layer).unwrap();
    let mut with_agent = |agent: &[u8]| {
        let mut line = line(SECOND, ADA);
        line.add_header(http::header::USER_AGENT, agent);
        engine.handle(&line)
    };
    assert_eq!(with_agent(b"a\x7f"), Outcome::Unusable);
    assert_eq!([with_agent(b"a"), with_agent(b"a")], [Outcome::Admitted, Outcome::Rejected]);
}
