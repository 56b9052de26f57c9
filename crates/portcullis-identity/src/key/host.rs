//! Keys by host.

use std::borrow::Cow;

use http::header::HOST;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart};
use crate::host::{canonical, hosts};

/// The host that a request names: in its URI, as over HTTP/2, or in the header `Host`.
///
/// In lower case, without its port, user information and the dot of the root; an IPv6 address in its usual form. So `Api.Example.com:443` is
/// `api.example.com`. Without a host the identity is missing. Several different hosts, and one that is no name, are an error of the client.
///
/// The client writes its host, and gets a new budget with each new one, unless a router or a proxy in front serves known hosts alone: add a
/// policy by [`ClientIp`](super::ClientIp). All clients share the budget of a host.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Host, Identity, KeyError, KeyExtractor};
///
/// let key_of = |request: http::request::Builder| -> Result<_, KeyError> {
///     let (parts, ()) = request.body(()).unwrap().into_parts();
///     let mut hasher = Secret::published().hasher();
///     assert_eq!(Host.extract(&parts, &mut hasher.writer())?, Identity::Found);
///     Ok(hasher.finish()?)
/// };
/// let one = key_of(Request::get("/").header("host", "API.example.com:8080"))?;
/// assert_eq!(key_of(Request::get("https://api.example.com/"))?, one);
/// assert_ne!(key_of(Request::get("https://www.example.com/"))?, one);
/// assert!(key_of(Request::get("https://api.example.com/").header("host", "www.example.com")).is_err());
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl KeyExtractor for Host {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let malformed = || KeyError::client("the host is no name");
        if parts.headers.get_all(HOST).iter().any(|line| line.to_str().is_err()) {
            return Err(malformed());
        }
        let mut found: Option<Cow<'_, str>> = None;
        // A request for a target without an authority has an empty one.
        for name in hosts(parts).filter(|name| !name.is_empty()) {
            let name = canonical(name).ok_or_else(malformed)?;
            if found.as_ref().is_some_and(|found| *found != name) {
                return Err(KeyError::client("the request has several hosts"));
            }
            found = Some(name);
        }
        let Some(host) = found else { return Ok(Identity::Missing) };
        key.shared_part("host", host.as_bytes());
        Ok(Identity::Found)
    }

    fn is_chosen_by_client(&self) -> bool {
        true
    }

    /// `true`: it names what is requested, and not who requests it.
    fn is_shared(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("host")
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(*self)
    }
}

impl NamedPart for Host {
    fn name(&self) -> Cow<'_, str> {
        "host".into()
    }

    fn example(&self) -> Cow<'_, str> {
        "api.example.com".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["host"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        let host = str::from_utf8(value).ok().and_then(canonical);
        let host = host.ok_or_else(|| KeyError::client("is no name of a host, which has no port here"))?;
        key.shared_part("host", host.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use portcullis_core::Secret;

    use super::*;

    fn key(uri: &str, lines: &[&[u8]]) -> Result<Option<portcullis_core::Key>, KeyError> {
        let (mut parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
        for line in lines {
            parts.headers.append(HOST, http::HeaderValue::from_bytes(line).unwrap());
        }
        let mut hasher = Secret::published().hasher();
        let identity = Host.extract(&parts, &mut hasher.writer())?;
        Ok((identity == Identity::Found).then(|| hasher.finish().unwrap()))
    }

    #[test]
    fn spellings_of_host_have_one_key() {
        let expected = key("https://api.example.com/", &[]).unwrap();
        assert!(expected.is_some());
        for (uri, line) in [
            ("https://API.example.com:443/", None),
            ("/", Some("api.example.com")),
            ("/", Some("Api.Example.COM.:8080")),
            ("https://api.example.com./", Some("api.example.com:1")),
        ] {
            let lines: Vec<_> = line.iter().map(|line: &&str| line.as_bytes()).collect();
            assert_eq!(key(uri, &lines).unwrap(), expected, "{uri} {line:?}");
        }
        let address = key("/", &[b"[2001:DB8::1]:80"]).unwrap();
        assert_eq!(key("/", &[b"[2001:db8:0:0::1]"]).unwrap(), address);
        assert_ne!(address, expected);
        assert_eq!(key("/", &[]).unwrap(), None);
        assert_eq!(key("/", &[b""]).unwrap(), None);
    }

    #[test]
    fn odd_host_is_an_error() {
        let several: &[&[u8]] = &[b"a.example", b"b.example"];
        for lines in [
            several,
            &[b"a..example"],
            &[b"a.example.."],
            &[b"%61.example"],
            &[b"\xff"],
            &[b"[1]"],
            &[b"a b"],
        ] {
            assert!(key("/", lines).is_err_and(|error| error.is_client_fault()), "{lines:?}");
        }
        assert!(key("https://a.example/", &[b"b.example"]).is_err());
    }
}
