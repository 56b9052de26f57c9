//! Third-party clients: curl, Python's urllib3 and grpcio, a browser. `cargo xtask test --all` installs and runs them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admin_page;
mod browser;
mod curl;
mod devtools;
mod playground;
mod proxy;
mod python;
mod screenshots;
mod server;
mod uploads;
