//! The description of the service for gRPC reflection.

use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};
use tonic_reflection::server::{Builder, Error};

use crate::messages::DESCRIPTORS;

/// Makes the service for reflection (`grpc.reflection.v1`), with which tools such as grpcurl call the rate limit service and the health service
/// without their files.
///
/// The messages are complete but for comments and validation; of the files that they come from, only what they use is described.
///
/// # Errors
///
/// If the description of the services is not consistent, which a test excludes.
pub fn reflection() -> Result<ServerReflectionServer<impl ServerReflection>, Error> {
    let service = Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    Ok(service.max_decoding_message_size(MAX_QUESTION_BYTES))
}

/// The bytes of a question, which is a name. Streams of them last as long as their clients want.
const MAX_QUESTION_BYTES: usize = 16 << 10;
