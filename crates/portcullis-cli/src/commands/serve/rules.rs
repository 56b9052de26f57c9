//! The rules of a service, and what it answers by them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use portcullis::rules::envoy::Descriptors;
use portcullis::rules::{Door, Loader, Rules};
use portcullis::{FailureMode, Limiter};
use portcullis_cli::findings;
use portcullis_cli::kind::{Kind, KindArguments};
use portcullis_rls::{ChargeDeniedHits, RateLimitService, ResponseHeaders};
use portcullis_server::{CheckEndpoint, DescriptorFiles};

use super::listeners::ListenerArguments;
use super::served::Served;

/// How rules are read.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct RulesArguments {
    #[command(flatten)]
    kind: KindArguments,

    /// Lets several of Envoy's files have the same domain.
    #[arg(long)]
    merge_domains: bool,

    /// Accepts a folder without files of Envoy's, which limits nothing. Otherwise the service is not ready with such a folder, and keeps
    /// the last good limits when the last file is removed.
    #[arg(long)]
    allow_empty: bool,

    /// How often files are read again, for systems that do not report changes.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    poll: Duration,

    /// Does not answer checks over HTTP. With them, rules may use only the head of a request.
    #[arg(long)]
    no_check: bool,

    /// The headers that Envoy adds to responses. With native rules, any value but `none` passes on those of the rules.
    #[arg(long, value_enum, value_name = "NAMES", default_value = "none")]
    response_headers: Headers,

    /// Answers every call over gRPC with `OK`, and charges it as usual.
    #[arg(long)]
    shadow: bool,

    /// What happens under Envoy's files while the store cannot answer. `local`: each instance keeps the whole limit. `open`: nothing is
    /// limited. `closed`: the call fails, and `failure_mode_deny` of Envoy decides. Native rules state their own.
    #[arg(long, value_enum, value_name = "MODE", default_value = "local")]
    on_store_failure: OnStoreFailure,

    /// Which denied calls are charged all that is left under each of their limits, at most their hits. `reports`: those of more than one
    /// hit or under a rule with `report = true`, which report usage after the response. `always`: all. `never`: none.
    #[arg(long, value_enum, value_name = "CALLS", default_value = "reports")]
    charge_denied_hits: DeniedHits,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DeniedHits {
    Never,
    Reports,
    Always,
}

