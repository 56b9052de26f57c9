//! Checks the direction of the dependencies between the crates. Development dependencies do not count.
//!
//! `cargo deny` cannot say this: its `wrappers` are the direct dependents of a crate, and not what a package reaches.

use crate::workspace::{Dependency, Package};

/// Returns one line for each forbidden dependency.
pub(super) fn violations(packages: &[Package]) -> Vec<String> {
    let mut violations = Vec::new();
    for (package, never, because) in FORBIDDEN {
        for path in paths_from(packages, package, |_| true) {
            if never.iter().any(|pattern| path.last().is_some_and(|name| matches(pattern, name))) {
                violations.push(format!("{}: {because}", path.join(" -> ")));
            }
        }
    }
    for package in packages.iter().filter(|package| package.is_published()) {
        let uses_fred = regular_dependencies(package).any(|dependency| dependency.name == "fred");
        if uses_fred && !MAY_USE_FRED.contains(&package.name.as_str()) {
            violations.push(format!("{} -> fred: only {} may use it", package.name, MAY_USE_FRED.join(", ")));
        }
    }
    violations
}

/// Returns every dependency that `start` reaches through members, once, as the shortest path. `counts` says which ones are followed.
pub(super) fn paths_from<'a>(
    packages: &'a [Package],
    start: &'a str,
    counts: fn(&Dependency) -> bool,
) -> Vec<Vec<&'a str>> {
    let mut paths = vec![vec![start]];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        let member = packages.iter().find(|package| path.last() == Some(&package.name.as_str()));
        for dependency in member.into_iter().flat_map(regular_dependencies).filter(|one| counts(one)) {
            let name = dependency.name.as_str();
            if !paths.iter().any(|known| known.last() == Some(&name)) {
                paths.push([path.as_slice(), &[name]].concat());
            }
        }
        next += 1;
    }
    paths.split_off(1)
}

fn regular_dependencies(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| !dependency.is_dev())
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

const MAY_USE_FRED: &[&str] = &["portcullis-redis"];

/// A package, what it never depends on, and why. A rule also applies to what the package reaches through other members of the workspace;
/// a final `*` stands for any ending.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("portcullis-core", &["portcullis*"], "the core depends on no other crate of the workspace"),
    (
        "portcullis-core",
        &["async-std", "smol", "tokio*", "fred", "http*", "tower*"],
        "the core has no clock, no I/O and no async runtime",
    ),
    ("portcullis-log", &["portcullis*"], "all crates that log depend on it"),
    ("portcullis-memory", HTTP, "a store does not depend on HTTP"),
    ("portcullis-redis", HTTP, "a store does not depend on HTTP"),
    ("portcullis-engine", HTTP, "the engine decides from data: it knows no HTTP and no store"),
    ("portcullis-engine", STORES, "the engine decides from data: it knows no HTTP and no store"),
    (
        "portcullis-identity",
        &["fred", "portcullis-engine", "portcullis-memory", "portcullis-redis", "portcullis-tower"],
        "the client is identified before anything decides",
    ),
    (
        "portcullis-response",
        &["fred", "hyper*", "portcullis-memory", "portcullis-redis", "portcullis-tower", "tower*"],
        "a response is made of what was decided, whichever layer asks for it",
    ),
    ("portcullis-usage", &["portcullis*"], "usage is read from bytes and headers, whatever is limited by it"),
    ("portcullis-tower", STORES, "the layer does not depend on a store"),
    (
        "portcullis-tower",
        &["portcullis-outgoing", "portcullis-shed"],
        "the other layers are made of what the layer has",
    ),
    ("portcullis-outgoing", STORES, "the layer of clients does not depend on a store"),
    ("portcullis-shed", STORES, "the layer against overload does not depend on a store"),
    ("portcullis-config", STORES, "rules do not depend on a store"),
    ("portcullis-metrics", STORES, "metrics do not depend on a store"),
    (
        "portcullis-admin",
        &["fred", "portcullis-config", "portcullis-memory", "portcullis-redis"],
        "the admin API does not depend on a store",
    ),
    ("portcullis-regions", HTTP, "regions are two stores of any kind, without HTTP"),
    ("portcullis-regions", STORES, "regions are two stores of any kind, without HTTP"),
    ("portcullis", &["portcullis-cli"], "the servers are programs around the facade"),
    ("portcullis", SERVERS, "the servers are programs around the facade"),
    (
        "portcullis-rls",
        &["portcullis-proxy", "portcullis-server"],
        "Envoy's service opens no socket: programs serve it",
    ),
    ("portcullis-server", &["portcullis-proxy", "portcullis-rls"], "the server serves what programs give it"),
    ("portcullis-proxy", &["portcullis-rls"], "the proxy speaks no protocol of Envoy"),
];

/// What has to do with HTTP.
const HTTP: &[&str] = &["axum*", "http*", "hyper*", "tonic*", "tower*", "portcullis-tower"];
/// The crates that serve.
const SERVERS: &[&str] = &["portcullis-proxy", "portcullis-rls", "portcullis-server"];
/// The stores, and what only one of them uses.
const STORES: &[&str] = &["fred", "portcullis-memory", "portcullis-redis"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_dependencies_are_no_violations() {
        let packages = [
            package("portcullis-core", &["smallvec", "tokio (dev)", "portcullis-testing (dev)"]),
            package("portcullis-memory", &["portcullis-core", "indexmap"]),
            package("portcullis-redis", &["portcullis-core", "portcullis-memory", "fred"]),
            package(
                "portcullis-tower",
                &["portcullis-core", "http", "tower-layer", "portcullis-memory (dev)"],
            ),
            package("portcullis", &["portcullis-memory", "portcullis-redis", "portcullis-tower"]),
        ];
        assert_eq!(violations(&packages), [""; 0]);
    }

    #[test]
    fn a_forbidden_dependency_is_reported_with_its_path() {
        let packages = [
            package("portcullis-core", &["portcullis-key"]),
            package("portcullis-memory", &["http-body"]),
            package("portcullis-tower", &["portcullis-testing"]),
            package("portcullis-testing", &["portcullis-redis", "fred"]),
            package("portcullis", &["fred"]),
        ];
        let expected = [
            "portcullis-core -> portcullis-key: the core depends on no other crate of the workspace",
            "portcullis-memory -> http-body: a store does not depend on HTTP",
            "portcullis-tower -> portcullis-testing -> portcullis-redis: the layer does not depend on a store",
            "portcullis-tower -> portcullis-testing -> fred: the layer does not depend on a store",
            "portcullis-testing -> fred: only portcullis-redis may use it",
            "portcullis -> fred: only portcullis-redis may use it",
        ];
        assert_eq!(violations(&packages), expected);
    }

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependency = |text: &&str| match text.strip_suffix(" (dev)") {
            Some(name) => Dependency { name: name.to_owned(), kind: Some("dev".to_owned()), optional: false },
            None => Dependency { name: (*text).to_owned(), kind: None, optional: false },
        };
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }
}
