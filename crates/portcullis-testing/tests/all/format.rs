//! Malformed scenarios and their error messages.

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
fn assert_contains(error: &str, what: &[&str]) {
    for what in what {
        assert!(error.contains(what), "{error:?} does not contain {what:?}");
    }
}

#[test]
fn errors_name_the_file_the_case_and_the_position() {
    let place = "some/file.toml:7:3: case \"a case\": step 2: ";
    assert_contains(&wrong_step("at = \"0s\""), &[place, "a check needs `allow`"]);
    assert_contains(&error("[[case]]\nname = \"x\"\nsteps = [}"), &["some/file.toml:3:10: case \"x\": "]);
    assert_contains(&error(""), &["some/file.toml:1:1: there is no [[case]]"]);
    assert_contains(&error("[[cases]]"), &["unknown field `cases`"]);
    let second = format!("{}{}", case(GCRA, ""), case("", "").replace("a case", "another"));
    assert_contains(
        &error(&second),
        &["some/file.toml:9:1: case \"another\": ", "either `policy` or `policies`"],
    );
    let same = format!("{}{}", case(GCRA, ""), case(GCRA, ""));
    assert_contains(&error(&same), &["another case has this name"]);
    let error = Scenario::read("no/such/file.toml").unwrap_err();
    assert!(
        matches!(error, ScenarioError::Unreadable { .. }) && error.to_string().contains("no/such/file.toml")
    );
}

#[test]
fn unknown_fields_are_errors() {
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, remaning = 1"),
        &["unknown field `remaning`", ":7:"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"1s\", anchor = \"epoch\" }"),
        &["anchor"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"fixed_window\", limit = 1, period = \"1s\", burst = 2 }"),
        &["burst"],
    );
    assert_contains(
        &wrong_policy(&format!("{GCRA}\nstarts = \"2026-01-01T00:00:00Z\"")),
        &["unknown field `starts`"],
    );
}

#[test]
fn errors_in_a_strategy_have_the_position_of_their_field() {
    let strategy = |fields: &str| wrong_policy(&format!("policy = {{ strategy = \"gcra\", {fields} }}"));
    assert_contains(&strategy("limits = 1"), &["some/file.toml:4:31: ", "unknown field `limits`"]);
    assert_contains(&strategy("limit = -1"), &["some/file.toml:4:39: ", "`limit`, a whole number"]);
    assert_contains(&strategy("period = \"soon\""), &["some/file.toml:4:40: ", "\"soon\""]);
    assert_contains(&strategy("quota = \"many\""), &["some/file.toml:4:39: ", "\"many\""]);
    assert_contains(
        &strategy("quota = \"1/s\", period = \"1s\""),
        &["some/file.toml:4:", "`quota = \"1/s\"` and `period` are both given"],
    );
}

#[test]
fn unknown_strategies_and_operations_list_the_known_ones() {
    let error = wrong_policy("policy = { strategy = \"leaky_can\", limit = 1, period = \"1s\" }");
    assert_contains(
        &error,
        &["some/file.toml:4:", "`leaky_can`", "`gcra`", "`fixed_window`", "`sliding_log`"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", op = \"undo\", step = 1"),
        &["`undo`", "`refund`", "`set_quota`"],
    );
}

#[test]
fn invalid_quotas_are_explained() {
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 0, period = \"1s\", burst = 2 }"),
        &["zero units", "burst of 2"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"0s\" }"),
        &["period is zero"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"1s\", burst = 0 }"),
        &["burst of zero"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"100years\" }"),
        &["2^51"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1, period = \"1500ns\" }"),
        &["whole number of microseconds"],
    );
    assert_contains(
        &wrong_policy("policy = { strategy = \"gcra\", limit = 1000000000000000, period = \"1s\" }"),
        &["1000000000000000", "maximum of 999999999999999"],
    );
    let anchor = "policy = { strategy = \"fixed_window\", limit = 1, period = \"1s\", anchor = \"monday\" }";
    assert_contains(&wrong_policy(anchor), &["monday", "first_request"]);
    assert_contains(&wrong_policy(&format!("{GCRA}\npolicies = {{}}")), &["either `policy` or `policies`"]);
    assert_contains(&wrong_policy("policies = {}"), &["1 to 16 policies"]);
    let windows = "policies = { a = { strategy = \"sliding_window\", limit = 1, period = \"1s\", slots = 1000 }, \
                   b = { strategy = \"sliding_window\", limit = 1, period = \"1s\", slots = 25 } }";
    assert_contains(&wrong_policy(windows), &["1025 slots of work", "policy a has 1000, policy b has 25"]);
    assert_contains(
        &wrong_policy("policies = { \"\" = { strategy = \"gcra\", limit = 1, period = \"1s\" } }"),
        &["name of a policy is empty"],
    );
    assert_contains(&wrong_policy(&format!("{GCRA}\nstart = \"2300-01-01T00:00:00Z\"")), &["2255"]);
    assert_contains(
        &wrong_policy(&format!("{GCRA}\nstart = \"1969-12-31T00:00:00Z\"")),
        &["1969-12-31T00:00:00Z", "instant"],
    );
    assert_contains(&wrong_policy(&format!("{GCRA}\nstart = \"yesterday\"")), &["yesterday", "instant"]);
}

