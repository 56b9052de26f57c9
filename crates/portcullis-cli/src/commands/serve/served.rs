//! What answers by the rules, and reloads them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use portcullis::Limiter;
use portcullis::rules::{Watch, WatchHandle, WatchOptions};
use portcullis_rls::{RateLimitService, reflection, reflection_v1alpha};
use portcullis_server::{CheckEndpoint, DescriptorFiles, Readiness};
use tokio::task::JoinSet;
use tonic::service::Routes;

/// What answers by the rules.
pub(super) struct Served {
    /// What answers calls of Envoy. `None` for native rules without gRPC.
    pub(super) service: Option<RateLimitService>,
    pub(super) check: Option<CheckEndpoint>,
    /// Envoy's files; the others are those of the limiter's rules.
    pub(super) files: Option<DescriptorFiles>,
    pub(super) limiter: Limiter,
}

impl Served {
    /// The services over gRPC: limits, and the description of them.
    pub(super) fn grpc(&self) -> anyhow::Result<Routes> {
        let services = Routes::new(reflection()?).add_service(reflection_v1alpha()?);
        Ok(match self.service.clone() {
            Some(service) => {
                let services = services.add_service(service.clone().grpc_reservations());
                services.add_service(service.grpc())
            }
            None => services,
        })
    }

    /// The routes over HTTP.
    pub(super) fn http(&self) -> Router {
        let router = self.service.as_ref().map_or_else(Router::new, RateLimitService::json);
        match self.check.clone() {
            Some(check) => router.merge(check.router()),
            None => router,
        }
    }

    /// `native` or `envoy`.
    pub(super) fn format(&self) -> &'static str {
        if self.files.is_some() { "envoy" } else { "native" }
    }

    /// Reloads the rules while the answer exists.
    pub(super) fn follow(&self, readiness: &Readiness, poll: Duration) -> anyhow::Result<Following> {
        let (mut watch, mut task) = (None, JoinSet::new());
        if let (Some(files), Some(service)) = (self.files.clone(), self.service.clone()) {
            let hangup = crate::service::signals::hangups()?;
            let now = move || {
                let hangup = Arc::clone(&hangup);
                async move { hangup.notified().await }
            };
            let apply = move |descriptors| service.replace(descriptors);
            task.spawn(files.follow(readiness.clone(), poll, now, apply));
        } else if let Ok(live) = self.limiter.rules() {
            watch = Some(Watch::start(live, WatchOptions::new().poll(poll))?);
        }
        Ok(Following { _watch: watch, _task: task })
    }
}

/// What reloads the rules until it is dropped.
pub(super) struct Following {
    _watch: Option<WatchHandle>,
    _task: JoinSet<()>,
}
