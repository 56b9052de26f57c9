//! Registers by name what only a program can do.

use std::sync::Arc;

use portcullis_tower::matching::RequestMatcher;
use portcullis_tower::{
    AsyncKeyExtractor, ClientIp, Cost, Extension, KeyExtractor, KeyWriter, QuotaLookup, Rejection,
    RejectionResponse, ResponseOutcome,
};

use super::Loader;
use crate::door::Door;

impl Loader {
    /// Registers a key by a value in the extensions of requests, such as an account that authentication found. In a file it is
    /// `key = { extension = "account" }`. It is the key of [`Extension::with`].
    ///
    /// ```
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// struct Account { id: u64 }
    ///
    /// let text = r#"
    ///     [policy.orders]
    ///     strategy = "gcra"
    ///     quota = "10/s"
    ///     key = { extension = "account" }
    /// "#;
    /// let loader = Loader::text("limits", Format::Toml, text)
    ///     .extension::<Account>("account", |account, key| key.part("account", &account.id.to_be_bytes()));
    /// let rules = Rules::load(&loader)?;
    /// assert_eq!(rules.get("orders").unwrap().key().to_string(), "extension account");
    /// # Ok::<(), portcullis::rules::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(
        self,
        name: impl Into<String>,
        write: impl Fn(&T, &mut KeyWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.key(name, Extension::with(write))
    }

    /// Registers a key that the program determines. In a file it is `key = { extension = "name" }`, as that of
    /// [`extension`](Self::extension).
    #[must_use]
    pub fn key(mut self, name: impl Into<String>, key: impl KeyExtractor) -> Self {
        self.hooks.keys.insert(name.into(), Arc::new(key));
        self
    }

    /// Registers a key that has to be looked up. In a file it is `key = { lookup = "name" }`.
    #[must_use]
    pub fn lookup(mut self, name: impl Into<String>, look_up: impl AsyncKeyExtractor) -> Self {
        self.hooks.lookups.insert(name.into(), Arc::new(look_up));
        self
    }

    /// Registers a cost. In a file it is `cost = { function = "name" }`.
    #[must_use]
    pub fn cost(mut self, name: impl Into<String>, cost: impl Cost) -> Self {
        self.hooks.costs.insert(name.into(), Arc::new(cost));
        self
    }

    /// Registers what decides whether a response is charged, such as by a header that the handler sets. In a file it is `charge_when = { function = "name" }`. It is that of
    /// [`Limit::charge_when`](portcullis_tower::Limit::charge_when).
    ///
    /// ```
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let text = r#"
    ///     [policy.login]
    ///     strategy = "sliding_window"
    ///     quota = "5/min"
    ///     key = "client_ip"
    ///     charge_when = { function = "wrong_password", status = 403 }
    /// "#;
    /// let loader = Loader::text("limits", Format::Toml, text);
    /// let findings = Rules::load(&loader).unwrap_err().to_string();
    /// assert!(findings.contains("no charge \"wrong_password\" is registered"), "{findings}");
    ///
    /// let loader = loader.charge_when("wrong_password", |outcome| outcome.headers().contains_key("x-wrong-password"));
    /// assert!(Rules::load(&loader).is_ok());
    /// ```
    #[must_use]
    pub fn charge_when(
        mut self,
        name: impl Into<String>,
        charge: impl Fn(&ResponseOutcome<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.hooks.charges.insert(name.into(), Arc::new(charge));
        self
    }

    /// Registers a look-up of the quotas of callers. In a file it is `quota_lookup = "name"`, beside the `caller_quotas` that it may
    /// return. It is that of [`Limit::quota_by_async`](portcullis_tower::Limit::quota_by_async).
    ///
    /// ```
    /// use http::request::Parts;
    /// use portcullis::Quota;
    /// use portcullis::layer::QuotaLookup;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let text = r#"
    ///     [policy.daily]
    ///     strategy = "fixed_window"
    ///     quota = "1000/d"
    ///     caller_quotas = ["1000/d", "100000/d"]
    ///     quota_lookup = "plans"
    ///     key = "client_ip"
    /// "#;
    /// let loader = Loader::text("limits", Format::Toml, text);
    /// let findings = Rules::load(&loader).unwrap_err().to_string();
    /// assert!(findings.contains("no look-up of quotas \"plans\" is registered"), "{findings}");
    ///
    /// let plans = QuotaLookup::new(|_: &Parts| async { Ok(Some(Quota::per_day(50_000))) });
    /// let rules = Rules::load(&loader.quota_lookup("plans", plans))?;
    /// assert!(rules.get("daily").is_some());
    /// # Ok::<(), portcullis::rules::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn quota_lookup(mut self, name: impl Into<String>, look_up: QuotaLookup) -> Self {
        self.hooks.quota_lookups.insert(name.into(), look_up);
        self
    }

