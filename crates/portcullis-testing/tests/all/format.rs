//! Scenarios that are malformed, each with what its author is told.

use portcullis_testing::{Pure, Scenario, ScenarioError, run};

fn case(policy: &str, steps: &str) -> String {
    format!("# A comment.\n[[case]]\nname = \"a case\"\n{policy}\nsteps = [\n{steps}\n]\n")
}

const GCRA: &str = "policy = { strategy = \"gcra\", limit = 1, period = \"1s\" }";

fn error(text: &str) -> String {
    Scenario::parse("some/file.toml", text).unwrap_err().to_string()
}

fn wrong_policy(policy: &str) -> String {
    error(&case(policy, ""))
}

fn wrong_step(step: &str) -> String {
    error(&case(GCRA, &format!("  {{ at = \"0s\", allow = true }},\n  {{ {step} }},")))
}

#[track_caller]
fn says(error: &str, what: &[&str]) {
    for what in what {
        assert!(error.contains(what), "{error:?} does not say {what:?}");
    }
}

#[test]
fn the_file_the_case_and_the_place_are_named() {
    let place = "some/file.toml:7:3: case \"a case\": step 2: ";
    says(&wrong_step("at = \"0s\""), &[place, "a check needs `allow`"]);
    says(&error("[[case]]\nname = \"x\"\nsteps = [}"), &["some/file.toml:3:10: case \"x\": "]);
    says(&error(""), &["some/file.toml:1:1: there is no [[case]]"]);
    says(&error("[[cases]]"), &["unknown field `cases`"]);
    let second = format!("{}{}", case(GCRA, ""), case("", "").replace("a case", "another"));
    says(&error(&second), &["some/file.toml:9:1: case \"another\": ", "either `policy` or `policies`"]);
    let same = format!("{}{}", case(GCRA, ""), case(GCRA, ""));
    says(&error(&same), &["there is another case of this name"]);
    let error = Scenario::read("no/such/file.toml").unwrap_err();
    assert!(
        matches!(error, ScenarioError::Unreadable { .. }) && error.to_string().contains("no/such/file.toml")
    );
}

#[test]
fn unknown_fields_are_errors() {
    says(&wrong_step("at = \"0s\", allow = true, remaning = 1"), &["unknown field `remaning`", ":7:"]);
    says(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"1s\", anchor = \"epoch\" }"),
        &["anchor"],
    );
    says(
        &wrong_policy("policy = { strategy = \"fixed_window\", limit = 1, period = \"1s\", burst = 2 }"),
        &["burst"],
    );
    says(&wrong_policy(&format!("{GCRA}\nstarts = \"2026-01-01T00:00:00Z\"")), &["unknown field `starts`"]);
}

#[test]
fn a_strategy_that_is_not_known_lists_those_that_are() {
    let error = wrong_policy("policy = { strategy = \"leaky_can\", limit = 1, period = \"1s\" }");
    says(&error, &["some/file.toml:4:", "`leaky_can`", "`gcra`", "`fixed_window`", "`sliding_log`"]);
    says(&wrong_step("at = \"0s\", op = \"undo\", step = 1"), &["`undo`", "`refund`", "`set_quota`"]);
}

#[test]
fn a_quota_that_cannot_be_says_why() {
    says(&wrong_policy("policy = { strategy = \"gcra\", limit = 0, period = \"1s\" }"), &["zero units"]);
    says(&wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"0s\" }"), &["period of zero"]);
    says(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"1s\", burst = 0 }"),
        &["burst of zero"],
    );
    says(&wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"100years\" }"), &["2^51"]);
    says(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"1500ns\" }"),
        &["whole number of microseconds"],
    );
    says(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 4294967296, period = \"1s\" }"),
        &["4294967296", "u32"],
    );
    let anchor = "policy = { strategy = \"fixed_window\", limit = 1, period = \"1s\", anchor = \"monday\" }";
    says(&wrong_policy(anchor), &["monday", "first_request"]);
    says(&wrong_policy(&format!("{GCRA}\npolicies = {{}}")), &["either `policy` or `policies`"]);
    says(&wrong_policy("policies = {}"), &["1 to 16 policies"]);
    let windows = "policies = { a = { strategy = \"sliding_window\", limit = 1, period = \"1s\", slots = 1000 }, \
                   b = { strategy = \"sliding_window\", limit = 1, period = \"1s\", slots = 25 } }";
    says(&wrong_policy(windows), &["1025 slots of work", "policy a has 1000, policy b has 25"]);
    says(
        &wrong_policy("policies = { \"\" = { strategy = \"gcra\", limit = 1, period = \"1s\" } }"),
        &["name of a policy is empty"],
    );
    says(&wrong_policy(&format!("{GCRA}\nstart = \"2300-01-01T00:00:00Z\"")), &["2255"]);
    says(
        &wrong_policy(&format!("{GCRA}\nstart = \"1969-12-31T00:00:00Z\"")),
        &["1969-12-31T00:00:00Z", "instant"],
    );
    says(&wrong_policy(&format!("{GCRA}\nstart = \"yesterday\"")), &["yesterday", "instant"]);
}