impl From<DeniedHits> for ChargeDeniedHits {
    fn from(setting: DeniedHits) -> Self {
        match setting {
            DeniedHits::Never => Self::Never,
            DeniedHits::Reports => Self::Reports,
            DeniedHits::Always => Self::Always,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnStoreFailure {
    Local,
    Open,
    Closed,
}

impl From<OnStoreFailure> for FailureMode {
    fn from(mode: OnStoreFailure) -> Self {
        match mode {
            OnStoreFailure::Local => Self::local(1),
            OnStoreFailure::Open => Self::Open,
            OnStoreFailure::Closed => Self::Closed,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Headers {
    None,
    /// `x-ratelimit-limit`, `x-ratelimit-remaining` and `x-ratelimit-reset`.
    XRatelimit,
    /// `ratelimit-limit`, `ratelimit-remaining` and `ratelimit-reset`.
    Ratelimit,
}

impl RulesArguments {
    pub(super) fn poll(&self) -> Duration {
        self.poll.max(SHORTEST_POLL)
    }

    /// The service that answers calls of Envoy, with its options.
    fn configured(&self, service: RateLimitService) -> RateLimitService {
        let service = service.response_headers(match self.response_headers {
            Headers::None => ResponseHeaders::None,
            Headers::XRatelimit => ResponseHeaders::XRateLimit,
            Headers::Ratelimit => ResponseHeaders::RateLimit,
        });
        let service = service.on_store_failure(self.on_store_failure.into());
        let service = service.charge_denied_hits(self.charge_denied_hits.into());
        if self.shadow { service.shadow() } else { service }
    }

    /// Whether proxies ask for checks over HTTP.
    fn has_check(&self, listeners: &ListenerArguments) -> bool {
        !self.no_check && listeners.has_http()
    }
}

/// Rules that were read.
pub(super) enum Limits {
    Native(Rules),
    Envoy { files: DescriptorFiles, descriptors: Descriptors },
}

impl Limits {
    /// Reads the rules, and prints findings to standard error. `None` if they have errors.
    pub(super) fn load(
        path: &Path,
        arguments: &RulesArguments,
        listeners: &ListenerArguments,
    ) -> anyhow::Result<Option<Self>> {
        Ok(match arguments.kind.of(path) {
            Kind::Native => {
                let doors =
                    [(listeners.has_grpc(), Door::Serve), (arguments.has_check(listeners), Door::Check)];
                let doors: Vec<_> =
                    doors.into_iter().filter_map(|(is_asked, door)| is_asked.then_some(door)).collect();
                ensure!(!doors.is_empty(), NOTHING_ASKS);
                let load = |doors: &[Door]| {
                    Rules::load(&doors.iter().fold(Loader::file(path), |loader, door| loader.for_door(*door)))
                };
                let rules = findings::usable_by_service(load(&doors), Rules::warnings)?;
                if rules.is_none() && doors.len() > 1 {
                    if load(&[Door::Check]).is_ok() {
                        eprintln!(
                            "portcullis: only calls of Envoy cannot use these rules: `--grpc off` leaves them out"
                        );
                    } else if load(&[Door::Serve]).is_ok() {
                        eprintln!(
                            "portcullis: only checks over HTTP cannot use these rules: `--no-check` leaves them out"
                        );
                    }
                }
                rules.map(Self::Native)
            }
            Kind::Envoy => {
                let files = DescriptorFiles::new(PathBuf::from(path))
                    .merge_domains(arguments.merge_domains)
                    .allow_empty(arguments.allow_empty);
                let loaded = findings::usable_by_service(files.load(), Descriptors::warnings)?;
                loaded.map(|descriptors| Self::Envoy { files, descriptors })
            }
        })
    }

    /// The rules that belong to the limiter.
    pub(super) fn rules(&self) -> Option<Rules> {
        match self {
            Self::Native(rules) => Some(rules.clone()),
            Self::Envoy { .. } => None,
        }
    }

    /// What answers by the rules. `None` if they cannot be used, with the reason on standard error.
    pub(super) fn serve(
        self,
        arguments: &RulesArguments,
        limiter: &Limiter,
        listeners: &ListenerArguments,
    ) -> Option<Served> {
        match self {
            Self::Envoy { files, descriptors } => {
                let service = arguments.configured(RateLimitService::envoy(limiter.clone(), descriptors));
                if let Err(error) = service.register() {
                    eprintln!("portcullis: {error}: give --memory-keys, so that more policies fit");
                    return None;
                }
                Some(Served {
                    service: Some(service),
                    check: None,
                    files: Some(files),
                    limiter: limiter.clone(),
                })
            }
            Self::Native(_) => {
                let live = limiter.rules().ok()?.clone();
                let check = if arguments.has_check(listeners) {
                    let check = unless_refused(CheckEndpoint::new(limiter))?;
                    let trusted = listeners.trust.iter().copied();
                    Some(if trusted.len() == 0 { check } else { check.trust(trusted) })
                } else {
                    None
                };
                // Without gRPC rules may use what Envoy's calls do not have, and `/json` is such a call.
                let service = if listeners.has_grpc() {
                    let service = unless_refused(RateLimitService::native(limiter.clone(), live))?;
                    Some(arguments.configured(service))
                } else {
                    None
                };
                Some(Served { service, check, files: None, limiter: limiter.clone() })
            }
        }
    }
}

/// Prints why rules are refused that no finding has named before.
fn unless_refused<T, E: std::fmt::Display>(made: Result<T, E>) -> Option<T> {
    made.inspect_err(|error| eprintln!("portcullis: {error}")).ok()
}

const NOTHING_ASKS: &str = "rules without calls of Envoy and without checks over HTTP limit nothing: leave out `--grpc off`, or `--no-check` and `--http off`";

/// Each look reads all files.
const SHORTEST_POLL: Duration = Duration::from_millis(10);
