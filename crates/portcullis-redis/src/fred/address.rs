//! Parses a URL into the configuration of clients.

use ::fred::types::RespVersion;
use ::fred::types::config::{Config, ServerConfig};

#[cfg(feature = "tls")]
use ::fred::rustls::RootCertStore;
#[cfg(feature = "tls")]
use ::fred::rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::config::ClientConfig;
use crate::transport::ConnectError;

/// The address of the server. Not `Debug`, because the configuration holds the password.
pub(crate) struct Address {
    /// The URL without its password and query, for messages.
    pub(crate) masked_url: String,
    pub(crate) config: ClientConfig,
}

impl Address {
    /// Parses a URL. Over TLS, the certificates in `roots`, in PEM, are trusted instead of those of the system.
    pub(crate) fn parse(url: &str, roots: Option<&[u8]>) -> Result<Self, ConnectError> {
        let masked_url = masked(url);
        let fail = |reason: &str| ConnectError::Url { url: masked_url.clone(), reason: reason.to_owned() };
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(|| fail("it has no scheme"))?;
        let (tls, kind) = kind(scheme).ok_or_else(|| fail("its scheme is unknown"))?;
        let (rest, version) = protocol(rest).map_err(|reason| fail(&reason))?;
        // fred accepts any scheme, and panics on TLS in a process with two crypto providers.
        let mut config =
            Config::from_url(&format!("redis{kind}://{rest}")).map_err(|error| fail(error.details()))?;
        check(&config, &rest).map_err(fail)?;
        if tls {
            secure(&mut config, &masked_url, roots)?;
        }
        config.version = version;
        config.fail_fast = true;
        Ok(Self { masked_url, config: ClientConfig(config) })
    }
}

/// Splits a scheme into whether it uses TLS and the part after the server's name.
fn kind(scheme: &str) -> Option<(bool, &str)> {
    let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
    let (tls, kind) = rest.strip_prefix('s').map_or((false, rest), |kind| (true, kind));
    matches!(kind, "" | "-cluster" | "-sentinel").then_some((tls, kind))
}

/// Rejects what fred ignores: fred logs a user without a password in as the default user, which may have more permissions.
fn check(config: &Config, rest: &str) -> Result<(), &'static str> {
    let is_nameless = |user: &Option<String>, password: &Option<String>| user.is_some() && password.is_none();
    let of_sentinel = match &config.server {
        ServerConfig::Sentinel { username, password, .. } => is_nameless(username, password),
        _ => false,
    };
    if is_nameless(&config.username, &config.password) || of_sentinel {
        return Err("its user has no password; if it needs none, any password is accepted");
    }
    let path = rest.split('?').next().and_then(|authority| authority.split_once('/'));
    if config.server.is_clustered() && path.is_some_and(|(_, database)| !["", "0"].contains(&database)) {
        return Err("a cluster has only the database 0");
    }
    Ok(())
}

/// Removes the protocol version from the parameters, because fred does not know it.
fn protocol(rest: &str) -> Result<(String, RespVersion), String> {
    let Some((authority, query)) = rest.split_once('?') else {
        return Ok((rest.to_owned(), RespVersion::RESP2));
    };
    let (ours, others): (Vec<_>, Vec<_>) = query.split('&').partition(|pair| pair.starts_with(PROTOCOL));
    if let Some(pair) = others.iter().find(|pair| !is_known(pair)) {
        let name = pair.split('=').next().unwrap_or_default();
        // With an unescaped `?` in the password, the name may be a part of it.
        let is_shown = !query.contains('@') && name.len() <= LONGEST_SHOWN;
        let name = if is_shown { format!(" {name:?}") } else { String::new() };
        return Err(format!("its parameter{name} is unknown; known are protocol, {}", KNOWN.join(", ")));
    }
    let version = match ours[..] {
        [] | ["protocol=2"] => RespVersion::RESP2,
        ["protocol=3"] => RespVersion::RESP3,
        [other] => {
            let value: String = other[PROTOCOL.len()..].chars().take(LONGEST_SHOWN).collect();
            return Err(format!("its `protocol` is {value:?} instead of 2 or 3"));
        }
        _ => return Err("it has more than one `protocol`".to_owned()),
    };
    let separator = if others.is_empty() { "" } else { "?" };
    Ok((format!("{authority}{separator}{}", others.join("&")), version))
}

/// Whether fred knows a parameter. fred ignores unknown ones, even one that should make the connection secure.
fn is_known(pair: &str) -> bool {
    pair.split('=').next().is_some_and(|name| name.is_empty() || KNOWN.contains(&name))
}

/// Masks the password, even one with unescaped delimiters, and removes the query.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (user, authority) = match rest.rsplit_once('@') {
        Some((credentials, authority)) => (credentials.split(':').next(), authority),
        None => (None, rest),
    };
    let authority = authority.split(['?', '#']).next().unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    match user {
        Some(user) => format!("{scheme}{separator}{user}:***@{authority}"),
        None => format!("{scheme}{separator}{authority}"),
    }
}

