//! Requests and files that are made to avoid limits, or to cost much.

use std::convert::Infallible;
use std::fmt::Write as _;

use http::header::HOST;
use http::{Request, Response, StatusCode};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{errors, parts, registry, rules};

const POLICY: &str = "[policy.p]\nstrategy = \"fixed_window\"\nquota = \"1/day\"\nkey = \"global\"\n";

/// The statuses of two requests, under a limit of one.
async fn twice(options: &str, method: &str) -> [StatusCode; 2] {
    let (registry, _clock) = registry();
    let rules = rules(&format!("[layer]\n{options}\n{POLICY}"));
    let request = || Request::builder().method(method).uri("/a").body(String::new()).unwrap();
    let (head, _) = request().into_parts();
    let layer = rules.layer(&registry, &rules.matching(&head)).unwrap().unwrap();
    let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(()))));
    [
        service.clone().oneshot(request()).await.unwrap().status(),
        service.oneshot(request()).await.unwrap().status(),
    ]
}

#[tokio::test]
async fn head_does_not_avoid_lists_that_name_get() {
    const DENIED: [StatusCode; 2] = [StatusCode::FORBIDDEN; 2];
    const LIMITED: [StatusCode; 2] = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS];
    const EXEMPT: [StatusCode; 2] = [StatusCode::OK; 2];
    for (options, method, expected) in [
        ("deny = [{ method = \"GET\" }]", "GET", DENIED),
        ("deny = [{ method = \"GET\" }]", "HEAD", DENIED),
        ("deny = [{ method = \"GET\", path = \"/b\" }]", "HEAD", LIMITED),
        ("deny = [{ method = \"GET\" }]", "POST", LIMITED),
        ("only = [{ method = \"GET\" }]", "HEAD", LIMITED),
        ("only = [{ method = \"GET\" }]", "POST", EXEMPT),
        ("except = [{ method = \"GET\" }]", "GET", EXEMPT),
        ("except = [{ method = \"GET\" }]", "HEAD", LIMITED),
        ("except = [{ method = \"HEAD\" }]", "HEAD", EXEMPT),
    ] {
        assert_eq!(twice(options, method).await, expected, "{method} under {options}");
    }
}

#[test]
fn user_information_in_a_host_does_not_avoid_it() {
    let rules = rules(&format!("{POLICY}match = {{ hosts = [\"api.example.com\"] }}"));
    for host in ["x@api.example.com", "x:y@api.example.com:8080", "@API.example.com."] {
        let (head, ()) = Request::get("/").header(HOST, host).body(()).unwrap().into_parts();
        assert!(!rules.matching(&head).is_empty(), "{host}");
    }
}

#[test]
fn patterns_have_a_bounded_number_of_segments() {
    let pattern = |segments: usize| {
        format!("{POLICY}match = {{ path = \"{}\" }}", "/{x}".repeat(segments).replace("{x}", "a"))
    };
    let longest = rules(&pattern(64));
    for end in ["", "/", "%2F", "/b/..", ";x"] {
        assert!(!longest.matching(&parts("GET", &("/%61".repeat(64) + end))).is_empty());
    }
    for longer in ["/b", "//b", "/b/../c", "/b/c/d/e/f/g"] {
        assert!(longest.matching(&parts("GET", &("/%61".repeat(64) + longer))).is_empty());
    }
    assert!(errors(&pattern(65)).contains("more than 64 segments"));
}

#[test]
fn a_long_path_with_many_readings_is_matched() {
    let rules = rules(&format!("{POLICY}match = {{ path = \"/a/{{*rest}}\" }}"));
    let back = "/x/%2e%2e//;%5c".repeat(4_000);
    for path in [format!("/a{back}/b"), format!("{back}/a/b")] {
        assert!(!rules.matching(&parts("GET", &path)).is_empty());
    }
}

/// A list of 1 000 values that only this one has.
fn list(prefix: &str, end: &str) -> String {
    (0..1_000).fold(String::new(), |mut list, number| {
        let _ = write!(list, "\"{prefix}{number}{end}\", ");
        list
    })
}

fn policies(conditions: &[String]) -> String {
    conditions.iter().enumerate().fold(String::new(), |text, (number, condition)| {
        text + &POLICY.replace("policy.p", &format!("policy.p{number}")) + condition + "\n"
    })
}

