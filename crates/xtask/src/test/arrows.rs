//! Dependencies between the crates run one way. Only what gets shipped counts: tests may look at everything.

use crate::workspace::{Dependency, Package};

#[derive(Debug)]
struct Rule {
    /// Whom it binds, and whatever it reaches through other members of the workspace.
    package: &'static str,
    /// Names; a final `*` stands for any ending.
    never: &'static [&'static str],
    because: &'static str,
}

/// One line for each dependency that points the wrong way.
pub(super) fn wrong(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in RULES {
        for path in paths_from(packages, rule.package) {
            if rule.never.iter().any(|pattern| path.last().is_some_and(|name| matches(pattern, name))) {
                wrong.push(format!("{}: {}", path.join(" -> "), rule.because));
            }
        }
    }
    for package in packages.iter().filter(|package| package.is_published()) {
        let uses_fred = shipped(package).any(|dependency| dependency.name == "fred");
        if uses_fred && !MAY_USE_FRED.contains(&package.name.as_str()) {
            wrong.push(format!("{} -> fred: only {} may use it", package.name, MAY_USE_FRED.join(", ")));
        }
    }
    wrong
}

/// Every dependency that `start` reaches through members, once, as the shortest way there.
fn paths_from<'a>(packages: &'a [Package], start: &'a str) -> Vec<Vec<&'a str>> {
    let mut paths = vec![vec![start]];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        let member = packages.iter().find(|package| path.last() == Some(&package.name.as_str()));
        for dependency in member.into_iter().flat_map(shipped) {
            let name = dependency.name.as_str();
            if !paths.iter().any(|known| known.last() == Some(&name)) {
                paths.push([path.as_slice(), &[name]].concat());
            }
        }
        next += 1;
    }
    paths.split_off(1)
}

fn shipped(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| !dependency.is_dev())
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

const MAY_USE_FRED: &[&str] = &["portcullis-redis"];

const RULES: &[Rule] = &[
    Rule {
        package: "portcullis-core",
        never: &["portcullis*"],
        because: "everything depends on the core, so the core on nothing of ours",
    },
    Rule {
        package: "portcullis-core",
        never: &["async-std", "smol", "tokio*", "fred", "http*", "tower*"],
        because: "the core has no clock, no I/O and no async runtime",
    },
    Rule {
        package: "portcullis-memory",
        never: &["axum*", "http*", "hyper*", "tonic*", "tower*", "portcullis-tower"],
        because: "a store never names HTTP",
    },
    Rule {
        package: "portcullis-redis",
        never: &["axum*", "http*", "hyper*", "tonic*", "tower*", "portcullis-tower"],
        because: "a store never names HTTP",
    },
    Rule {
        package: "portcullis-tower",
        never: &["fred", "portcullis-memory", "portcullis-redis"],
        because: "the layer never names a store",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_house_in_order_has_nothing_to_tell() {
        let house = [
            package("portcullis-core", &["smallvec", "tokio (dev)", "portcullis-testing (dev)"]),
            package("portcullis-memory", &["portcullis-core", "indexmap"]),
            package("portcullis-redis", &["portcullis-core", "portcullis-memory", "fred"]),
            package(
                "portcullis-tower",
                &["portcullis-core", "http", "tower-layer", "portcullis-memory (dev)"],
            ),
            package("portcullis", &["portcullis-memory", "portcullis-redis", "portcullis-tower"]),
        ];
        assert_eq!(wrong(&house), [""; 0]);
    }

    #[test]
    fn an_arrow_against_the_rules_is_told_with_the_way_there() {
        let house = [
            package("portcullis-core", &["portcullis-key"]),
            package("portcullis-memory", &["http-body"]),
            package("portcullis-tower", &["portcullis-testing"]),
            package("portcullis-testing", &["portcullis-redis", "fred"]),
            package("portcullis", &["fred"]),
        ];
        let expected = [
            "portcullis-core -> portcullis-key: everything depends on the core, so the core on nothing of ours",
            "portcullis-memory -> http-body: a store never names HTTP",
            "portcullis-tower -> portcullis-testing -> portcullis-redis: the layer never names a store",
            "portcullis-tower -> portcullis-testing -> fred: the layer never names a store",
            "portcullis-testing -> fred: only portcullis-redis may use it",
            "portcullis -> fred: only portcullis-redis may use it",
        ];
        assert_eq!(wrong(&house), expected);
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
