//! In which headers a proxy sends the head of a request.

use http::HeaderName;

/// The kinds of proxies, each with a path of its own. Headers of another kind are never looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Nginx,
    Caddy,
    Traefik,
    HaProxy,
}

/// The headers of a dialect.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) method: HeaderName,
    pub(super) uri: HeaderName,
    pub(super) host: HeaderName,
    pub(super) address: HeaderName,
}

impl Dialect {
    pub(super) const ALL: [Self; 4] = [Self::Nginx, Self::Caddy, Self::Traefik, Self::HaProxy];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Nginx => "/check/nginx",
            Self::Caddy => "/check/caddy",
            Self::Traefik => "/check/traefik",
            Self::HaProxy => "/check/haproxy",
        }
    }

    pub(super) fn names(self) -> &'static Names {
        match self {
            Self::Nginx | Self::HaProxy => &ORIGINAL,
            Self::Caddy | Self::Traefik => &FORWARDED,
        }
    }

    /// Whether the header with the address is the list `X-Forwarded-For`, to which the proxy appends the address of its peer. Otherwise
    /// it has this address alone.
    pub(super) fn appends_address(self) -> bool {
        match self {
            Self::Nginx | Self::HaProxy => false,
            Self::Caddy | Self::Traefik => true,
        }
    }

    /// Whether the proxy makes 500 of every status except 2xx, 401 and 403.
    pub(super) fn knows_few_statuses(self) -> bool {
        self == Self::Nginx
    }
}

/// Written by the configurations of this project.
static ORIGINAL: Names = Names {
    method: HeaderName::from_static("x-original-method"),
    uri: HeaderName::from_static("x-original-uri"),
    host: HeaderName::from_static("x-original-host"),
    address: HeaderName::from_static("x-original-address"),
};

/// Written by proxies that have a directive for it.
///
/// Source: the manuals of Caddy (`forward_auth`) and Traefik (`ForwardAuth`).
static FORWARDED: Names = Names {
    method: HeaderName::from_static("x-forwarded-method"),
    uri: HeaderName::from_static("x-forwarded-uri"),
    host: HeaderName::from_static("x-forwarded-host"),
    address: HeaderName::from_static("x-forwarded-for"),
};