/// Enables TLS. The provider is explicit, because rustls panics if two are compiled in and none is chosen.
#[cfg(feature = "tls")]
fn secure(config: &mut Config, _: &str, roots: Option<&[u8]>) -> Result<(), ConnectError> {
    use ::fred::rustls::{ClientConfig, crypto::ring};
    use ::fred::types::config::TlsConnector;

    let roots = roots.map_or_else(roots_of_the_system, roots_in)?;
    let client = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.tls = Some(TlsConnector::from(client).into());
    Ok(())
}

#[cfg(feature = "tls")]
fn roots_of_the_system() -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    let found = ::fred::rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(ConnectError::Tls(format!("no root certificates on this system ({:?})", found.errors)));
    }
    Ok(roots)
}

#[cfg(feature = "tls")]
fn roots_in(pem: &[u8]) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| ConnectError::RootCertificate(error.to_string()))?;
        roots.add(certificate).map_err(|error| ConnectError::RootCertificate(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(ConnectError::RootCertificate("it contains no certificate".to_owned()));
    }
    Ok(roots)
}

#[cfg(not(feature = "tls"))]
fn secure(_: &mut Config, masked_url: &str, _: Option<&[u8]>) -> Result<(), ConnectError> {
    Err(ConnectError::TlsDisabled { url: masked_url.to_owned() })
}

const PROTOCOL: &str = "protocol=";
const KNOWN: [&str; 4] = ["node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"];
/// The longest part of an unknown value in a message.
const LONGEST_SHOWN: usize = 20;

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
            assert!(Address::parse(url, None).is_ok(), "{url}");
        }
        let secure = Address::parse("rediss://localhost", None);
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
            "redis://:s3cret@a:1?protocol=4",
            "s3cret-scheme",
        ] {
            let message = Address::parse(url, None).err().expect(url).to_string();
            assert!(message.contains("rediss-cluster://"), "{message}");
            assert!(url == "s3cret-scheme" || !message.contains("s3"), "{message}");
        }
        assert_eq!(masked("redis://joe:pw@host:1/2?node=x:1"), "redis://joe:***@host:1/2");
    }

    #[test]
    fn the_protocol_is_removed_from_the_parameters() {
        use RespVersion::{RESP2, RESP3};

        for (rest, left, version) in [
            ("a:1", "a:1", RESP2),
            ("a:1?", "a:1?", RESP2),
            ("a:1/3?protocol=2", "a:1/3", RESP2),
            ("a:1?protocol=3", "a:1", RESP3),
            ("a:1?protocol=3&node=b:2&node=c:3", "a:1?node=b:2&node=c:3", RESP3),
            ("a:1?node=b:2&protocol=3", "a:1?node=b:2", RESP3),
        ] {
            assert_eq!(protocol(rest), Ok((left.to_owned(), version)));
        }
        for (url, why) in [
            ("redis://a:1?protocol=", r#"its `protocol` is "" instead of 2 or 3"#),
            ("redis-cluster://a:1?node=b:2&protocol=resp3", r#"is "resp3" instead of 2 or 3"#),
            ("redis://a:1?protocol=2&protocol=3", "more than one `protocol`"),
        ] {
            let message = Address::parse(url, None).err().expect(url).to_string();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn a_user_without_password_and_a_cluster_database_are_errors() {
        for (url, why) in [
            ("redis://joe@a:1", "no password"),
            ("redis://joe:@a:1", "no password"),
            ("redis-sentinel://a:1?sentinelServiceName=m&sentinelUsername=joe", "no password"),
            ("redis-cluster://a:1/3", "only the database 0"),
        ] {
            let message = Address::parse(url, None).err().expect(url).to_string();
            assert!(message.contains(why), "{message}");
        }
        for url in ["redis://:pw@a:1/3", "redis-cluster://a:1/0", "redis-cluster://a:1/"] {
            assert!(Address::parse(url, None).is_ok(), "{url}");
        }
    }

    #[test]
    fn unknown_parameters_are_errors_that_show_no_password() {
        for (url, why) in [
            ("redis://a:1?tls=true", r#"its parameter "tls" is unknown; known are protocol, node, "#),
            ("redis-cluster://a:1?node=b:2&nodes=c:3", r#"its parameter "nodes" is unknown"#),
            ("redis-sentinel://a:1?sentinelservicename=m", r#"its parameter "sentinelservicename" is"#),
            ("redis://joe:dra?wbridge=x@a:1", "its parameter is unknown"),
        ] {
            let message = Address::parse(url, None).err().expect(url).to_string();
            assert!(message.contains(why) && !message.contains("bridge"), "{message}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn invalid_root_certificates_are_errors() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        for pem in ["", "a certificate", broken, cut] {
            let error = Address::parse("rediss://localhost", Some(pem.as_bytes())).err().expect(pem);
            assert!(matches!(error, ConnectError::RootCertificate(_)), "{error}");
            assert!(error.to_string().contains("-----BEGIN CERTIFICATE-----"), "{error}");
        }
    }
}
