//! Calls and answers, on memory with a clock that the tests set.

mod bounds;
mod edges;
mod events;
mod limits;
mod modes;
mod native;
mod redis;
mod reports;
mod reservations;
mod store_failure;
mod transport;

use portcullis::rules::envoy::Descriptors;
use portcullis::testing::{self, ManualClock};
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

use super::messages::rate_limit_descriptor::{Entry, RateLimitOverride};
use super::messages::rate_limit_response::{Code, DescriptorStatus};
use super::messages::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use super::{RateLimitService, SERVICE_NAME};

/// A service with the limits of a text, in memory.
fn service(clock: &ManualClock, text: &str) -> RateLimitService {
    RateLimitService::envoy(testing::limiter(clock), descriptors(text))
}

fn descriptors(text: &str) -> Descriptors {
    Descriptors::parse(&[("test.yaml", text)]).expect("the text is valid")
}

/// A call of the domain `shop` with a descriptor for each list of entries.
fn call(descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    let descriptors = descriptors.iter().map(|entries| descriptor(entries)).collect();
    RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 0 }
}

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |&(key, value): &(&str, &str)| Entry { key: key.to_owned(), value: value.to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

fn hits(entries: &[(&str, &str)], hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

fn refund(entries: &[(&str, &str)], number: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..hits(entries, number) }
}

fn limited(entries: &[(&str, &str)], requests_per_unit: u32, unit: i32) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit });
    RateLimitDescriptor { limit, ..descriptor(entries) }
}

fn of(descriptors: impl Into<Vec<RateLimitDescriptor>>) -> RateLimitRequest {
    RateLimitRequest { domain: "shop".to_owned(), descriptors: descriptors.into(), hits_addend: 0 }
}

async fn decide(service: &RateLimitService, request: &RateLimitRequest) -> RateLimitResponse {
    service.decide(request).await.expect("the call is valid and the store answers")
}

/// Sends a call by a client of gRPC.
async fn ask_grpc(
    service: &RateLimitService,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, tonic::Status> {
    let mut client = Grpc::new(service.clone().grpc());
    client.ready().await.expect("the service is always ready");
    let (path, codec) = (format!("/{SERVICE_NAME}/ShouldRateLimit"), ProstCodec::default());
    let path = path.parse().expect("the path is valid");
    Ok(client.unary(tonic::Request::new(request), path, codec).await?.into_inner())
}

/// Whether a call is admitted, and what remains of the limit of each descriptor.
async fn outcome(service: &RateLimitService, request: &RateLimitRequest) -> (bool, Vec<u32>) {
    let response = decide(service, request).await;
    let remaining = response.statuses.iter().map(|status| status.limit_remaining).collect();
    (response.overall_code() == Code::Ok, remaining)
}

fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(DescriptorStatus::code).collect()
}
