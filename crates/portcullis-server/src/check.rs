//! Decides requests for proxies that ask over HTTP whether a request may pass: nginx, Caddy, Traefik and `HAProxy`.
//!
//! The proxy sends the head of a client's request as headers of a request of its own, which no body follows. [`CheckEndpoint`] makes the
//! client's request of it again, and lets [the rules of a limiter](portcullis::Limiter::with_rules) decide it as their layer does in front of
//! a service. The proxy is answered 200 if the request may pass, and otherwise with what the client is to get; both have the headers with
//! the figures.

mod answer;
mod client_request;
mod dialect;
mod endpoint;
mod error;
mod trusted;

#[cfg(test)]
mod tests;

pub use endpoint::CheckEndpoint;
pub use error::CheckEndpointError;
pub(crate) use trusted::TrustedPeers;
