//! The description of the services for gRPC reflection.

use tonic_reflection::server::{Builder, Error, v1, v1alpha};

use crate::messages::DESCRIPTORS;

/// Makes the service for reflection (`grpc.reflection.v1`), with which tools such as grpcurl call the rate limit service and the health service
/// without their files.
///
/// The messages are complete but for comments and validation; of the files that they come from, only what they use is described.
///
/// # Errors
///
/// If the description of the services is not consistent, which a test excludes.
pub fn reflection() -> Result<v1::ServerReflectionServer<impl v1::ServerReflection>, Error> {
    Ok(described().build_v1()?.max_decoding_message_size(MAX_QUESTION_BYTES))
}

/// Like [`reflection`], for tools that know the version before alone (`grpc.reflection.v1alpha`), such as Postman and older ones.
///
/// # Errors
///
/// Like [`reflection`].
pub fn reflection_v1alpha() -> Result<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>, Error>
{
    Ok(described().build_v1alpha()?.max_decoding_message_size(MAX_QUESTION_BYTES))
}

fn described() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// The bytes of a question, which is a name. Streams of them last as long as their clients want.
const MAX_QUESTION_BYTES: usize = 16 << 10;
