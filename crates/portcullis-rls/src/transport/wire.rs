//! Calls and answers as bytes.

use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Reads calls, and writes answers. A call that cannot be read is at fault, where the codec of Tonic has an error of the server: bytes that are no
/// message, and texts that are not UTF-8, as Envoy sends those of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCodec;

impl Codec for CallCodec {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for CallCodec {
    type Item = RateLimitResponse;
    type Error = Status;

    fn encode(&mut self, answer: RateLimitResponse, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(buf).map_err(|error| Status::internal(error.to_string()))
    }
}

impl Decoder for CallCodec {
    type Item = RateLimitRequest;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<RateLimitRequest>, Status> {
        let call = RateLimitRequest::decode(buf);
        call.map(Some).map_err(|error| Status::invalid_argument(format!("the call cannot be read: {error}")))
    }
}
