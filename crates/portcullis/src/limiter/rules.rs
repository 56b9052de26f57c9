//! Rules in files.

use std::sync::Arc;

use portcullis_core::Policy;
use portcullis_tower::LayerError;

use super::Limiter;
use crate::rules::{LiveRules, Rules, RulesLayer, UnknownRule};

impl Limiter {
    /// Gives the limiter its rules, which are usually read from a file. The limiter, and clones of it that are made from now on, then have
    /// [layers](Self::rules_layer) of them.
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
    /// let limiter = Limiter::memory().rules(Rules::load(&limits)?)?;
    /// let layer = limiter.rules_layer();
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a layer has a different policy under the name of a rule, or the store cannot hold another policy.
    pub fn rules(mut self, rules: Rules) -> Result<Self, LayerError> {
        match &self.rules {
            Some(live) => drop(live.swap(rules)?),
            None => self.rules = Some(LiveRules::new(Arc::clone(&self.registry), rules)?),
        }
        Ok(self)
    }

    /// Returns a layer, for a router or a service, that limits each request by all rules that match it, in one decision. It follows
    /// each reload of the rules.
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
    /// "#);
    /// let limiter = Limiter::memory().rules(Rules::load(&limits)?)?;
    /// let app: Router = Router::new()
    ///     .route("/search", get(|| async { "found" }))
    ///     .route("/health", get(|| async { "ok" }))
    ///     .layer(limiter.rules_layer());
    /// let response = app.clone().oneshot(Request::get("/search").body(Body::empty())?).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
    /// let response = app.oneshot(Request::get("/health").body(Body::empty())?).await?;
    /// assert!(!response.headers().contains_key("x-ratelimit-remaining"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the limiter has no [rules](Self::rules).
    #[track_caller]
    pub fn rules_layer(&self) -> RulesLayer {
        let rules = self.rules.as_ref();
        rules.expect("the limiter has no rules: give it some by `Limiter::rules`").layer()
    }

    /// Returns a layer that limits each request by one rule, whatever its `match`, for one route. It follows each reload of the
    /// rules.
    ///
    /// As long as the layer, or a service of it, exists, rules without this one are refused.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use portcullis::Limiter;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.search]
    ///     strategy = "token_bucket"
    ///     quota = "10/s burst 20"
    ///     key = "client_ip"
    /// "#);
    /// let limiter = Limiter::memory().rules(Rules::load(&limits)?)?;
    /// let app: Router = Router::new().route("/search", get(|| async { "found" }).layer(limiter.rule("search")?));
    /// assert_eq!(limiter.rule("serach").unwrap_err().rule(), "serach");
    /// # let _ = app;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the rules have none of this name, or the limiter has no rules.
    pub fn rule(&self, name: &str) -> Result<RulesLayer, UnknownRule> {
        self.rules.as_ref().ok_or_else(|| UnknownRule::without_rules(name))?.rule(name)
    }

    /// Returns the policy of a rule as it is now, for a [`check`](Self::check) in a handler.
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.mails]
    ///     strategy = "sliding_window"
    ///     quota = "3/h"
    ///     key = "global"
    /// "#);
    /// let limiter = Limiter::memory().rules(Rules::load(&limits)?)?;
    /// let mails = limiter.rule_policy("mails")?;
    /// let charge = limiter.check(&mails).by(|key| key.part("email", b"ada@example.com")).await.expect("three mails per hour");
    /// assert_eq!(charge.decision().remaining(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the rules have none of this name, or the limiter has no rules.
    pub fn rule_policy(&self, name: &str) -> Result<Policy, UnknownRule> {
        self.rules.as_ref().ok_or_else(|| UnknownRule::without_rules(name))?.policy(name)
    }

    /// Returns the rules, to reload or to watch them; `None` if the limiter has none.
    pub fn live_rules(&self) -> Option<&LiveRules> {
        self.rules.as_ref()
    }
}