#[test]
fn invalid_parameters_are_explained() {
    let strategy = |text: &str| wrong_policy(&format!("policy = {{ strategy = {text}, period = \"1s\" }}"));
    assert_contains(
        &strategy("\"token_bucket\", limit = 1, refill = \"hourly\""),
        &["`hourly`", "`greedy`", "`interval`"],
    );
    assert_contains(
        &strategy("\"token_bucket\", limit = 1, slots = 2"),
        &["unknown field `slots`", "`refill`"],
    );
    assert_contains(&strategy("\"token_bucket\", limit = 1, burst = 0"), &["burst of zero"]);
    let burst = strategy("\"token_bucket\", limit = 1, burst = 1000000000000000");
    assert_contains(&burst, &["1000000000000000", "maximum of 999999999999999"]);
    assert_contains(
        &strategy("\"sliding_window\", limit = 4294967296"),
        &["4294967296", "bound of 4294967295"],
    );
    assert_contains(&strategy("\"leaky_bucket\", limit = 1, burst = 0"), &["burst of zero"]);
    assert_contains(
        &strategy("\"leaky_bucket\", limit = 1, refill = \"greedy\""),
        &["unknown field `refill`"],
    );
    assert_contains(&strategy("\"gcra\", limit = 1, wait = \"2h\""), &["`wait`", "longer than one hour"]);
    assert_contains(&strategy("\"fixed_window\", limit = 1, wait = \"2s\""), &["`wait`", "reserves nothing"]);
    assert_contains(&strategy("\"sliding_window\", limit = 1, slots = 0"), &["1 to 1000"]);
    assert_contains(
        &strategy("\"sliding_window\", limit = 1, slots = 7"),
        &["period of 1s cannot have 7 slots", "whole number"],
    );
    assert_contains(&strategy("\"sliding_window\", limit = 1, slots = 1001"), &["1001", "1 to 1000"]);
    assert_contains(
        &strategy("\"sliding_window\", limit = 1, burst = 2"),
        &["unknown field `burst`", "`slots`"],
    );
    assert_contains(
        &strategy("\"sliding_log\", limit = 100001"),
        &["100001", "bound of 100000", "sliding window"],
    );
    assert_contains(&strategy("\"sliding_log\", limit = 1, anchor = \"epoch\""), &["unknown field `anchor`"]);
    assert_contains(&strategy("\"sliding_log\""), &["missing field `limit`"]);
}

