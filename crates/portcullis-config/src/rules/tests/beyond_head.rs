//! The fields of rules that need more than the head of a request.

use super::*;

fn fields(more: &str) -> Vec<&'static str> {
    let text = format!("[policy.p]\nstrategy = \"gcra\"\nquota = \"5/s\"\n{more}\n");
    let rules = Rules::load(&loader(&text).extension::<u8>("account", |id, key| key.part("id", &[*id])));
    let rules = rules.unwrap_or_else(|findings| panic!("{findings}"));
    rules.iter().flat_map(Rule::fields_beyond_head).collect()
}

#[test]
fn rules_by_the_head_of_a_request_have_none() {
    for more in [
        "key = \"client_ip\"\nwait = \"1s\"\ncost = { header = \"x-cost\", max = 5 }",
        "key = \"client_ip\"\ntiers = { pro = \"9/s\" }\ntier = { header = \"x-plan\" }",
        "key = [{ query = \"user\" }, \"client_ip\"]\nlock_out = { after = 5 }",
        "key = \"grpc_method\"\ndebt = 5\nwarn_at = 0.8",
    ] {
        assert_eq!(fields(more), [""; 0], "{more}");
    }
}

#[test]
fn each_field_that_needs_more_is_named() {
    let by_address = "key = \"client_ip\"\n";
    for (more, expected) in [
        (by_address.to_owned() + "charge_when = { status = 401 }\nlook_first = true", "charge_when"),
        (by_address.to_owned() + "reserve = \"used\"\ncost = 2", "reserve"),
        (by_address.to_owned() + "refund_unanswered = true", "refund_unanswered"),
        (by_address.to_owned() + "in_flight = { limit = 2 }", "in_flight"),
        (by_address.to_owned() + "tiers = { pro = \"9/s\" }", "tiers"),
        ("key = \"route\"".to_owned(), "key"),
        ("key = { extension = \"account\" }".to_owned(), "key"),
        ("key = [{ all = [{ extension = \"account\" }, \"method\"] }, \"client_ip\"]".to_owned(), "key"),
    ] {
        assert_eq!(fields(&more), [expected], "{more}");
    }
    let alone = rules("[policy.p]\nstrategy = \"in_flight\"\nlimit = 2\nkey = \"client_ip\"\n");
    assert_eq!(alone.get("p").map(Rule::fields_beyond_head), Some(vec!["strategy"]));
}
