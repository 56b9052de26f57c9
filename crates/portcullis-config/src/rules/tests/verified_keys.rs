//! Which policies by address are beside a key that nothing verifies.

use super::errors::{assert_errors, assert_warns};

#[test]
fn address_policy_of_same_responses_counts() {
    let file = |charge: &str, address: &str, key: &str| {
        let policy = |name: &str, key: &str, fields: &str| {
            format!("[policy.{name}]\nstrategy = \"gcra\"\nquota = \"5/min\"\nkey = {key}\n{fields}\n")
        };
        let login = "match = { path = \"/login\", methods = [\"POST\"] }";
        let email = policy("login-email", key, &format!("{login}\n{charge}"));
        policy("login-address", "\"client_ip\"", &format!("{login}\n{address}")) + &email
    };
    let (query, both) = ("{ query = \"email\" }", "{ all = [\"client_ip\", { query = \"email\" }] }");
    let refused = "charge_when = { status = 401 }";
    for (charge, address) in [
        (refused, refused),
        (refused, ""),
        (refused, "charge_when = { status = [403, \"4xx\"] }"),
        ("charge_when = { status = [401, \"5xx\"] }", "charge_when = { status = [\"5xx\", 401, 403] }"),
        ("charge_when = { grpc_status = 16 }", "charge_when = { grpc_status = [7, 16], status = 401 }"),
    ] {
        for key in [query, both, "{ header = \"x-api-key\" }"] {
            assert_warns(&file(charge, address, key), "policy.login-email.key: nothing verifies");
        }
    }
    for (charge, address, why) in [
        ("", refused, "policy login-address does not count, because its `charge_when` leaves out responses"),
        ("charge_when = { status = \"4xx\" }", refused, "its `charge_when` leaves out"),
        ("charge_when = { status = 401, grpc_status = 16 }", refused, "its `charge_when` leaves out"),
        (refused, "mode = \"shadow\"", "login-address does not count, because it is not enforced"),
    ] {
        assert_errors(&file(charge, address, query), why);
    }
    let elsewhere = file(refused, refused, query).replacen("/login", "/elsewhere", 1);
    assert_errors(
        &elsewhere,
        "login-address does not count, because its `match` leaves out requests of this one",
    );
}