    /// Registers what makes the response to rejected HTTP requests. In a file it is `reject_with = { function = "name" }`, of a policy
    /// or of `[layer]`. It is that of [`RateLimitLayer::reject_with`](portcullis_tower::RateLimitLayer::reject_with).
    ///
    /// If several policies match a request, the function of the one that rejects it is called. One without a function has that
    /// of `[layer]`, else that of the limiter. A request that no policy of the file
    /// rejects, such as one without a key, has the function of the first policy that matches it and names one.
    ///
    /// ```
    /// use http::Response;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let text = r#"
    ///     [policy.login]
    ///     strategy = "sliding_window"
    ///     quota = "5/min"
    ///     key = "client_ip"
    ///     reject_with = { function = "page" }
    /// "#;
    /// let loader = Loader::text("limits", Format::Toml, text);
    /// let findings = Rules::load(&loader).unwrap_err().to_string();
    /// assert!(findings.contains("no rejection \"page\" is registered"), "{findings}");
    ///
    /// let loader = loader.rejection("page", |rejection| {
    ///     let mut response = Response::new("<p>Too many attempts".into());
    ///     *response.status_mut() = rejection.status();
    ///     response
    /// });
    /// assert!(Rules::load(&loader).is_ok());
    /// ```
    #[must_use]
    pub fn rejection<R: RejectionResponse>(
        mut self,
        name: impl Into<String>,
        response: impl Fn(&Rejection<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        let response = move |rejection: &Rejection<'_>| response(rejection).into_response();
        self.hooks.rejections.insert(name.into(), Arc::new(response));
        self
    }

    /// Sets what the key `"client_ip"` means, for programs that find clients by a setting of their own. Files with the table
    /// `[client_ip]` are then refused, because there would be two settings for one thing.
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::Trust;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let policy = "[policy.p]\nstrategy = 'gcra'\nquota = '10/s'\nkey = 'client_ip'\n";
    /// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    /// let loader = |text: String| Loader::text("limits", Format::Toml, text).client_ip(clients.clone());
    /// let rules = Rules::load(&loader(policy.to_owned()))?;
    /// assert!(rules.client_ip().trusts([10, 0, 0, 1].into()));
    /// let findings = Rules::load(&loader(format!("{policy}[client_ip]\n"))).unwrap_err().to_string();
    /// assert!(findings.contains("client_ip"), "{findings}");
    /// # Ok::<(), portcullis::rules::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn client_ip(mut self, clients: ClientIp) -> Self {
        self.hooks.client_ip = Some(clients);
        self
    }

    /// Registers a matcher of requests, such as a closure. In a file it is `{ function = "name" }` in `except`, `deny` and `only`. It
    /// is that of [`RateLimitLayer::except`](portcullis_tower::RateLimitLayer::except). Clients choose everything in a request
    /// except its extensions: one that exempts by a header exempts every client that sends it.
    ///
    /// ```
    /// use http::request::Parts;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// #[derive(Clone)]
    /// struct Staff;
    ///
    /// let text = r#"
    ///     [policy.all]
    ///     strategy = "gcra"
    ///     quota = "10/s"
    ///     key = "client_ip"
    ///     except = [{ function = "staff" }, { path = "/health" }]
    /// "#;
    /// let loader = Loader::text("limits", Format::Toml, text).matcher("is_staff", |_: &Parts| false);
    /// let findings = Rules::load(&loader).unwrap_err().to_string();
    /// assert!(findings.contains("no matcher \"staff\" is registered (help: the program has registered \"is_staff\""), "{findings}");
    ///
    /// let loader = loader.matcher("staff", |parts: &Parts| parts.extensions.get::<Staff>().is_some());
    /// assert!(Rules::load(&loader).is_ok());
    /// ```
    #[must_use]
    pub fn matcher(mut self, name: impl Into<String>, matcher: impl RequestMatcher) -> Self {
        self.hooks.matchers.insert(name.into(), Arc::new(matcher));
        self
    }

    /// Accepts each name of an extension, a look-up, a cost, a charge, a rejection and a matcher, for a command that reads files
    /// without the program that registers them. A rule whose key needs one limits nothing, such a cost is 1, such a charge charges
    /// no response, rejected requests have the usual response, and such a matcher matches no request: a
    /// [note](crate::Severity::Note) says so for each.
    ///
    /// ```
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let text = r#"
    ///     [policy.orders]
    ///     strategy = "gcra"
    ///     quota = "10/s"
    ///     key = { extension = "account" }
    /// "#;
    /// let loader = Loader::text("limits", Format::Toml, text);
    /// assert!(Rules::load(&loader).is_err());
    /// let rules = Rules::load(&loader.accept_unknown_names())?;
    /// let notes = rules.warnings().to_string();
    /// assert!(notes.contains("note: policy.orders.key.extension: only the program has extension \"account\""), "{notes}");
    /// assert!(!rules.warnings().has_warnings());
    /// # Ok::<(), portcullis::rules::Diagnostics>(())
    /// ```
    #[must_use]
    pub fn accept_unknown_names(mut self) -> Self {
        self.hooks.any_name = true;
        self
    }

    /// Refuses rules that a door cannot apply, beside all other mistakes, also when they are read again. For commands, which have no
    /// program around them: a name that only a program registers is a mistake of the file, and a [note](crate::Severity::Note) says which
    /// store `[remote]` needs. A program asks [`LiveRules::require_usable_by`](crate::LiveRules::require_usable_by) in its place.
    ///
    /// ```
    /// use portcullis::rules::{Door, Format, Loader, Rules};
    ///
    /// let text = r#"
    ///     [policy.orders]
    ///     strategy = "gcra"
    ///     quota = "10/s"
    ///     key = "route"
    ///     cost = { function = "size" }
    /// "#;
    /// let findings = Rules::load(&Loader::text("limits", Format::Toml, text).for_door(Door::Proxy)).unwrap_err().to_string();
    /// assert!(findings.contains("policy.orders.key: `key` needs the route that the router of a program has matched"), "{findings}");
    /// assert!(findings.contains("policy.orders.cost.function: only a program has cost \"size\""), "{findings}");
    /// ```
    #[must_use]
    pub fn for_door(mut self, door: Door) -> Self {
        self.hooks.doors.push(door);
        self
    }
}
