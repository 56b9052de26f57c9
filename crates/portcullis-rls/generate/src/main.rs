//! Writes `generated/`, the messages, the service and the descriptors of `proto/`.

use std::{fs, path::Path};

use prost::Message as _;

fn main() -> anyhow::Result<()> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let generated = package.join("generated");
    let files = protox::compile(["kuadrant/service/ratelimit/v1/ratelimit.proto"], [package.join("proto")])?;
    let mut descriptors = files.clone();
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(generated.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .codec_path("crate::messages::codec::CallCodec")
        .include_file("mod.rs")
        .out_dir(generated)
        .compile_fds(files)?;
    Ok(())
}
