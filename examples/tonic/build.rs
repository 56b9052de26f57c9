//! Generates the code of the greeter's messages and service.

fn main() -> anyhow::Result<()> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["greeter.proto"], ["proto"])?;
    Ok(tonic_prost_build::configure().compile_fds(descriptors)?)
}
