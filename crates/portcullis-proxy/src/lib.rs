//! A reverse proxy with limits in front of its upstream.
//!
//! A request is normalised, then limited by the [rules](portcullis::rules) of a limiter, then forwarded; request and response are
//! streams both ways, with their trailers. `docs/reference/limits.md` has the limits.

mod failure;
mod forward;
mod headers;
mod request;
mod reverse_proxy;
mod running;
mod upstream;

pub use reverse_proxy::{ProxyError, ReverseProxy};
pub use running::BoundProxy;
pub use upstream::{Upstream, UpstreamError};
