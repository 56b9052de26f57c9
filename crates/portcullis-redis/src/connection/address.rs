//! From a URL to the configuration of a client.

use fred::types::config::Config;

use super::error::ConnectError;

/// The schemes, for error messages.
pub(super) const SCHEMES: &str = "redis://, rediss://, redis-cluster://, rediss-cluster://, \
    redis-sentinel:// and rediss-sentinel://, or valkey in place of redis";

/// Where the server is. Not `Debug`, since the configuration holds the password.
pub(super) struct Address {
    /// The URL without password and query, for messages.
    pub(super) shown: String,
    /// What fred makes of it.
    pub(super) config: Config,
}

impl Address {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        let shown = masked(url);
        let fail = |reason: &str| ConnectError::Url { url: shown.clone(), reason: reason.to_owned() };
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(|| fail("it has no scheme"))?;
        let (tls, kind) = kind(scheme).ok_or_else(|| fail("its scheme is unknown"))?;
        // fred would take any scheme, and would panic on TLS in a process with two crypto providers.
        let mut config =
            Config::from_url(&format!("redis{kind}://{rest}")).map_err(|error| fail(error.details()))?;
        if tls {
            secure(&mut config, &shown)?;
        }
        config.fail_fast = true;
        Ok(Self { shown, config })
    }
}

/// Splits a scheme into whether it means TLS and what follows the name of the server.
fn kind(scheme: &str) -> Option<(bool, &str)> {
    let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
    let (tls, kind) = rest.strip_prefix('s').map_or((false, rest), |kind| (true, kind));
    matches!(kind, "" | "-cluster" | "-sentinel").then_some((tls, kind))
}

/// Hides the password, even one with unescaped delimiters, and the query.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (user, place) = match rest.rsplit_once('@') {
        Some((credentials, place)) => (credentials.split(':').next(), place),
        None => (None, rest),
    };
    let place = place.split(['?', '#']).next().unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    match user {
        Some(user) => format!("{scheme}{separator}{user}:***@{place}"),
        None => format!("{scheme}{separator}{place}"),
    }
}

/// Trusts the certificates of the system. The provider is named, because with two of them compiled in
/// rustls cannot choose and panics.
#[cfg(feature = "tls")]
fn secure(config: &mut Config, _: &str) -> Result<(), ConnectError> {
    use fred::rustls::{ClientConfig, RootCertStore, crypto::ring};
    use fred::types::config::TlsConnector;

    let mut roots = RootCertStore::empty();
    let found = fred::rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(ConnectError::Tls(format!("no root certificates on this system ({:?})", found.errors)));
    }
    let client = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.tls = Some(TlsConnector::from(client).into());
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn secure(_: &mut Config, shown: &str) -> Result<(), ConnectError> {
    Err(ConnectError::TlsDisabled { url: shown.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_scheme() {
        for url in [
            "redis://localhost",
            "valkey://user:pw@localhost:7000/3",
            "redis-cluster://a:1?node=b:2",
            "redis-sentinel://a:1?sentinelServiceName=main",
        ] {
            assert!(Address::parse(url).is_ok(), "{url}");
        }
        let secure = Address::parse("rediss://localhost");
        assert_eq!(secure.is_ok(), cfg!(feature = "tls"));
    }

    #[test]
    fn refuses_with_the_password_masked() {
        for url in [
            "http://joe:s3cret@host",
            "redis://joe:s3cret@host:99999",
            "redis://joe:s3/cret?x@host:nope",
            "redis-sentinel://joe:s3cret@host?sentinelPassword=s3cret",
            "joe:s3cret@host",
            "redis://:s3cret@",
            "redis-cluster://:s3cret@a:1?node=b",
            "s3cret-scheme",
        ] {
            let message = Address::parse(url).err().expect(url).to_string();
            assert!(message.contains("rediss-cluster://"), "{message}");
            assert!(url == "s3cret-scheme" || !message.contains("s3"), "{message}");
        }
        assert_eq!(masked("redis://joe:pw@host:1/2?node=x:1"), "redis://joe:***@host:1/2");
    }
}
