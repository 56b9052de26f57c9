//! Properties that must hold for any input that a client can send, or that is found in place of stored state.
//!
//! Each function takes any bytes and panics if a property is violated. The fuzzers of `fuzz/fuzz_targets` call them with
//! generated inputs; the tests of this crate with the inputs in `fuzz/corpus`, on stable Rust.

mod bytes;
mod client_ip;
mod log_lines;
mod override_record;
mod quota;
mod rejections;
mod requests;
mod rules_file;
mod sane;
mod scenario;
mod script_arguments;
mod server;
mod state;
mod stored_state;

pub use client_ip::{forwarded, x_forwarded_for};
pub use log_lines::log_lines;
pub use override_record::override_record;
pub use quota::quota;
pub use rejections::{accept, grpc_content_type};
pub use requests::requests;
pub use rules_file::rules_file;
pub use scenario::scenario;
pub use script_arguments::{script_arguments, script_arguments_repeated};
pub use state::{encoded_state, state};
pub use stored_state::stored_state;

/// All targets. A new one needs a line here and in `fuzz/Cargo.toml`, a file in `fuzz/fuzz_targets`, a dictionary in
/// `fuzz/dictionaries` and an archive of initial inputs in `fuzz/corpus`; a test reports which of them is missing.
pub const TARGETS: &[Target] = &[
    Target { name: "accept", check: accept },
    Target { name: "encoded_state", check: encoded_state },
    Target { name: "forwarded", check: forwarded },
    Target { name: "grpc_content_type", check: grpc_content_type },
    Target { name: "log_lines", check: log_lines },
    Target { name: "override_record", check: override_record },
    Target { name: "quota", check: quota },
    Target { name: "requests", check: requests },
    Target { name: "rules_file", check: rules_file },
    Target { name: "scenario", check: scenario },
    Target { name: "script_arguments", check: script_arguments },
    Target { name: "state", check: state },
    Target { name: "stored_state", check: stored_state },
    Target { name: "x_forwarded_for", check: x_forwarded_for },
];

/// A fuzzer: its name, and the function that it calls.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the fuzzer and of its archive in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if these bytes violate a property.
    pub check: fn(&[u8]),
}
