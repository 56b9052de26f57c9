use std::sync::Arc;

use portcullis_core::{Policy, Quota};
use portcullis_tower::{ClientIp, PolicyExt as _, RateLimit, RateLimitLayer, Registry};

use super::*;
use crate::simulate::{Engine, Line, Options, Upstream};

const EVIL: &str = "<script>\u{1b}[31m\"=1";

/// Ten requests in ten seconds, of which five are rejected, by a caller that is no friend of pages and terminals.
fn simulated() -> (Counts, (Target, Vec<Suggestion>)) {
    let layer = |registry: &Arc<Registry>| {
        let pages = Policy::fixed_window("pages", Quota::per_minute(5));
        RateLimitLayer::try_new(Arc::clone(registry), [pages.by(ClientIp::peer())])
    };
    let mut engine: Engine<RateLimit<Upstream>> = Engine::new(Options::default(), layer).unwrap();
    for second in 0..10 {
        let mut line = Line::default();
        line.micros = 971_211_300_000_000 + second * 1_000_000;
        line.set_target(b"/");
        engine.handle(&line);
    }
    let mut counts = engine.finish();
    counts.callers = super::super::Callers::new(9);
    counts.callers.add(0, EVIL);
    let target = Target::Rejections(0.0);
    (counts, (target, engine.suggestions(target)))
}

#[test]
fn all_forms_state_the_same_figures() {
    let (counts, suggestions) = simulated();
    let report = Report { counts: &counts, suggestions: Some(&suggestions), top: 3 };
    let table = report.table();
    assert!(table.starts_with("10 requests, 5 rejected (50.00 %), at most 1 per second\n"), "{table}");
    assert!(table.contains("pages        10         5  50.00 %"), "{table}");
    assert!(table.contains("quota = \"10/min\""), "{table}");
    let csv = report.csv().unwrap();
    assert!(csv.contains("\nrule,pages,,,10,5,0,\n"), "{csv}");
    assert!(csv.contains("\ntime,,,2000-10-10T20:55:09Z,1,1,,\n"), "{csv}");
    let json = report.json();
    assert_eq!((&json["rules"][0]["rejected"], &json["callers"][0]["caller"]), (&5.into(), &EVIL.into()));
    assert_eq!(json["suggestions"][0]["suggestion"], "quota = \"10/min\"");
    let html = report.html("limits.toml").unwrap();
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(html.contains("<td>pages</td><td>10</td><td>5</td>"), "{html}");
}

#[test]
fn csv_has_no_formulas() {
    let (mut counts, _) = simulated();
    for formula in ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"] {
        counts.callers = super::super::Callers::new(9);
        counts.callers.add(0, formula);
        let report = Report { counts: &counts, suggestions: None, top: 3 };
        let csv = report.csv().unwrap();
        let mut cells = ::csv::Reader::from_reader(csv.as_bytes()).into_records().flatten();
        let caller = cells.find(|record| &record[0] == "caller").unwrap();
        assert_eq!(&caller[2], format!("'{formula}"), "{csv}");
    }
}

#[test]
fn what_a_log_contains_is_shown_as_text() {
    let (counts, _) = simulated();
    let report = Report { counts: &counts, suggestions: None, top: 3 };
    assert!(report.table().contains(r#"<script>\u{1b}[31m"=1"#));
    let html = report.html("<b>").unwrap();
    assert!(!html.contains("<script") && !html.contains('\u{1b}') && !html.contains("<b>"));
    assert!(html.contains("&lt;script&gt;\u{fffd}[31m&quot;=1"));
}

#[test]
fn suggestions_name_peaks_and_abusers() {
    let (mut counts, _) = simulated();
    counts.callers = super::super::Callers::new(9);
    let layer = |registry: &Arc<Registry>| {
        let pages = Policy::fixed_window("pages", Quota::per_minute(5));
        RateLimitLayer::try_new(Arc::clone(registry), [pages.by(ClientIp::peer())])
    };
    let mut engine: Engine<RateLimit<Upstream>> = Engine::new(Options::default(), layer).unwrap();
    for request in 0..90_u8 {
        let mut line = Line::default();
        line.micros = 971_211_300_000_000 + u64::from(request) * 1_000_000;
        // Every third request is of one caller.
        line.peer = [192, 0, 2, if request % 3 == 0 { 99 } else { request / 3 }].into();
        line.set_target(b"/");
        engine.handle(&line);
    }
    let target = Target::Callers(0.05);
    let suggestions = (target, engine.suggestions(target));
    let report = Report { counts: &counts, suggestions: Some(&suggestions), top: 3 };
    let (table, html) = (report.table(), report.html("limits.toml").unwrap());
    assert!(
        table.contains(
            "The smallest quotas that reject requests of at most 5 % of the callers, each policy alone\n"
        ),
        "{table}"
    );
    assert!(table.contains("quota = \"2/min\""), "{table}");
    assert!(table.contains("pages    1m    2    2   20   20\n"), "{table}");
    assert!(table.contains("192.0.2.99   pages        30    20        26\n"), "{table}");
    for cells in
        [["pages", "1m", "2", "2", "20", "20"].as_slice(), &["192.0.2.99", "pages", "30", "20", "26"]]
    {
        let row = format!("<td>{}</td>", cells.join("</td><td>"));
        assert!(html.contains(&row), "{html}");
    }
    let csv = report.csv().unwrap();
    assert!(csv.contains("\npeak max,pages,,,20,,,\nabuser,pages,192.0.2.99,,30,26,,\n"), "{csv}");
    let json = &report.json()["suggestions"][0];
    assert_eq!((&json["peaks"]["p95"], &json["abusers"][0]["caller"]), (&2.into(), &"192.0.2.99".into()));
    // One of a few callers is more than a small share of them.
    let target = Target::Callers(0.01);
    let suggestions = (target, engine.suggestions(target));
    let report = Report { counts: &counts, suggestions: Some(&suggestions), top: 3 };
    let note = "1 % of the 31 callers of pages is none, and the busiest one sets the quota: --target-callers 4% leaves it out";
    assert!(report.table().contains(note), "{}", report.table());
}
