//! Rules in files.

use std::sync::Arc;

use portcullis_tower::LayerError;

use super::Limiter;
use crate::rules::{LiveRules, NoRules, Rules};

impl Limiter {
    /// Gives the limiter its rules, which are usually read from a file. The limiter, and clones of it that are made from now on, then have
    /// [layers](Self::rules) of them.
    ///
    /// Layers in code may be used beside them, under policies of other names. A second call replaces the rules.
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// // Usually `Rules::from_file("limits.toml")?`.
    /// let limits = Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.search]
    ///     strategy = "token_bucket"
    ///     quota = "10/s burst 20"
    ///     key = "client_ip"
    ///     match = { path = "/search" }
    /// "#);
    /// let limiter = Limiter::memory().with_rules(Rules::load(&limits)?)?;
    /// let layer = limiter.rules()?.layer();
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a layer has a different policy under the name of a rule, or the store cannot hold another policy.
    pub fn with_rules(mut self, rules: Rules) -> Result<Self, LayerError> {
        match &self.rules {
            Some(live) => drop(live.swap(rules)?),
            None => self.rules = Some(LiveRules::new(Arc::clone(&self.registry), rules)?),
        }
        Ok(self)
    }

    /// Returns the rules as they are now: their [layer](LiveRules::layer) for a router or a service, that [of one
    /// rule](LiveRules::layer_of) for a route, the [policy](LiveRules::policy) of a rule for a [`check`](Self::check) in a handler. All
    /// follow each reload.
    ///
    /// ```
    /// use axum::{Router, body::Body, http::Request, routing::get};
    /// use portcullis::Limiter;
    /// use portcullis::rules::{Format, Loader, Rules};
    /// use tower::ServiceExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.daily]
    ///     strategy = "fixed_window"
    ///     quota = "100/day"
    ///     key = "global"
    ///     match = { path = "/search" }
    ///
    ///     [policy.mails]
    ///     strategy = "sliding_window"
    ///     quota = "3/h"
    ///     key = "global"
    ///     match = { path = "/mails" }
    /// "#);
    /// let limiter = Limiter::memory().with_rules(Rules::load(&limits)?)?;
    /// let rules = limiter.rules()?;
    /// let app: Router = Router::new()
    ///     .route("/search", get(|| async { "found" }))
    ///     .route("/health", get(|| async { "ok" }).layer(rules.layer_of("daily")?))
    ///     .layer(rules.layer());
    /// let response = app.clone().oneshot(Request::get("/search").body(Body::empty())?).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
    /// let response = app.oneshot(Request::get("/health").body(Body::empty())?).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "98");
    ///
    /// let mails = rules.policy("mails")?;
    /// let charge = limiter.check(&mails).by(|key| key.part("email", b"ada@example.com")).await.expect("three mails per hour");
    /// assert_eq!(charge.decision().remaining(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the limiter has no rules.
    pub fn rules(&self) -> Result<&LiveRules, NoRules> {
        self.rules.as_ref().ok_or(NoRules)
    }
}
