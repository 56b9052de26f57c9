//! Calls and answers as bytes.

use prost::Message as _;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use super::{RateLimitRequest, RateLimitResponse};

/// Reads calls, and writes answers. A call that cannot be read is at fault, where the codec of Tonic has an error of the server: bytes that are no
/// message, and texts that are not UTF-8, as Envoy sends those of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallCodec;

impl Codec for CallCodec {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = ProstEncoder<RateLimitResponse>;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self {
        *self
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
