//! Which requests a rule exempts, and which tier they have.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use portcullis_tower::ClientIp;
use portcullis_tower::matching::RequestMatcher;

/// The requests of a rule that are not limited by it.
#[derive(Clone, Default)]
pub(super) struct Exceptions(pub(super) Vec<Arc<dyn RequestMatcher>>);

impl Exceptions {
    /// The place of the first that lists a request. One that cannot be compared with it exempts nothing.
    pub(super) fn first(&self, parts: &Parts) -> Option<usize> {
        first(&self.0, parts)
    }
}

/// The place of the first matcher that certainly matches.
pub(super) fn first(list: &[Arc<dyn RequestMatcher>], parts: &Parts) -> Option<usize> {
    list.iter().position(|matcher| matcher.matches(parts) == Ok(true))
}

impl fmt::Debug for Exceptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exceptions").field(&self.0.len()).finish()
    }
}

/// Where the tier of a request is, with the names of the tiers.
#[derive(Clone, Debug)]
pub(super) struct TierNames {
    pub(super) header: HeaderName,
    /// The peers of which it is believed: all, if `None`.
    pub(super) proxies: Option<ClientIp>,
    pub(super) names: Vec<String>,
}

impl TierNames {
    pub(super) fn explain(&self, parts: &Parts) -> String {
        let Self { header, proxies, names } = self;
        if proxies.as_ref().is_some_and(|proxies| !proxies.trusts_peer(parts)) {
            return format!("none, because {header} is believed of trusted proxies alone: {OWN}");
        }
        let lines = parts.headers.get_all(header).iter();
        let found: Vec<_> = lines.map(|line| line.to_str().unwrap_or_default().trim()).collect();
        match found.as_slice() {
            [] => format!("none, because there is no {header}: {OWN}"),
            [one] if names.iter().any(|name| name == one) => (*one).to_owned(),
            [one] => format!("{}, which is not in `tiers`: {OWN}", one.escape_debug()),
            several => format!(
                "the smallest of {}, because {header} is there more than once",
                several.join(", ").escape_debug()
            ),
        }
    }
}

const OWN: &str = "the quota of the policy";
