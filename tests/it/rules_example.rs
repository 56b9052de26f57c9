//! The example with rules in a file, as its documentation describes, and the limits that are both in code and in a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use portcullis::rules::{Format, Loader, Rules};
use portcullis::{Policy, Quota};
use portcullis_servers::{RedisServer, within_a_minute};

use crate::process::Process;

const EXAMPLE: &str = include_str!("../../examples/rules/limits.toml");
const QUICKSTART: &str = include_str!("../../examples/quickstart/src/main.rs");
const README: &str = include_str!("../../README.md");
const PAGE: &str = include_str!("../../docs/how-to/operate/rules.md");
const FIELDS: &str = include_str!("../../docs/reference/rules.md");

/// A file that is replaced as a whole, as an editor does.
struct Limits(PathBuf);

impl Limits {
    fn new(name: &str) -> Self {
        let limits = Self(std::env::temp_dir().join(format!("rules-example-{}-{name}", std::process::id())));
        fs::create_dir_all(&limits.0).unwrap();
        limits.write(EXAMPLE);
        limits
    }

    fn path(&self) -> PathBuf {
        self.0.join("limits.toml")
    }

    fn write(&self, text: &str) {
        let other = self.0.join("new");
        fs::write(&other, text).unwrap();
        fs::rename(other, self.path()).unwrap();
    }

    /// The example with another quota for `/`.
    fn write_quota(&self, quota: &str) {
        assert!(EXAMPLE.contains("\"5/10s burst 5\""), "the quota of the example");
        self.write(&EXAMPLE.replace("5/10s burst 5", quota));
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn limit(server: &Process, path: &str) -> Option<u64> {
    let response = server.get(path).await;
    response.headers().get("x-ratelimit-limit")?.to_str().unwrap().parse().ok()
}

async fn operators_edit_the_file(name: &str, redis_url: Option<&str>) {
    let limits = Limits::new(name);
    let mut server = Process::rules(&limits.path(), redis_url).await;
    assert_eq!((limit(&server, "/").await, limit(&server, "/search").await), (Some(5), Some(20)));

    limits.write_quota("3/w burst 3");
    until_limit_is(&server, 3).await;

    // A bad file keeps the last good limits, and the log has its place.
    limits.write_quota("three per week");
    let line = server.line_with("three per week").await;
    assert!(line.contains("limits.toml:5:9"), "{line}");
    assert_eq!((limit(&server, "/").await, limit(&server, "/search").await), (Some(3), Some(20)));

    limits.write_quota("7/w burst 7");
    until_limit_is(&server, 7).await;
    assert_eq!(limit(&server, "/search").await, Some(20));
}

async fn until_limit_is(server: &Process, expected: u64) {
    let changed = async {
        while limit(server, "/").await != Some(expected) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within_a_minute("new limit", changed).await;
}

#[tokio::test]
async fn operators_edit_the_file_of_the_example_in_memory() {
    operators_edit_the_file("memory", None).await;
}

#[tokio::test]
async fn operators_edit_the_file_of_the_example_on_redis() {
    let redis = RedisServer::start().unwrap();
    operators_edit_the_file("redis", Some(&redis.url())).await;
}

fn rules(text: &str) -> Rules {
    let loader = Loader::text("limits.toml", Format::Toml, text).environment(|_| None);
    Rules::load(&loader).unwrap_or_else(|findings| panic!("{findings}"))
}

/// The rules have these policies, which are all that the code in a file of this project makes.
fn assert_same(rules: &Rules, code: &str, policies: &[(&str, Policy)]) {
    assert_eq!(code.matches(" = Policy::").count(), policies.len());
    for (source, policy) in policies {
        assert!(code.contains(source), "the code no longer has {source}");
        let rule = rules.get(policy.name().as_str()).unwrap_or_else(|| panic!("no rule {}", policy.name()));
        assert_eq!(rule.policy(), policy);
    }
}

#[test]
fn example_has_the_limits_of_the_quickstart() {
    let rules = rules(EXAMPLE);
    let home = Quota::new(5, Duration::from_secs(10), Some(5)).unwrap();
    assert_same(
        &rules,
        QUICKSTART,
        &[
            (
                r#"Policy::gcra("home", Quota::new(5, Duration::from_secs(10), Some(5))?)"#,
                Policy::gcra("home", home),
            ),
            (
                r#"Policy::gcra("search", Quota::per_second(10).burst(20))"#,
                Policy::gcra("search", Quota::per_second(10).burst(20)),
            ),
        ],
    );
    for (name, path) in [("home", "/"), ("search", "/search")] {
        assert_eq!(rules.get(name).unwrap().matcher().to_string(), format!("path = {path:?}"));
        assert!(QUICKSTART.contains(&format!("limiter.layer({name}.by(")));
    }
    assert_eq!(rules.get("home").unwrap().key().to_string(), "client_ip");
    assert_eq!(rules.get("search").unwrap().key().to_string(), "header x-api-key, else client_ip");
}

/// A page of the book has the limit of the README as a file.
#[test]
fn page_has_the_limit_of_the_readme() {
    let block = blocks(PAGE).find(|block| block.starts_with("# limits.toml\n")).unwrap();
    let rules = rules(block);
    let source = r#"Policy::token_bucket("search", Quota::per_second(10).burst(20))"#;
    let search = Policy::token_bucket("search", Quota::per_second(10).burst(20));
    assert_same(&rules, README, &[(source, search)]);
    assert_eq!(rules.iter().count(), 1);
    let rule = rules.get("search").unwrap();
    assert_eq!(
        (rule.key().to_string(), rule.matcher().to_string()),
        ("client_ip".into(), "path = \"/search\"".into())
    );
}

/// Every file with rules in the book can be used, but for mistakes that a page shows and for changes, which are not whole.
#[test]
fn files_of_the_book_can_be_used() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let pages = contents.lines().filter_map(|line| line.split_once("](")?.1.split(')').next());
    let mut count = 0;
    for page in pages {
        let text = fs::read_to_string(docs.join(page)).unwrap();
        for block in blocks(&text).filter(|block| is_whole(block)) {
            let loader =
                Loader::text("book.toml", Format::Toml, block).environment(|_| None).accept_unknown_names();
            if let Err(findings) = Rules::load(&loader) {
                panic!("{page}: {findings}\n{block}");
            }
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
}

fn is_whole(block: &str) -> bool {
    let first = block.lines().next().unwrap_or_default();
    let has_rules = block
        .lines()
        .any(|line| ["[policy.", "[layer]", "[client_ip]"].iter().any(|table| line.starts_with(table)));
    has_rules && !["# changes.toml", "# wrong.toml"].contains(&first)
}

/// The blocks of a page that are written as TOML.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap())
}

#[test]
fn reference_names_exactly_the_schemas_fields() {
    let schema = portcullis::rules::schema();
    let mut known: Vec<String> = fields_of(&schema["properties"]);
    for definition in schema["$defs"].as_object().unwrap().values() {
        known.extend(fields_of(&definition["properties"]));
    }
    known.sort();
    known.dedup();
    let mut documented = Vec::new();
    for row in FIELDS.lines().filter(|line| line.starts_with("| `")) {
        let names = row.split('|').nth(1).unwrap();
        documented.extend(names.split('`').skip(1).step_by(2).map(ToOwned::to_owned));
    }
    documented.sort();
    documented.dedup();
    assert_eq!(documented, known);
}

fn fields_of(properties: &serde_json::Value) -> Vec<String> {
    properties.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn example_is_beside_its_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rules");
    assert!(Rules::from_file(folder.join("limits.toml")).is_ok());
}