#[test]
fn a_parameter_that_cannot_be_says_why() {
    let strategy = |text: &str| wrong_policy(&format!("policy = {{ strategy = {text}, period = \"1s\" }}"));
    says(
        &strategy("\"token_bucket\", limit = 1, refill = \"hourly\""),
        &["`hourly`", "`greedy`", "`interval`"],
    );
    says(&strategy("\"token_bucket\", limit = 1, slots = 2"), &["unknown field `slots`", "`refill`"]);
    says(&strategy("\"token_bucket\", limit = 1, burst = 0"), &["burst of zero"]);
    says(&strategy("\"token_bucket\", limit = 4294967291, burst = 4294967295"), &["exact range"]);
    says(&strategy("\"leaky_bucket\", limit = 1, burst = 0"), &["burst of zero"]);
    says(&strategy("\"leaky_bucket\", limit = 1, refill = \"greedy\""), &["unknown field `refill`"]);
    says(&strategy("\"sliding_window\", limit = 1, slots = 0"), &["1 to 1000"]);
    says(
        &strategy("\"sliding_window\", limit = 1, slots = 7"),
        &["period of 1s has no 7 slots", "whole number"],
    );
    says(&strategy("\"sliding_window\", limit = 1, slots = 1001"), &["1001", "1 to 1000"]);
    says(&strategy("\"sliding_window\", limit = 1, burst = 2"), &["unknown field `burst`", "`slots`"]);
    says(&strategy("\"sliding_log\", limit = 100001"), &["100001", "bound of 100000", "sliding window"]);
    says(&strategy("\"sliding_log\", limit = 1, anchor = \"epoch\""), &["unknown field `anchor`"]);
    says(&strategy("\"sliding_log\""), &["missing field `limit`"]);
}

