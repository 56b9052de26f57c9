//! Names that only a program has, read without it.

use portcullis_tower::RateLimitHeaders;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;
use crate::Severity;

/// A policy of one request.
fn policy(more: &str) -> String {
    format!("[policy.p]\nstrategy = \"fixed_window\"\nquota = \"1/h\"\n{more}")
}

fn accepted(text: &str) -> Rules {
    Rules::load(&loader(text).accept_unknown_names()).unwrap_or_else(|findings| panic!("{findings}"))
}

/// How many of three requests pass.
async fn passing(rules: &Rules) -> usize {
    let (registry, _) = registry();
    let all = (0..rules.iter().len()).collect();
    let layer = rules.layer(&registry, &all).unwrap().unwrap().headers(RateLimitHeaders::NONE);
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    let mut passed = 0;
    for _ in 0..3 {
        let peer = std::net::SocketAddr::from(([192, 0, 2, 1], 1));
        let request = Request::builder().extension(peer).body(String::new()).unwrap();
        passed += usize::from(service.clone().oneshot(request).await.unwrap().status() == 200);
    }
    passed
}

#[tokio::test]
async fn a_rule_whose_key_only_a_program_has_limits_nothing() {
    for key in [
        "{ extension = \"a\" }",
        "{ lookup = \"a\" }",
        "[{ extension = \"a\" }, \"client_ip\"]",
        "{ all = [\"client_ip\", { extension = \"a\" }] }",
    ] {
        let rules = accepted(&policy(&format!("key = {key}")));
        let notes = rules.warnings().to_string();
        assert!(notes.contains(" \"a\": without it, the rule limits nothing"), "{notes}");
        assert!(rules.warnings().iter().any(|one| one.severity == Severity::Note));
        assert_eq!(passing(&rules).await, 3, "{key}");
    }
}

#[tokio::test]
async fn a_cost_that_only_a_program_has_is_1() {
    let rules = accepted(&policy("key = \"client_ip\"\ncost = { function = \"length\" }"));
    assert_eq!(
        rules.warnings().to_string(),
        "limits.toml:5:21: note: policy.p.cost.function: only the program has cost \"length\": without it, each request costs 1 \
         (help: the program registers it: Loader::cost(\"length\", ..))"
    );
    assert!(!rules.warnings().has_warnings());
    assert_eq!(passing(&rules).await, 1);
}

#[tokio::test]
async fn a_charge_that_only_a_program_has_charges_nothing() {
    let rules = accepted(&policy("key = \"client_ip\"\ncharge_when = { function = \"failures\" }"));
    assert_eq!(
        rules.warnings().to_string(),
        "limits.toml:5:28: note: policy.p.charge_when.function: only the program has charge \"failures\": without it, it charges no \
         response (help: the program registers it: Loader::charge_when(\"failures\", ..))"
    );
    assert_eq!(passing(&rules).await, 3);
}

#[tokio::test]
async fn a_rejection_that_only_a_program_has_is_the_usual_one() {
    let field = "reject_with = { function = \"page\" }";
    for text in [
        policy(&format!("key = \"client_ip\"\n{field}")),
        format!("[layer]\n{field}\n{}", policy("key = \"client_ip\"")),
    ] {
        let rules = accepted(&text);
        let notes = rules.warnings().to_string();
        assert!(
            notes.ends_with(
                ".reject_with.function: only the program has rejection \"page\": without it, rejected requests have the usual \
                 response (help: the program registers it: Loader::rejection(\"page\", ..))"
            ),
            "{notes}"
        );
        assert!(!rules.warnings().has_warnings());
        assert_eq!(passing(&rules).await, 1);
    }
}

#[tokio::test]
async fn a_matcher_that_only_a_program_has_matches_nothing() {
    for (list, expected) in [("except", 1), ("deny", 1), ("only", 3)] {
        // The request is one of those that the rest of the table names.
        for table in ["{ function = \"staff\" }", "{ function = \"staff\", prefix = \"/\" }"] {
            let text = format!("[layer]\n{list} = {table}\n{}", policy("key = \"client_ip\""));
            let rules = accepted(&text);
            let notes = rules.warnings().to_string();
            assert!(
                notes.contains(&format!(
                    "note: layer.{list}.function: only the program has matcher \"staff\": without it, the table matches no request"
                )),
                "{notes}"
            );
            assert_eq!(passing(&rules).await, expected, "{text}");
        }
    }
    let rules = accepted(&policy("key = \"client_ip\"\nexcept = { function = \"staff\" }"));
    assert_eq!(passing(&rules).await, 1);
}

#[test]
fn an_error_has_the_names_that_are_registered() {
    let error = |loader: Loader| Rules::load(&loader).unwrap_err().to_string();
    let text = policy("key = \"client_ip\"\nreject_with = { function = \"page\" }");
    let bare = || loader(&text);
    let response = |_: &portcullis_tower::Rejection<'_>| http::Response::new("".into());
    assert_eq!(
        error(bare()),
        "limits.toml:5:28: error: policy.p.reject_with.function: no rejection \"page\" is registered (help: register it in the \
         program: Loader::rejection(\"page\", ..))"
    );
    let found = error(bare().rejection("problem", response).rejection("html", response));
    assert!(
        found.ends_with(
            "(help: the program has registered \"html\", \"problem\": use one of them, or register it in the program: \
             Loader::rejection(\"page\", ..))"
        ),
        "{found}"
    );
    let found = error(bare().rejection("pages", response));
    assert!(found.contains("(help: did you mean \"pages\"? Or register it in the program: "), "{found}");
    // Each kind has its own names.
    let found = error(bare().matcher("page", |_: &Parts| true));
    assert!(found.contains("(help: register it in the program: Loader::rejection"), "{found}");
}

#[test]
fn tables_of_functions_name_one() {
    for table in ["{}", "{ functoin = \"page\" }", "{ function = 5 }", "\"page\""] {
        let found = errors(&policy(&format!("key = \"client_ip\"\nreject_with = {table}")));
        assert!(found.contains("error: policy.p.reject_with"), "{found}");
    }
    let found = errors(&policy("key = \"client_ip\"\nexcept = { function = \"staff\" }"));
    assert!(found.contains("error: policy.p.except.function: no matcher \"staff\" is registered"), "{found}");
}

#[test]
fn names_are_errors_where_the_program_is() {
    let found = errors(&policy("key = { lookup = \"a\" }"));
    assert!(found.contains("error: policy.p.key.lookup: no lookup \"a\" is registered"), "{found}");
}
