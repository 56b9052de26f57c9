use std::fs;
use std::path::Path;

use portcullis_tower::QuotaLookup;
use serde_json::{Value as Json, json};

use super::schema;
use crate::source::Format;
use crate::tree::{Node, Value};
use crate::{Loader, Rules};

#[test]
fn the_schema_is_a_schema() {
    jsonschema::meta::validate(&schema()).unwrap();
}

/// The files that are valid, with their formats.
fn valid() -> Vec<(String, Format, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/valid");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    if cfg!(not(feature = "signed")) {
        files.retain(|path| !path.ends_with("remote.toml"));
    }
    let file = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, Format::of_path(path).unwrap(), fs::read_to_string(path).unwrap())
    };
    files.iter().map(|path| file(path)).collect()
}

/// What the schema sees: the document as it is written.
fn document(format: Format, text: &str) -> Json {
    let loaded = Loader::text("limits", format, text).without_environment().read();
    let [document] = &loaded.documents[..] else { panic!("{:?}", loaded.findings) };
    to_json(document)
}

fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Integer(number) => json!(i64::try_from(*number).unwrap()),
        Value::Float(number) => json!(number),
        Value::String(text) => json!(text),
        Value::List(list) => list.iter().map(to_json).collect(),
        Value::Map(entries) => {
            entries.iter().map(|entry| (entry.name.clone(), to_json(&entry.node))).collect()
        }
    }
}

fn rules(format: Format, text: &str) -> Result<Rules, String> {
    let plans = QuotaLookup::new(|_: &http::request::Parts| async { Ok(None) });
    let loader = Loader::text("limits", format, text).environment(|_| None).quota_lookup("plans", plans);
    let loader = loader.rejection("page", |_| http::Response::default());
    let loader = loader.matcher("staff", |_: &http::request::Parts| false);
    Rules::load(&loader).map_err(|findings| findings.to_string())
}

#[test]
fn valid_files_are_accepted_by_rules_and_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for (name, format, text) in valid() {
        if let Err(findings) = rules(format, &text) {
            panic!("{name}: {findings}");
        }
        let document = document(format, &text);
        let errors: Vec<_> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
}

/// A file with one more line in its policy.
fn with(line: &str) -> String {
    format!("[policy.p]\nstrategy = 'gcra'\nquota = '10/s'\nkey = 'client_ip'\n{line}\n")
}

#[test]
fn what_the_schema_refuses_is_refused_by_rules() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut texts: Vec<_> = [
        "burst = -1",
        "mode = 'shadwo'",
        "mode = { percent = 101 }",
        "mode = { share = 10 }",
        "mode = true",
        "on_store_failure = 'opne'",
        "on_store_failure = { local = 0 }",
        "on_store_failure = { local = 1, open_for = '1s' }",
        "match = { path = 5 }",
        "match = { paths = '/a' }",
        "match = 'GET'",
        "tiers = { pro = 5 }",
        "tiers = ['1/s']",
        "cost = -1",
        "cost = 'many'",
        "cost = {}",
        "cost = { header = 'x', max = 0 }",
        "on_missing = 'ignore'",
        "wait = 5",
        "wait = 'soon'",
        "debt = -5",
        "caller_quotas = ['1/s']",
        "caller_quotas = ['1/s', '2/s', '3/s']",
        "overrides = 'yes'",
        "lock_out = { within = '1m' }",
        "lock_out = { after = 0 }",
        "in_flight = { lease = '1s' }",
        "in_flight = { limit = 0 }",
        "charge_when = {}",
        "charge_when = { status = 99 }",
        "charge_when = { status = '6xx' }",
        "charge_when = { grpc_status = -1 }",
        "charge_when = { grpc_status = 2147483648 }",
        "reject_with = {}",
        "reject_with = 'page'",
        "reject_with = { function = 5 }",
        "reject_with = { name = 'page' }",
        "except = { function = 5 }",
        "charge_after = 1025",
        "warn_at = 1.5",
        "warn_at = '0.5'",
        "hide = 'true'",
        "until = 'end'",
        "reserve = 'all'",
        "reserve = 'used'\nusage = 'cohere'",
        "reserve = 'used'\nusage = {}",
        "reserve = 'used'\nusage = { pointer = 'usage.tokens' }",
        "unknown = 1",
        "except = { }",
        "[policy.q]\nstrategy = 'gcra'\nquota = '1/s'",
        "[policy.q]\nquota = '1/s'\nkey = 'peer'",
        "[policy.q]\nstrategy = 'gcrb'\nquota = '1/s'\nkey = 'peer'",
        "[policy.q]\nstrategy = 'gcra'\nquota = 'fast'\nkey = 'peer'",
        "[policy.q]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'pear'",
        "[policy.q]\nstrategy = 'gcra'\nquota = '1/s'\nkey = []",
        "[policy.q]\nstrategy = 'gcra'\nquota = '1/s'\nkey = { }",
        "[policy.q]\nstrategy = 'gcra'\nquota = '1/s'\nkey = { header = 1 }",
        "[policy.q]\nstrategy = 'sliding_window'\nquota = '1/s'\nslots = 1001\nkey = 'peer'",
        "[policy.q]\nstrategy = 'fixed_window'\nquota = '1/s'\nanchor = 'noon'\nkey = 'peer'",
        "[client_ip]\nipv6_prefix = 129",
        "[client_ip]\nheaders = 'x-forwarded-for'",
        "[layer]\nheaders = 'all'",
        "[layer]\nspread_retries = 2",
        "[layer]\nlimit_preflights = 1",
        "[layer]\nexcept = '/health'",
        "[layer]\nexcept = [{ host = 'a' }]",
        "[polices.x]\nstrategy = 'gcra'",
    ]
    .map(with)
    .into();
    texts.push("policy = 5".to_owned());
    texts.push("policy.p = 'x'".to_owned());
    for text in texts {
        assert!(!validator.is_valid(&document(Format::Toml, &text)), "the schema accepts {text}");
        assert!(rules(Format::Toml, &text).is_err(), "the rules accept {text}");
    }
}

