//! Checks the direction of the dependencies between the crates. Development dependencies do not count.

use crate::workspace::{Dependency, Package};

#[derive(Debug)]
struct Forbidden {
    /// The package. The rule also applies to what it reaches through other members of the workspace.
    package: &'static str,
    /// Names; a final `*` stands for any ending.
    never: &'static [&'static str],
    because: &'static str,
}

/// Returns one line for each forbidden dependency.
pub(super) fn violations(packages: &[Package]) -> Vec<String> {
    let mut violations = Vec::new();
    for rule in FORBIDDEN {
        for path in paths_from(packages, rule.package) {
            if rule.never.iter().any(|pattern| path.last().is_some_and(|name| matches(pattern, name))) {
                violations.push(format!("{}: {}", path.join(" -> "), rule.because));
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

/// Returns every dependency that `start` reaches through members, once, as the shortest path.
fn paths_from<'a>(packages: &'a [Package], start: &'a str) -> Vec<Vec<&'a str>> {
    let mut paths = vec![vec![start]];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        let member = packages.iter().find(|package| path.last() == Some(&package.name.as_str()));
        for dependency in member.into_iter().flat_map(regular_dependencies) {
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

const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        package: "portcullis-core",
        never: &["portcullis*"],
        because: "the core depends on no other crate of the workspace",
    },
    Forbidden {
        package: "portcullis-core",
        never: &["async-std", "smol", "tokio*", "fred", "http*", "tower*"],
        because: "the core has no clock, no I/O and no async runtime",
    },
    Forbidden {
        package: "portcullis-memory",
        never: &["axum*", "http*", "hyper*", "tonic*", "tower*", "portcullis-tower"],
        because: "a store does not depend on HTTP",
    },
    Forbidden {
        package: "portcullis-redis",
        never: &["axum*", "http*", "hyper*", "tonic*", "tower*", "portcullis-tower"],
        because: "a store does not depend on HTTP",
    },
    Forbidden {
        package: "portcullis-regions",
        never: &["fred", "http*", "tower*", "portcullis-memory", "portcullis-redis", "portcullis-tower"],
        because: "regions work on any store",
    },
    Forbidden {
        package: "portcullis-engine",
        never: &[
            "axum*",
            "fred",
            "http*",
            "hyper*",
            "portcullis-memory",
            "portcullis-redis",
            "portcullis-tower",
            "tonic*",
            "tower*",
        ],
        because: "the engine decides from data: it knows no HTTP and no store",
    },
    Forbidden {
        package: "portcullis-identity",
        never: &["fred", "portcullis-engine", "portcullis-memory", "portcullis-redis", "portcullis-tower"],
        because: "who is calling is known before anything decides",
    },
    Forbidden {
        package: "portcullis-tower",
        never: &["fred", "portcullis-memory", "portcullis-redis"],
        because: "the layer does not depend on a store",
    },
    Forbidden {
        package: "portcullis-config",
        never: &["fred", "portcullis-memory", "portcullis-redis"],
        because: "rules do not depend on a store",
    },
    Forbidden {
        package: "portcullis-metrics",
        never: &["fred", "portcullis-memory", "portcullis-redis"],
        because: "metrics do not depend on a store",
    },
    Forbidden {
        package: "portcullis-admin",
        never: &["fred", "portcullis-config", "portcullis-memory", "portcullis-redis"],
        because: "the admin API does not depend on a store",
    },
    Forbidden {
        package: "portcullis-regions",
        never: &["fred", "http*", "portcullis-memory", "portcullis-redis", "portcullis-tower", "tower*"],
        because: "regions are two stores of any kind, without HTTP",
    },
    Forbidden {
        package: "portcullis",
        never: &["portcullis-cli", "portcullis-server"],
        because: "the servers are programs around the facade",
    },
];

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
            Some(name) => Dependency { name: name.to_owned(), kind: Some("dev".to_owned()) },
            None => Dependency { name: (*text).to_owned(), kind: None },
        };
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }
}