#[test]
fn invalid_steps_are_explained() {
    assert_contains(&wrong_step("allow = true"), &["a step needs `at`"]);
    assert_contains(&wrong_step("at = \"soon\", allow = true"), &["soon", "duration"]);
    assert_contains(&wrong_step("at = \"-1s\", allow = true"), &["-1s", "duration"]);
    assert_contains(&wrong_step("at = \"1500ns\", allow = true"), &["microseconds"]);
    assert_contains(&wrong_step("at = \"300years\", allow = true"), &["2255"]);
    assert_contains(&wrong_step("at = \"0s\", allow = true, cost = -1"), &["cost"]);
    assert_contains(&wrong_step("at = \"0s\", allow = true, cost = 1.5"), &["cost"]);
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, retry_after = \"1s\""),
        &["`retry_after` does not belong to an allowed check"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, step = 1"),
        &["`step` does not belong to a check"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, uncharged = 1"),
        &["`uncharged` does not belong to a check"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, policy = \"policy\""),
        &["`policy` does not belong to a check"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, decided_by = \"other\""),
        &["no policy \"other\""],
    );
    assert_contains(
        &wrong_step("at = \"0s\", allow = true, cost = { policy = 1, other = 2 }"),
        &["no policy \"other\""],
    );
    assert_contains(&wrong_step("at = \"0s\", allow = true, cost = {}"), &["policy \"policy\" is missing"]);
    assert_contains(&wrong_step("at = \"0s\", op = \"refund\""), &["`step` must name"]);
    assert_contains(&wrong_step("at = \"0s\", op = \"refund\", step = 0"), &["numbered from 1"]);
    assert_contains(&wrong_step("at = \"0s\", op = \"refund\", step = 2"), &["not before this one"]);
    assert_contains(
        &wrong_step("at = \"0s\", op = \"refund\", step = 1, key = \"a\""),
        &["`key` does not belong"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", op = \"refund\", step = 1, allow = true"),
        &["`allow` does not belong to a refund"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", op = \"refund\", step = 1, cost = 1"),
        &["`cost` does not belong to a refund"],
    );
    assert_contains(&wrong_step("at = \"0s\", op = \"settle\", step = 1"), &["needs `cost`"]);
    assert_contains(
        &wrong_step("at = \"0s\", op = \"reset\", to = { strategy = \"gcra\", limit = 1, period = \"1s\" }"),
        &["`to` does not belong to a reset"],
    );
    assert_contains(&wrong_step("at = \"0s\", op = \"set_quota\""), &["needs `to`"]);
    let twice =
        "at = \"0s\", op = \"refund\", step = 1 },\n { at = \"0s\", op = \"settle\", step = 1, cost = 0";
    assert_contains(
        &wrong_step(twice),
        &["step 3: step 1 is not a charge, or is already refunded or settled"],
    );
    let second = "at = \"0s\", allow = true, key = \"b\" },\n { at = \"0s\", op = \"refund\", step = [1, 2]";
    assert_contains(&wrong_step(second), &["step 3: step 2 charged another key"]);
    let again = "at = \"0s\", op = \"refund\", step = [1, 1]";
    assert_contains(
        &wrong_step(again),
        &["step 2: step 1 is not a charge, or is already refunded or settled"],
    );
    let nothing_left =
        "at = \"0s\", op = \"settle\", step = 1, cost = 0 },\n { at = \"0s\", op = \"refund\", step = 2";
    assert_contains(&wrong_step(nothing_left), &["step 3: step 2 is not a charge"]);
    assert_contains(&wrong_step("at = \"0s\", op = \"refund\", step = []"), &["`step` must name"]);
    assert_contains(
        &wrong_step("at = \"0s\", op = \"refund\", step = \"1\""),
        &["number of a step, or a list"],
    );
    assert_contains(
        &wrong_step("at = \"0s\", op = \"settle\", step = 1, cost = 1, if_newest = true"),
        &["`if_newest` does not belong to a settlement"],
    );
    let denied = "at = \"0s\", allow = false },\n { at = \"0s\", op = \"refund\", step = 2";
    assert_contains(&wrong_step(denied), &["step 3: step 2 is not a charge"]);
}

#[tokio::test]
async fn the_start_is_a_multiple_of_the_longest_period() {
    let policies = "policies = { a = { strategy = \"gcra\", limit = 1, period = \"7s\" }, b = { strategy = \"fixed_window\", limit = 1, period = \"30days\" } }";
    // The start is the beginning of a window of 30 days. 2026-01-01 is on the 25th day of that window.
    let text = case(policies, "{ at = \"0s\", allow = true, decided_by = \"b\", reset_after = \"30days\" }");
    let scenario = Scenario::parse("x", &text).unwrap();
    let report = run(scenario.cases(), &mut Pure::new()).await;
    assert!(report.is_success(), "{report}");
}

#[tokio::test]
async fn a_quota_as_text_replaces_limit_and_period() {
    let text = case(
        "policy = { strategy = \"fixed_window\", quota = \"1/30d\" }",
        "{ at = \"0s\", allow = true, limit = 1, reset_after = \"30days\" }",
    );
    let scenario = Scenario::parse("x", &text).unwrap();
    let report = run(scenario.cases(), &mut Pure::new()).await;
    assert!(report.is_success(), "{report}");
}

#[tokio::test]
async fn runs_use_separate_keys() {
    let text = case(GCRA, "{ at = \"0s\", allow = true }");
    let scenario = Scenario::parse("x", &text).unwrap();
    let mut pure = Pure::new();
    for _ in 0..3 {
        let report = run(scenario.cases(), &mut pure).await;
        assert!(report.is_success(), "{report}");
    }
}

#[tokio::test]
async fn a_failure_names_its_place_and_both_values() {
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
async fn uncharged_units_of_several_policies_add_up() {
    let policies = r#"
policies = { a = { strategy = "gcra", limit = 1, period = "1s" }, b = { strategy = "fixed_window", limit = 1, period = "1s" } }"#;
    let steps = r#"  { at = "0s", allow = true },
  { at = "0s", op = "settle", step = 1, cost = 4000000000, uncharged = 7999999996 },"#;
    let scenario = Scenario::parse("debts.toml", &case(policies, steps)).unwrap();
    let report = run(scenario.cases(), &mut Pure::new()).await;
    assert!(report.is_success(), "{report}");
}
