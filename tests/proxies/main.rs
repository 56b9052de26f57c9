//! Behind a real nginx and a real HAProxy, configured as in the docs, a client cannot choose its address. These two and a real Caddy ask the
//! check endpoint before each request, and a real Envoy asks the rate limit service, with the configurations in examples/proxies. A real
//! Prometheus scrapes an example, with the alerts and the dashboard of the docs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod check_caddy;
mod check_forgeries;
mod check_haproxy;
mod check_nginx;
mod checks;
mod envoy;
mod forgeries;
mod oracle;
mod places;
mod process;
mod prometheus;
mod recipes;
mod snippets;
mod uploads;
mod web_pages;
