//! The clients of the rules, as a key of what follows their reloads.

use std::borrow::Cow;
use std::fmt;

use http::request::Parts;
use portcullis_tower::{Identity, KeyError, KeyExtractor, KeyWriter};

use super::LiveRules;

/// The key by which a layer that sheds load shares its places, `ShedLayer::share_per`: the client address by the table
/// `[client_ip]` of the current rules. Where they have no such table, or say `share_places = false`, all requests are exempt.
pub struct RulesClients(LiveRules);

impl LiveRules {
    /// Returns the key by which a layer that sheds load shares its places. It follows each change of the rules.
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, r#"
    ///     [client_ip]
    ///     header = "x-forwarded-for"
    ///     trusted_proxies = ["10.0.0.0/8"]
    ///
    ///     [policy.search]
    ///     strategy = "gcra"
    ///     quota = "10/s"
    ///     key = "client_ip"
    /// "#))?;
    /// let limiter = Limiter::memory().with_rules(rules)?;
    /// // `shed` of a limiter that has its rules already does so by itself.
    /// let shed = limiter.shed(20..=1_000).share_per(limiter.rules()?.clients());
    /// # let _ = shed;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clients(&self) -> RulesClients {
        RulesClients(self.clone())
    }
}

impl KeyExtractor for RulesClients {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let version = self.0.0.current.load();
        if version.rules.shares_places() {
            version.rules.client_ip().extract(parts, key)
        } else {
            Ok(Identity::Exempt)
        }
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("client_ip")
    }
}

impl fmt::Debug for RulesClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RulesClients")
    }
}
