//! The address of an admin API.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// A URL below which the paths of the API are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    uri: Uri,
}

impl Place {
    /// The URL of a path of the API.
    pub(super) fn join(&self, path: &str) -> String {
        format!("{self}/{path}")
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// Whether the host is this machine, by its name or address.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.uri.scheme_str().unwrap_or_default(), self.uri.authority());
        let authority = authority.map_or("", http::uri::Authority::as_str);
        write!(f, "{scheme}://{authority}{}", self.uri.path().trim_end_matches('/'))
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Other users can see process arguments, so no secret may be in the URL.
        if text
            .split_once("://")
            .is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|host| host.contains('@')))
        {
            return Err("leave out the user and the password: the API has a token".to_owned());
        }
        let uri: Uri = text.parse().map_err(|_| EXPECTED.to_owned())?;
        let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        if !has_scheme || uri.host().is_none_or(str::is_empty) || uri.query().is_some() || text.contains('#')
        {
            return Err(EXPECTED.to_owned());
        }
        Ok(Self { uri })
    }
}

const EXPECTED: &str =
    "write where the admin API is, as in http://127.0.0.1:9090 or https://limits.example.com/admin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_below_the_path_of_the_url() {
        for (text, joined) in [
            ("http://127.0.0.1:9090", "http://127.0.0.1:9090/v1/top"),
            ("http://127.0.0.1:9090/", "http://127.0.0.1:9090/v1/top"),
            ("https://limits.example.com/admin/", "https://limits.example.com/admin/v1/top"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().join("v1/top"), joined);
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://LOCALHOST", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:80/a", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.7", false),
            ("http://127.0.0.1.nip.io", false),
        ] {
            assert_eq!(text.parse::<Place>().unwrap().is_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["", "127.0.0.1:9090", "ftp://a", "http://", "http://a?x", "http://a/#b", "http://u:p@a"]
        {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
        assert!("http://u:p@a".parse::<Place>().unwrap_err().contains("token"));
    }
}