#[test]
fn search_for_policies_beside_unverified_keys_has_a_bound() {
    let policy = |name: &str, key: &str, end: &str| {
        let paths: Vec<_> = (0..6_000).map(|number| format!("{{ path = \"/{number}/{end}\" }}")).collect();
        let paths = paths.join(", ");
        format!("[policy.{name}]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = {key}\nmatch = [{paths}]\n")
    };
    let client = policy("client", "{ header = \"x-api-key\" }", "a");
    let found = rules(&(client.clone() + &policy("address", "\"client_ip\"", "a"))).warnings().to_string();
    assert!(found.contains("such a client meets only the policies by address"), "{found}");
    let found = errors(&(client.clone() + &policy("address", "\"client_ip\"", "{x}")));
    assert!(found.contains("the conditions of the policies are too many to find one by address"), "{found}");
    let everything = "[policy.all]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"client_ip\"\n";
    rules(&(client + &policy("address", "\"client_ip\"", "{x}") + everything));
}

#[track_caller]
fn assert_errors(text: &str, expected: &str) {
    let found = errors(text);
    assert!(found.contains(expected), "{expected:?} is not in\n{found}");
}

/// A client with a verified identity gets a new budget with each path, as one with an address does.
#[test]
fn policy_by_a_verified_part_bounds_the_others() {
    let clients = "[client_ip]\nheader = \"x-real-ip\"\ntrusted_proxies = \"10.0.0.0/8\"\n";
    let (consumer, free) = ("{ header = \"x-consumer\", trusted = true }", "{ query = \"q\" }");
    let key = |key: &str| clients.to_owned() + &POLICY.replace("\"global\"", key);
    let beside = |one: &str, other: &str| {
        format!("{}[policy.all]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = {other}\n", key(one))
    };
    for verified in ["\"client_ip\"", "\"route\"", "\"method\"", consumer] {
        let rules = rules(&key(&format!("{{ all = [{consumer}, {verified}] }}")));
        let warnings = rules.warnings().to_string();
        assert!(!warnings.contains("nothing verifies"), "{warnings}");
    }
    for (part, name) in [("\"path\"", "path"), (free, "query q"), ("{ path = \"/a/{b}\" }", "path /a/{b}")] {
        let (by_consumer, by_address) = (
            format!("{{ all = [{consumer}, {part}] }}"),
            format!("[{{ all = [\"client_ip\", {part}] }}, \"client_ip\"]"),
        );
        assert_errors(
            &key(&by_consumer),
            &format!(
                "nothing verifies {name} in the key (trusted header x-consumer and {name}): a client may send another one with each request, \
             and no policy by address or by trusted header x-consumer alone is beside it"
            ),
        );
        for other in [consumer, "\"client_ip\"", "\"peer\""] {
            assert!(!rules(&beside(&by_consumer, other)).warnings().has_warnings(), "{part} {other}");
        }
        assert_errors(
            &beside(&by_consumer, "{ header = \"x-other\", trusted = true }"),
            "alone is beside it",
        );
        assert_errors(&beside(&by_consumer, "\"global\""), "alone is beside it");
        assert!(rules(&key(&by_address)).warnings().has_warnings());
    }
    let either = format!("[{{ all = [{consumer}, \"path\"] }}, {free}]");
    assert_errors(&beside(&either, consumer), "nothing verifies the key");
    let [by_path, by_query] = ["\"path\"", free].map(|part| format!("{{ all = [{consumer}, {part}] }}"));
    assert!(!rules(&beside(&format!("[{by_path}, {by_query}]"), consumer)).warnings().has_warnings());
}

#[test]
fn many_methods_and_hosts_are_checked_within_a_bound() {
    let methods = list("M", "");
    let long = |hosts: &str| {
        format!("match = {{ methods = [{methods}], hosts = [{}] }}", list(hosts, ".example.com"))
    };
    let mut conditions = vec![String::new(); 14];
    conditions.extend([long("a"), long("b")]);
    rules(&policies(&conditions));
    let other = "match = { methods = [\"M1\"], hosts = [\"other.example.com\"] }".to_owned();
    conditions.extend(vec![other; 3]);
    let found = errors(&policies(&conditions));
    assert!(found.contains("17 policies match M1 for / of host other.example.com"), "{found}");
    conditions.truncate(16);
    conditions.insert(0, String::new());
    let found = errors(&policies(&conditions));
    assert!(found.contains("in too many ways to be checked"), "{found}");
}
