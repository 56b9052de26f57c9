//! Scenarios with overrides on the algorithm alone, and their form.

use portcullis_testing::{Pure, Scenario, run};

#[tokio::test]
async fn the_algorithm_passes_the_corpus_of_overrides() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/overrides/grants_and_blocks.toml");
    let corpus = Scenario::read(file).unwrap();
    let report = run(corpus.cases(), &mut Pure::new()).await;
    assert!(report.is_success() && report.skipped().is_empty(), "{report}");
    assert_eq!(report.passed(), corpus.cases().len());
}

fn error(step: &str) -> String {
    let policy = "policy = { strategy = \"fixed_window\", limit = 1, period = \"1min\" }";
    let text = format!("[[case]]\nname = \"a\"\n{policy}\nsteps = [{{ at = \"0s\", {step} }}]");
    Scenario::parse("bad.toml", &text).unwrap_err().to_string()
}

#[test]
fn steps_without_their_fields_are_errors() {
    for (step, why) in [
        ("op = \"grant\", quota = \"5/min\"", "a grant has `quota` and `for`"),
        ("op = \"grant\", quota = \"5/h\", for = \"1s\"", "its period must be 60s"),
        ("op = \"grant\", quota = \"5/min\", for = \"0s\"", "at least 1 us"),
        ("op = \"block\"", "a block needs `for`"),
        ("op = \"unblock\", for = \"1s\", count = 2", "`count` does not belong"),
        (
            "op = \"denials\", lock_out = { after = 1, within = \"1s\", block = \"1s\" }",
            "denials need `count`",
        ),
        ("op = \"denials\", count = 1", "denials need `lock_out`"),
        (
            "op = \"denials\", count = 1, lock_out = { after = 0, within = \"1s\", block = \"1s\" }",
            "0 denials",
        ),
        ("allow = true, for = \"1s\"", "`for` does not belong to a check"),
        ("op = \"block\", for = \"1s\", retry_after = \"1s\"", "`retry_after` does not belong"),
    ] {
        let error = error(step);
        assert!(error.contains(why), "{step}: {error}");
    }
}

#[tokio::test]
async fn a_system_without_overrides_skips_such_cases() {
    let text = r#"
        [[case]]
        name = "blocked"
        policy = { strategy = "fixed_window", limit = 1, period = "1min" }
        steps = [{ at = "0s", op = "block", for = "1s", blocked = true }]
        "#;
    let scenario = Scenario::parse("skipped.toml", text).unwrap();
    let report = run(scenario.cases(), &mut portcullis_testing::oracle::Reference::new([])).await;
    assert_eq!((report.skipped().len(), report.passed()), (1, 0));
    let wrong = text.replace("blocked = true", "blocked = false");
    let report = run(Scenario::parse("wrong.toml", &wrong).unwrap().cases(), &mut Pure::new()).await;
    assert_eq!(report.failures()[0].field, "blocked");
}
