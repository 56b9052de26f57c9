//! Writes `generated/greeter.rs`, the messages and the service of `proto/greeter.proto`.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let descriptors = protox::compile(["greeter.proto"], [example.join("proto")])?;
    Ok(tonic_prost_build::configure().out_dir(example.join("generated")).compile_fds(descriptors)?)
}