#[test]
fn the_schema_has_what_the_loader_takes_for_documents() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let remote = |key: &str, allow: &[&str]| json!({ "remote": { "verify_key": key, "allow": allow } });
    for allow in [&["limit", "burst"][..], &[]] {
        assert!(validator.is_valid(&remote(&"0a".repeat(32), allow)));
        assert!(!validator.is_valid(&remote("0a", allow)));
    }
    assert!(!validator.is_valid(&json!({ "remote": { "key": "portcullis-rules" } })));
}

/// Beyond the whole files: values at the ends of their ranges, and each form of a field.
#[test]
fn what_rules_accept_is_accepted_by_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut texts: Vec<_> = [
        "mode = '0.5 %'",
        "mode = '100%'",
        "mode = '0.1%'",
        "mode = { percent = 0 }",
        "cost = 0",
        "cost = 9223372036854775807",
        "cost = { header = 'x-cost', max = 1 }",
        "cost = { path = {} }",
        "charge_when = { status = 100 }",
        "charge_when = { status = ['1xx', 599], grpc_status = [0, 16, 2147483647] }",
        "charge_when = { status = 401 }\ncharge_after = 0",
        "charge_when = { status = 401 }\ncharge_after = 1024",
        "charge_when = { status = [] }",
        "charge_after = false",
        "on_store_failure = 'local'",
        "on_store_failure = { local = 1 }",
        "on_store_failure = { open_for = '1us' }",
        "match = []",
        "match = {}",
        "match = { methods = 'GET', hosts = '*.example.org' }",
        "match = { grpc = ['shop.Orders', 'shop.Orders/Place'] }",
        "tiers = {}",
        "tiers = { pro = '9/s', max = '9/s burst 30' }",
        "caller_quotas = ['1/s', '20/s burst 40']",
        "wait = '1m 30s'",
        "wait = '1us'",
        "debt = 1",
        "debt = 0",
        "overrides = false",
        "lease = 1",
        "lock_out = { after = 4294967295 }",
        "lock_out = { after = 1, within = '1us', block_for = '1us' }",
        "in_flight = { limit = 1000, lease = '1h' }",
        "in_flight = { limit = 1, lease = '1s', until = 'body', on_store_failure = { local = 4 } }",
        "warn_at = 0.001",
        "warn_at = 1",
        "reserve = 'reservation'",
        "except = []",
        "except = [{ path = '/a', method = 'GET', network = ['10.0.0.0/8', '::1/128'] }]",
        "except = { function = 'staff', path = '/a' }",
        "reject_with = { function = 'page' }\n[layer]\nreject_with = { function = 'page' }",
        "[layer]\ndeny = { function = 'staff' }",
        "[layer]\nheaders = []",
        "[layer]\nheaders = ['ietf', 'ietf-draft-6', 'shadow', 'x-ratelimit-unix-time']",
        "[layer]\nspread_retries = '1h'",
        "[layer]\nlookup_deadline = '0s'",
        "[layer]\nshow_generation = 'x'",
        "[layer]\nonly = { prefix = '/' }",
        "[client_ip]\nipv4_prefix = 0\nipv6_prefix = 0",
        "[client_ip]\nipv4_prefix = 32\nipv6_prefix = 128",
        "[client_ip]\nheader = 'x-real-ip'\nhops = 1",
        "[client_ip]\nheader = 'forwarded'\ntrusted_proxies = '10.0.0.0/8'\nhops = 255",
    ]
    .map(with)
    .into();
    let keys = [
        "'peer'",
        "'global'",
        "'route'",
        "'method'",
        "'grpc_service'",
        "'grpc_method'",
        "'bearer'",
        "{ query = 'user' }",
        "{ cookie = 'session', challenge = 'Cookie' }",
        "['bearer', { header = 'x-api-key' }, 'client_ip']",
        "{ all = ['client_ip', 'route', { header = 'x-tenant' }] }",
    ];
    texts.extend(keys.map(|key| with(&format!("[policy.q]\nstrategy = 'gcra'\nquota = '1/s'\nkey = {key}"))));
    let strategies = [
        "'token_bucket'\nlimit = 10\nperiod = '1s'\nburst = 1\nrefill = 'interval'",
        "'token_bucket'\nquota = '5/10s burst 9'\nrefill = 'greedy'",
        "'leaky_bucket'\nquota = '1/us'",
        "'fixed_window'\nquota = '999999999999999/day'\nanchor = 0",
        "'fixed_window'\nlimit = 1\nperiod = '1w'\nanchor = 'epoch'",
        "'sliding_window'\nquota = '1/s'\nslots = 1000",
        "'sliding_log'\nquota = '100000/h'",
        "'in_flight'\nlimit = 1\nlease = '1s'\nuntil = 'headers'",
        "'calendar_window'\nlimit = 1\nwindows = 'days in UTC'",
    ];
    let strategies = strategies.map(|fields| with(&format!("[policy.q]\nkey = 'peer'\nstrategy = {fields}")));
    texts.extend(strategies);
    let mut accepted = 0;
    for text in &texts {
        if rules(Format::Toml, text).is_ok() {
            accepted += 1;
            let document = document(Format::Toml, text);
            let errors: Vec<_> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{text}: {errors:?}");
        }
    }
    assert!(accepted > 50, "{accepted}");
}
