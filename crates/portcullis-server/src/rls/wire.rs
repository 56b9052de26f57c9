//! Calls and answers as bytes.
//!
//! Envoy sends the headers of a request as they are, and those of a client need not be UTF-8, of which texts in messages consist. Such a
//! call must not fail, since Envoy admits calls that fail: one byte of a client would turn all of its limits off.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::UInt64Value;
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Reads calls whose texts are any bytes, and writes answers.
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
        let call = WireRequest::decode(buf).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some(call.into()))
    }
}

/// `RateLimitRequest` with bytes in place of texts.
#[derive(Clone, PartialEq, Message)]
struct WireRequest {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<WireDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WireDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<WireEntry>,
    #[prost(message, optional, tag = "2")]
    limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
struct WireEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl From<WireRequest> for RateLimitRequest {
    fn from(call: WireRequest) -> Self {
        Self {
            domain: text(call.domain),
            descriptors: call.descriptors.into_iter().map(Into::into).collect(),
            hits_addend: call.hits_addend,
        }
    }
}

impl From<WireDescriptor> for RateLimitDescriptor {
    fn from(descriptor: WireDescriptor) -> Self {
        let entry = |entry: WireEntry| Entry { key: text(entry.key), value: text(entry.value) };
        Self {
            entries: descriptor.entries.into_iter().map(entry).collect(),
            limit: descriptor.limit,
            hits_addend: descriptor.hits_addend,
            is_negative_hits: descriptor.is_negative_hits,
        }
    }
}

/// The text, with U+FFFD in place of what is not UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_they_are_sent() {
        let descriptor = RateLimitDescriptor {
            entries: vec![Entry { key: "user".to_owned(), value: "ad\u{e9}".to_owned() }],
            limit: Some(RateLimitOverride { requests_per_unit: 7, unit: 2 }),
            hits_addend: Some(UInt64Value { value: 3 }),
            is_negative_hits: true,
        };
        let descriptors = vec![descriptor, RateLimitDescriptor::default()];
        let sent = RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 9 };
        let read = WireRequest::decode(&*sent.encode_to_vec()).unwrap();
        assert_eq!(RateLimitRequest::from(read), sent);
    }

    #[test]
    fn what_is_not_utf_8_is_replaced() {
        assert_eq!(text(b"a\xffb".to_vec()), "a\u{fffd}b");
    }
}