#[test]
fn a_step_that_makes_no_sense_says_why() {
    says(&wrong_step("allow = true"), &["a step needs `at`"]);
    says(&wrong_step("at = \"soon\", allow = true"), &["soon", "duration"]);
    says(&wrong_step("at = \"-1s\", allow = true"), &["-1s", "duration"]);
    says(&wrong_step("at = \"1500ns\", allow = true"), &["microseconds"]);
    says(&wrong_step("at = \"300years\", allow = true"), &["2255"]);
    says(&wrong_step("at = \"0s\", allow = true, cost = -1"), &["cost"]);
    says(&wrong_step("at = \"0s\", allow = true, cost = 4294967296"), &["cost"]);
    says(
        &wrong_step("at = \"0s\", allow = true, retry_after = \"1s\""),
        &["`retry_after` does not belong to an allowed check"],
    );
    says(&wrong_step("at = \"0s\", allow = true, step = 1"), &["`step` does not belong to a check"]);
    says(
        &wrong_step("at = \"0s\", allow = true, uncharged = 1"),
        &["`uncharged` does not belong to a check"],
    );
    says(
        &wrong_step("at = \"0s\", allow = true, policy = \"policy\""),
        &["`policy` does not belong to a check"],
    );
    says(&wrong_step("at = \"0s\", allow = true, decided_by = \"other\""), &["no policy \"other\""]);
    says(
        &wrong_step("at = \"0s\", allow = true, cost = { policy = 1, other = 2 }"),
        &["no policy \"other\""],
    );
    says(&wrong_step("at = \"0s\", allow = true, cost = {}"), &["policy \"policy\" is missing"]);
    says(&wrong_step("at = \"0s\", op = \"refund\""), &["`step` must say"]);
    says(&wrong_step("at = \"0s\", op = \"refund\", step = 0"), &["numbered from 1"]);
    says(&wrong_step("at = \"0s\", op = \"refund\", step = 2"), &["not before this one"]);
    says(&wrong_step("at = \"0s\", op = \"refund\", step = 1, key = \"a\""), &["`key` does not belong"]);
    says(
        &wrong_step("at = \"0s\", op = \"refund\", step = 1, allow = true"),
        &["`allow` does not belong to a refund"],
    );
    says(
        &wrong_step("at = \"0s\", op = \"refund\", step = 1, cost = 1"),
        &["`cost` does not belong to a refund"],
    );
    says(&wrong_step("at = \"0s\", op = \"settle\", step = 1"), &["needs `cost`"]);
    says(
        &wrong_step("at = \"0s\", op = \"reset\", to = { strategy = \"gcra\", limit = 1, period = \"1s\" }"),
        &["`to` does not belong to a reset"],
    );
    says(&wrong_step("at = \"0s\", op = \"set_quota\""), &["needs `to`"]);
    let twice =
        "at = \"0s\", op = \"refund\", step = 1 },\n { at = \"0s\", op = \"settle\", step = 1, cost = 0";
    says(&wrong_step(twice), &["step 3: step 1 is no charge, or is refunded or settled already"]);
    let second = "at = \"0s\", allow = true, key = \"b\" },\n { at = \"0s\", op = \"refund\", step = [1, 2]";
    says(&wrong_step(second), &["step 3: step 2 is a charge of another key"]);
    let again = "at = \"0s\", op = \"refund\", step = [1, 1]";
    says(&wrong_step(again), &["step 2: step 1 is no charge, or is refunded or settled already"]);
    let of_nothing =
        "at = \"0s\", op = \"settle\", step = 1, cost = 0 },\n { at = \"0s\", op = \"refund\", step = 2";
    says(&wrong_step(of_nothing), &["step 3: step 2 is no charge"]);
    says(&wrong_step("at = \"0s\", op = \"refund\", step = []"), &["`step` must say"]);
    says(&wrong_step("at = \"0s\", op = \"refund\", step = \"1\""), &["number of a step, or a list"]);
    says(
        &wrong_step("at = \"0s\", op = \"settle\", step = 1, cost = 1, if_newest = true"),
        &["`if_newest` does not belong to a settlement"],
    );
    let denied = "at = \"0s\", allow = false },\n { at = \"0s\", op = \"refund\", step = 2";
    says(&wrong_step(denied), &["step 3: step 2 is no charge"]);
}

#[tokio::test]
async fn the_start_is_a_multiple_of_the_longest_period() {
    let policies = "policies = { a = { strategy = \"gcra\", limit = 1, period = \"7s\" }, b = { strategy = \"fixed_window\", limit = 1, period = \"30days\" } }";
    // A window of 30 days that has just begun: 2026-01-01 is in its 25th day.
    let text = case(policies, "{ at = \"0s\", allow = true, decided_by = \"b\", reset_after = \"30days\" }");
    let scenario = Scenario::parse("x", &text).unwrap();
    let report = run(scenario.cases(), &mut Pure::new()).await;
    assert!(report.is_success(), "{report}");
}

#[tokio::test]
async fn runs_do_not_meet() {
    let text = case(GCRA, "{ at = \"0s\", allow = true }");
    let scenario = Scenario::parse("x", &text).unwrap();
    let mut pure = Pure::new();
    for _ in 0..3 {
        let report = run(scenario.cases(), &mut pure).await;
        assert!(report.is_success(), "{report}");
    }
}

#[tokio::test]
async fn a_failure_reads_well() {
    let steps = "{ at = \"0s\", allow = true },\n{ at = \"250ms\", allow = false, retry_after = \"1s\" },";
    let scenario = Scenario::parse("dir/x.toml", &case(GCRA, steps)).unwrap();
    let report = run(scenario.cases(), &mut Pure::new()).await;
    assert_eq!(
        report.to_string(),
        "dir/x.toml:7: case \"a case\", step 2\n  field:    retry_after\n  expected: 1s\n  got:      750ms\n\n\
         0 passed, 1 failed"
    );
}

#[tokio::test]
async fn what_several_debts_leave_out_is_compared_however_much_it_is() {
    let policies = r#"
policies = { a = { strategy = "gcra", limit = 1, period = "1s" }, b = { strategy = "fixed_window", limit = 1, period = "1s" } }"#;
    let steps = r#"  { at = "0s", allow = true },
  { at = "0s", op = "settle", step = 1, cost = 4000000000, uncharged = 4294967295 },"#;
    let scenario = Scenario::parse("debts.toml", &case(policies, steps)).unwrap();
    let report = run(scenario.cases(), &mut Pure::new()).await;
    assert!(report.is_success(), "{report}");
}
