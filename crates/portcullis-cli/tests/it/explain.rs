//! `portcullis explain` as a process.

use serde_json::{Value, json};

use crate::rules::{Folder, portcullis};

const LIMITS: &str = r#"
[policy.search]
strategy = "token_bucket"
quota = "10/s burst 20"
key = [{ header = "x-api-key" }, "client_ip"]
match = { path = "/search", methods = ["GET"] }

[policy.address]
strategy = "fixed_window"
quota = "50/min"
mode = "shadow"
key = "client_ip"

[policy.admin]
strategy = "gcra"
quota = "1/s"
key = "client_ip"
match = { hosts = ["admin.example.com"] }
"#;

fn explain(folder: &Folder, arguments: &[&str]) -> (i32, String, String) {
    let file = folder.write("limits.toml", LIMITS);
    portcullis(&[&["explain", &file][..], arguments].concat())
}

#[test]
fn text_says_which_rules_match_and_why() {
    let folder = Folder::new("explain");
    let (code, out, error) = explain(&folder, &["--request", "GET /search", "-H", "x-api-key: k"]);
    assert!(code == 0 && error.contains("nothing verifies the key"), "{error}");
    let expected = "\
search: matches
  token_bucket, quota 10/s burst 20
  charged to header x-api-key, else client_ip
  mode enforce
  if the store fails: local, whole limit
address: matches
  fixed_window, quota 50/min
  charged to client_ip
  mode shadow
  if the store fails: local, whole limit
admin: does not match hosts = [\"admin.example.com\"]
client_ip = 192.0.2.1, the peer
the first such request gets 200
  19 of 20 left under search
  x-ratelimit-limit: 20
  x-ratelimit-remaining: 19
  x-ratelimit-reset: 1
";
    assert_eq!(out, expected);
}

#[test]
fn json_has_the_first_condition_that_fails() {
    let folder = Folder::new("explain-json");
    let (code, out, _) = explain(&folder, &["--request", "POST /search", "--json"]);
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    let search = json!({
        "rule": "search",
        "matches": false,
        "does_not_match": "methods = [\"GET\"]",
        "strategy": "token_bucket, quota 10/s burst 20",
        "key": "header x-api-key, else client_ip",
        "mode": "enforce",
        "exempted_by": null,
        "tier": null,
        "options": [],
        "if_store_fails": "local, whole limit",
    });
    assert_eq!(explained["rules"][0], search);
    assert_eq!(explained["rules"][1]["matches"], true);
    assert_eq!(explained["response"]["status"], 200);

    let (_, out, _) = explain(&folder, &["--request", "GET /search", "--json"]);
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(explained["response"]["left"], "19 of 20 left under search");
    assert_eq!(explained["response"]["headers"]["x-ratelimit-limit"], "20");
}

#[test]
fn hosts_and_spellings_count_as_in_the_layer() {
    let folder = Folder::new("explain-hosts");
    for (request, matching) in [
        ("GET https://admin.example.com/", vec!["address", "admin"]),
        ("GET https://example.com/%73earch/", vec!["search", "address"]),
        ("GET /searching", vec!["address"]),
    ] {
        let (_, out, _) = explain(&folder, &["--request", request, "--json"]);
        let explained: Value = serde_json::from_str(&out).unwrap();
        let rules = explained["rules"].as_array().unwrap().iter();
        let names: Vec<_> = rules.filter(|rule| rule["matches"] == true).map(|rule| &rule["rule"]).collect();
        assert_eq!(names, matching, "{request}");
    }
}

#[test]
fn a_request_that_no_rule_matches_is_not_limited() {
    let folder = Folder::new("explain-none");
    let file = folder.write(
        "one.toml",
        "[policy.a]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'peer'\nmatch = { path = '/a' }\n",
    );
    let (code, out, _) = portcullis(&["explain", &file, "--request", "GET /b"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "a: does not match path = \"/a\"\nno rule matches: the request is not limited\n")
    );
}

#[test]
fn a_missing_key_is_shown_as_the_response_to_it() {
    let folder = Folder::new("explain-missing");
    let text = "[policy.a]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'bearer'\n[policy.b]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'peer'\n";
    let file = folder.write("bearer.toml", text);
    let (code, out, _) = portcullis(&["explain", &file, "--request", "GET /b"]);
    assert!(code == 0 && out.contains("the first such request gets 401"), "{out}");
}

const LOG_INS: &str = r#"
[policy.log_ins]
strategy = "fixed_window"
quota = "5/h"
key = "client_ip"
match = { path = "/login" }
charge_when = { status = [401] }
lock_out = { after = 10, within = "10m", block_for = "1h" }
on_store_failure = "closed"
hide = true

[policy.pages]
strategy = "fixed_window"
quota = "100/h"
key = "client_ip"
cost = { path = { "/login" = 5 } }
tiers = { pro = "1000/h" }
"#;

#[test]
fn each_option_of_a_rule_is_explained() {
    let folder = Folder::new("explain-options");
    let file = folder.write("limits.toml", LOG_INS);
    let (code, out, error) = portcullis(&["explain", &file, "--request", "POST /login"]);
    assert_eq!(code, 0, "{error}");
    let expected = "\
log_ins: matches
  fixed_window, quota 5/h
  charged to client_ip
  mode enforce
  charges responses of { status = [401] }
  locks out for 3600s after 10 rejections within 600s
  not in headers
  if the store fails: closed
pages: matches
  fixed_window, quota 100/h
  charged to client_ip
  mode enforce
  costs { path = { \"/login\" = 5 } }
  quotas of callers { pro = \"1000/h\" }
  callers have from 100/h to 1000/h
  if the store fails: local, whole limit
";
    assert!(out.starts_with(expected), "{out}");
}

#[test]
fn exemptions_tiers_and_clients_are_explained() {
    let folder = Folder::new("explain-exempt");
    let text = r#"
        [layer]
        except = [{ path = "/ready" }, { path = "/health" }]
        deny = [{ network = "198.51.100.66" }]
        only = [{ prefix = "/" }]

        [client_ip]
        header = "x-forwarded-for"
        trusted_proxies = ["192.0.2.0/24"]

        [policy.address]
        strategy = "gcra"
        quota = "10/s burst 20"
        key = "client_ip"
        except = [{ network = "203.0.113.0/24" }]
        tier = { header = "x-plan" }
        tiers = { pro = "20/s burst 40", free = "1/s burst 2" }
        mode = "shadow 10%"
    "#;
    let file = folder.write("limits.toml", text);
    let explained = |path: &str, headers: &[&str]| {
        let request = format!("GET {path}");
        let headers = headers.iter().flat_map(|header| ["-H", header]);
        let arguments: Vec<_> =
            ["explain", &file, "--request", &request].into_iter().chain(headers).collect();
        let (code, out, error) = portcullis(&arguments);
        assert!(code == 0 && !error.contains("note"), "{error}");
        out
    };
    for (path, headers, expected) in [
        (
            "/health",
            &[][..],
            &["exempt by layer.except[1]\n", "none, because there is no x-plan: the quota of the policy"][..],
        ),
        (
            "/a",
            &["x-forwarded-for: 203.0.113.7"],
            &["exempt by policy.address.except[0]\n", "client_ip = 203.0.113.7, from x-forwarded-for\n"],
        ),
        (
            "/a",
            &["x-plan: gold"],
            &[
                "tier: gold, which is not in `tiers`: the quota of the policy\n",
                "client_ip = 192.0.2.1, the peer\n",
            ],
        ),
        ("/a", &["x-plan: pro"], &["tier: pro\n", "in shadow for 10 % of the keys, off for the others\n"]),
        (
            "/a",
            &["x-plan: pro", "x-plan: free"],
            &["tier: the smallest of pro, free, because x-plan is there more than once\n"],
        ),
        (
            "/a",
            &["x-forwarded-for: unknown"],
            &["no client_ip: ", "gets 400\n", "\n  element 1 of x-forwarded-for"],
        ),
        ("/a", &["x-forwarded-for: 198.51.100.66"], &["denied by layer.deny[0]\n", "gets 403\n"]),
        (
            "/a",
            &["x-forwarded-for: 2001:db8:0:1:2::3"],
            &["2001:db8:0:1:2::3, from x-forwarded-for, charged by 2001:db8:0:1::/64\n"],
        ),
    ] {
        let out = explained(path, headers);
        for expected in expected {
            assert!(out.contains(expected), "{headers:?} {expected}: {out}");
        }
        assert_eq!(
            out.matches("exempt").count(),
            expected.iter().filter(|line| line.starts_with("exempt")).count(),
            "{out}"
        );
    }
    let (_, out, _) = portcullis(&[
        "explain",
        &file,
        "--request",
        "GET /a",
        "--peer",
        "203.0.113.9",
        "-H",
        "x-forwarded-for: 1.2.3.4",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["rules"][0]["exempted_by"], "policy.address.except[0]");
    assert_eq!(
        json["client_ip"],
        "203.0.113.9, the peer, which is no trusted proxy, so that x-forwarded-for is ignored"
    );
}

#[test]
fn figures_are_those_of_the_response_to_a_client() {
    let folder = Folder::new("explain-outcome");
    let file = folder.write("limits.toml", &LOG_INS.replace("hide = true", ""));
    for (status, left) in [("200", 5), ("401", 4)] {
        let (_, out, _) = portcullis(&["explain", &file, "--request", "POST /login", "--status", status]);
        let expected = [
            format!("the first such request gets {status}\n  {left} of 5 left under log_ins\n"),
            format!("x-ratelimit-remaining: {left}\n"),
        ];
        assert!(expected.iter().all(|line| out.contains(line)), "{out}");
    }
}

#[test]
fn what_cannot_be_explained_is_an_error() {
    let folder = Folder::new("explain-errors");
    let (code, out, _) =
        portcullis(&["explain", &folder.write("bad.toml", "[polices]"), "--request", "GET /"]);
    assert!(code == 1 && out.contains("did you mean `policy`?"), "{out}");
    let envoy = folder.write("envoy.yaml", "domain: shop\n");
    let (code, out, _) = portcullis(&["explain", &envoy, "--request", "GET /"]);
    assert!(code == 1 && out.contains("these are descriptors of Envoy's rate limit service"), "{out}");
    for request in ["/search", "GET search", "G@T /"] {
        assert_eq!(explain(&folder, &["--request", request]).0, 2, "{request}");
    }
    assert_eq!(explain(&folder, &[]).0, 2);
}
