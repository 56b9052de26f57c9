//! Reservations, over gRPC.

mod bounds;
mod contract;
mod ends;
mod json;
mod lost;
mod parallel;
mod shared;

use std::time::Duration;

use portcullis::rules::{Format, Loader};
use tonic::Status;

use super::native::{FREE, native_by};
use super::*;
use crate::messages::{CommitRequest, CommitResponse, ReserveRequest, ReserveResponse};

const LIMITS: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
  - key: all
    rate_limit: { unit: year, requests_per_unit: 150 }
  - key: tried
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 10 }
  - key: ban
    rate_limit: { unit: year, requests_per_unit: 0 }
";

const ADA: &[(&str, &str)] = &[("user", "ada")];
const BOB: &[(&str, &str)] = &[("user", "bob")];
const ALL: &[(&str, &str)] = &[("all", "x")];

/// Sends a call to a method of the service of reservations.
async fn send<Q, A>(service: &RateLimitService, method: &str, call: Q) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = Grpc::new(service.clone().grpc_reservations());
    client.ready().await.expect("the service is always ready");
    let path = format!("/kuadrant.service.ratelimit.v1.RateLimitService/{method}");
    let (path, codec) = (path.parse().expect("the path is valid"), ProstCodec::default());
    Ok(client.unary(tonic::Request::new(call), path, codec).await?.into_inner())
}

fn reservation(descriptors: &[&[(&str, &str)]], amount: u64) -> ReserveRequest {
    let descriptors = descriptors.iter().map(|entries| descriptor(entries)).collect();
    ReserveRequest { domain: "shop".to_owned(), descriptors, amount, ttl: seconds(30) }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of the field")]
fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

/// The id of a reservation, or an empty one if it is denied.
async fn reserve(service: &RateLimitService, call: ReserveRequest) -> String {
    let response: ReserveResponse = send(service, "Reserve", call).await.expect("the call is valid");
    assert_eq!(response.code() == Code::Ok, !response.reservation_id.is_empty());
    response.reservation_id
}

async fn commit(service: &RateLimitService, id: &str, actual: u64) -> Result<bool, tonic::Code> {
    commit_in(service, "shop", id, actual).await
}

async fn commit_in(
    service: &RateLimitService,
    domain: &str,
    id: &str,
    actual: u64,
) -> Result<bool, tonic::Code> {
    let call = CommitRequest {
        domain: domain.to_owned(),
        reservation_id: id.to_owned(),
        actual_amount: actual,
        ..CommitRequest::default()
    };
    let answer: Result<CommitResponse, Status> = send(service, "Commit", call).await;
    answer.map(|answer| answer.reservation_released).map_err(|status| status.code())
}

async fn left(service: &RateLimitService, entries: &[(&str, &str)]) -> u32 {
    decide(service, &of([hits(entries, 0)])).await.statuses[0].limit_remaining
}

fn rules(text: &str) -> RateLimitService {
    let loader = Loader::text("limits.toml", Format::Toml, text);
    native_by(testing::limiter(&ManualClock::default()), &loader)
}
