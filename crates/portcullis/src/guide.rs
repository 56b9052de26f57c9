//! The guides, as in the folder `docs` of the repository.
//!
//! | to | read |
//! |---|---|
//! | copy a whole program | [Recipes](recipes) |
//! | replace governor or `tower_governor` | [Coming from governor and `tower_governor`](from_governor) |
//! | choose how requests are counted | [Choosing an algorithm](algorithms), and a page for each |
//! | name the client that is charged | [Client identity](identity) |
//! | know what clients see | [Responses](responses) |
//! | keep to the limits of other servers | [Outgoing requests](outgoing) |
//! | change limits without a release | [Rules in files](rules) |
//! | look up a field of such a file | [Fields of rules](rules_reference) |
//! | test a service that has limits | [Testing your service](testing) |
//! | run it on Redis | [Running in production](operations) |
//! | let operators look and intervene | [Admin API](admin) |
//! | see what limits do, in a browser | [The live page](live_page) |
//! | see what limits do, in Prometheus | [Metrics](metrics) |
//! | check, explain and simulate rules on the command line | [The command](command) |
//! | limit the requests to services in any language | [The rate limiter as a service](serve) |
//! | limit what goes through Envoy | [Envoy](envoy) |
//! | limit what goes through nginx, Caddy, Traefik or HAProxy | [Checks for proxies](proxy_check) |
//! | limit requests to a server that has no limits | [The reverse proxy](reverse_proxy) |
//! | protect a service from overload | [Load shedding](load_shedding) |
//! | call Redis less often | [Leases](leases) |
//! | keep one limit in several data centres | [Several regions](regions) |
//! | know what decisions cost, and size a setup | [Performance](performance) |
//! | know what an attacker can do | [Security](security) |
//! | keep the state elsewhere | [Writing a store](writing_a_store) |
//! | add an algorithm to this crate | [Adding an algorithm](adding_an_algorithm) |
//! | know why it is built this way | [Architecture](architecture) |
//!
//! # Files of the repository
//!
//! Some pages refer to files that are in the repository and not in this crate:
//!
//! - `SECURITY.md`: how to report a vulnerability
//! - `docs/images`: pictures of the live page
//! - `docs/contributing.md`: how the project is built, checked and fuzzed
//! - `examples/rules/published`: limits that services publish, as files of rules
//! - `examples/sqlite-store`: a complete store with its tests

// The folder `docs` of this crate is a symbolic link, which cargo replaces by the files when it packs the crate. The pages link to
// each other by reference. Their own definitions are for readers of the files; of two definitions the first counts, so `links.md`
// replaces them by paths of modules, which `cargo xtask test rules` checks. `chart.md` contains the picture, because rustdoc has no
// place for another file; `cargo xtask compare --write` writes it. `pictures.md` names the files of pictures that are too large for that.

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("guide/chart.md")]
#[doc = include_str!("../docs/algorithms.md")]
pub mod algorithms {
    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/token-bucket.md")]
    pub mod token_bucket {}

    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/gcra.md")]
    pub mod gcra {}

    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/leaky-bucket.md")]
    pub mod leaky_bucket {}

    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/fixed-window.md")]
    pub mod fixed_window {}

    #[cfg_attr(feature = "calendar", doc = include_str!("guide/links.md"))]
    #[cfg_attr(feature = "calendar", doc = include_str!("../docs/algorithms/calendar-window.md"))]
    #[cfg_attr(not(feature = "calendar"), doc = "Needs the feature `calendar`.")]
    pub mod calendar_window {}

    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/sliding-window.md")]
    pub mod sliding_window {}

    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/sliding-log.md")]
    pub mod sliding_log {}

    #[doc = include_str!("guide/links.md")]
    #[doc = include_str!("../docs/algorithms/in-flight.md")]
    pub mod in_flight {}
}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/identity.md")]
pub mod identity {}

// Its code needs the types of `utoipa`.
#[cfg(any(not(doctest), feature = "openapi"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/responses.md")]
pub mod responses {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/operations.md")]
pub mod operations {}

#[cfg(any(not(doctest), feature = "admin"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/admin.md")]
pub mod admin {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("guide/pictures.md")]
#[doc = include_str!("../docs/live-page.md")]
pub mod live_page {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/command.md")]
pub mod command {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/serve.md")]
pub mod serve {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/envoy.md")]
pub mod envoy {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/proxy-check.md")]
pub mod proxy_check {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/reverse-proxy.md")]
pub mod reverse_proxy {}

#[cfg(any(not(doctest), feature = "metrics"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/metrics.md")]
pub mod metrics {}

#[cfg(any(not(doctest), feature = "redis"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/leases.md")]
pub mod leases {}

#[cfg(any(not(doctest), feature = "redis"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/regions.md")]
pub mod regions {}

// Its code needs Redis, `reqwest`, and calls by Tonic.
#[cfg(any(not(doctest), all(feature = "redis", feature = "reqwest", feature = "tonic")))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/outgoing.md")]
pub mod outgoing {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/load-shedding.md")]
pub mod load_shedding {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/performance.md")]
pub mod performance {}

// Its code needs the manual clock, as does that of the next page, a status of Tonic, and limits on outgoing requests.
#[cfg(any(not(doctest), all(feature = "outgoing", feature = "testing", feature = "tonic")))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/recipes.md")]
pub mod recipes {}

// Its code needs Redis as well.
#[cfg(any(not(doctest), all(feature = "redis", feature = "testing")))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}

#[cfg(any(not(doctest), feature = "testing"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/from-governor.md")]
pub mod from_governor {}

// Its code needs Redis and signatures.
#[cfg(any(not(doctest), all(feature = "redis", feature = "signed-rules")))]
#[cfg_attr(feature = "rules", doc = include_str!("guide/links.md"))]
#[cfg_attr(feature = "rules", doc = include_str!("../docs/rules.md"))]
#[cfg_attr(not(feature = "rules"), doc = "Needs the feature `rules`.")]
pub mod rules {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/rules-reference.md")]
pub mod rules_reference {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/security.md")]
pub mod security {}

// Its code decorates the store in Redis.
#[cfg(any(not(doctest), feature = "redis"))]
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/writing-a-store.md")]
pub mod writing_a_store {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/adding-an-algorithm.md")]
pub mod adding_an_algorithm {}

#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}
