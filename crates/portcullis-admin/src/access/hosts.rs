//! The names under which the API may be called.

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, header};
use portcullis_core::Mistakes;

/// The hosts that a request may name; `localhost`, `127.0.0.1` and `[::1]` by default. A name that is not listed may be one that an attacker
/// points to this server (DNS rebinding).
///
/// ```
/// use portcullis::admin::HostList;
///
/// let hosts = HostList::new(["limits.example.com", "10.0.0.7:8080"])?;
/// assert!(hosts.lists(&"Limits.example.com:8080".parse()?) && hosts.lists(&"10.0.0.7:8080".parse()?));
/// assert!(!hosts.lists(&"10.0.0.7:81".parse()?) && !hosts.lists(&"localhost".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostList(Vec<Authority>);

/// Why a host cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{host:?} is no host: write a name or an address, and a port if only that one is meant, as in `admin.example.com` or `[::1]:8080`"
)]
pub struct HostError {
    host: String,
}

impl HostError {
    /// The text that is no host.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl Default for HostList {
    fn default() -> Self {
        Self(["localhost", "127.0.0.1", "[::1]"].map(Authority::from_static).into())
    }
}

impl<const N: usize> TryFrom<[&str; N]> for HostList {
    type Error = Mistakes<HostError>;

    fn try_from(hosts: [&str; N]) -> Result<Self, Self::Error> {
        Self::new(hosts)
    }
}

impl HostList {
    /// These hosts and no others. One without a port stands for all ports.
    ///
    /// # Errors
    ///
    /// Each that is no host: empty, or with a scheme, a path, a wildcard or a user.
    pub fn new<H: AsRef<str>>(hosts: impl IntoIterator<Item = H>) -> Result<Self, Mistakes<HostError>> {
        Mistakes::all(hosts.into_iter().map(|host| parse(host.as_ref()))).map(Self)
    }

    /// Whether the request names one of the hosts, in `host` and, if it has one, in the authority of its target.
    pub(crate) fn includes(&self, parts: &Parts) -> bool {
        let mut named = parts.headers.get_all(header::HOST).iter().map(authority).peekable();
        let target = parts.uri.authority();
        if named.peek().is_none() && target.is_none() {
            return false;
        }
        target.is_none_or(|target| self.lists(target))
            && named.all(|host| host.is_some_and(|host| self.lists(&host)))
    }

    /// Whether a host that a request names is one of them.
    pub fn lists(&self, named: &Authority) -> bool {
        let is_same = |listed: &Authority| {
            listed.host().eq_ignore_ascii_case(named.host())
                && (listed.port().is_none() || listed.port_u16() == named.port_u16())
        };
        !named.as_str().contains('@') && self.0.iter().any(is_same)
    }
}

/// The host that a request names: `host`, or the authority of its target in HTTP/2.
pub(crate) fn named_host(parts: &Parts) -> Option<Authority> {
    match parts.headers.get(header::HOST) {
        Some(host) => authority(host),
        None => parts.uri.authority().cloned(),
    }
}

/// Whether `origin`, as in the header, is of the host that the request names. The scheme is not known behind a proxy that terminates TLS.
pub(crate) fn is_same_origin(origin: &HeaderValue, host: &Authority) -> bool {
    let Some((scheme, origin)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let Ok(origin) = origin.parse::<Authority>() else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    origin.host().eq_ignore_ascii_case(host.host())
        && port(&origin) == port(host)
        && !origin.as_str().contains('@')
}

fn authority(value: &HeaderValue) -> Option<Authority> {
    value.to_str().ok()?.parse().ok()
}

fn parse(host: &str) -> Result<Authority, HostError> {
    let error = || HostError { host: host.to_owned() };
    let authority: Authority = host.parse().map_err(|_| error())?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let name = authority.host();
    let has_port = authority.port().is_some() == (authority.as_str().len() > name.len());
    if !name.is_empty() && has_port && authority.as_str().chars().all(is_plain) {
        Ok(authority)
    } else {
        Err(error())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn includes(hosts: &HostList, uri: &str, named: &[&str]) -> bool {
        let request = named.iter().fold(Request::get(uri), |request, host| request.header("host", *host));
        hosts.includes(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn by_default_only_loopback_is_listed() {
        let hosts = HostList::default();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:65535"] {
            assert!(includes(&hosts, "/", &[host]), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "x@localhost",
            "",
            "[::1",
            "127.0.0.2",
        ] {
            assert!(!includes(&hosts, "/", &[host]), "{host}");
        }
        assert!(!includes(&hosts, "/", &[]), "no host");
        assert!(!includes(&hosts, "/", &["localhost", "evil.example"]), "two hosts");
        assert!(!includes(&hosts, "http://evil.example/", &["localhost"]), "two targets");
        assert!(includes(&hosts, "http://localhost:1/", &[]), "HTTP/2");
    }

    #[test]
    fn a_listed_port_is_the_only_one() {
        let hosts = HostList::new(["admin.example.com:8443", "10.0.0.7"]).unwrap();
        assert!(includes(&hosts, "/", &["admin.example.com:8443"]) && includes(&hosts, "/", &["10.0.0.7:9"]));
        assert!(!includes(&hosts, "/", &["admin.example.com"]) && !includes(&hosts, "/", &["localhost"]));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for host in ["", "http://a", "a/b", "*", "*.example.com", "a:port", "u@a", "a b", "a:"] {
            let mistakes = HostList::new([host]).expect_err(host);
            assert!(mistakes.iter().map(HostError::host).eq([host]));
        }
    }

    #[test]
    fn origins_are_compared_with_their_default_ports() {
        let same = |origin: &'static str, host: &'static str| {
            is_same_origin(&HeaderValue::from_static(origin), &Authority::from_static(host))
        };
        assert!(
            same("https://admin.example", "admin.example")
                && same("https://admin.example", "admin.example:443")
        );
        assert!(same("http://localhost:8080", "localhost:8080") && same("http://[::1]:80", "[::1]"));
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost:3000",
            "http://localhost",
            "ftp://localhost:8080",
        ] {
            assert!(!same(origin, "localhost:8080"), "{origin}");
        }
    }
}
