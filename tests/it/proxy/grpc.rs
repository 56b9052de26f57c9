//! A real gRPC client and server, with the proxy between them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, Response};
use portcullis::{BodyRate, Limiter};
use portcullis_proxy::{ReverseProxy, Upstream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status, Streaming};
use tonic_health::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest as Message, HealthCheckRequest};
use tonic_prost::ProstCodec;
use tower::Service;

use super::TWO;
use super::start::{Proxy, exchange, limits, start_to, unlimited};
use crate::grpc::listen;

/// A service with one method that streams in both directions. It responds with the first message, and echoes messages until one is `end`.
#[derive(Clone)]
struct Chat;

struct Echo;

impl NamedService for Chat {
    const NAME: &'static str = "chat.Chat";
}

impl Service<Request<tonic::body::Body>> for Chat {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async {
            Ok(Grpc::new(ProstCodec::<Message, Message>::default()).streaming(Echo, request).await)
        })
    }
}

impl StreamingService<Message> for Echo {
    type Response = Message;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Streaming<Message>>) -> Self::Future {
        let mut messages = request.into_inner();
        Box::pin(async move {
            let first = messages.message().await?.map(Ok);
            let replies = tokio_stream::iter(first).chain(messages).map(|message| match message? {
                Message { service } if service == "end" => Err(Status::aborted("as you wish")),
                message => Ok(message),
            });
            Ok(tonic::Response::new(Box::pin(replies) as Self::ResponseStream))
        })
    }
}

/// A proxy in front of a gRPC server, and a client of it.
async fn through(limiter: Limiter, configure: impl FnOnce(ReverseProxy) -> ReverseProxy) -> (Proxy, Channel) {
    let (incoming, url) = listen().await;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::Serving).await;
    tokio::spawn(Server::builder().add_service(health).add_service(Chat).serve_with_incoming(incoming));
    let proxy = start_to(limiter, Upstream::new(&url).unwrap().http2(), configure).await;
    let channel = Endpoint::from_shared(proxy.to_string()).unwrap().connect().await.unwrap();
    (proxy, channel)
}

fn check(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn calls_pass_with_their_status() {
    let (_proxy, channel) = through(unlimited(), |proxy| proxy).await;
    let mut client = HealthClient::new(channel);
    assert_eq!(client.check(check("shop")).await.unwrap().into_inner().status, 1);
    // The status of an error is in trailers.
    assert_eq!(client.check(check("other")).await.unwrap_err().code(), Code::NotFound);
    let mut states = client.watch(check("shop")).await.unwrap().into_inner();
    assert_eq!(states.message().await.unwrap().unwrap().status, 1);
}

#[tokio::test]
async fn messages_pass_both_ways_one_by_one() {
    let (_proxy, channel) = through(unlimited(), |proxy| proxy).await;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let (sender, messages) = mpsc::channel(1);
    let messages = ReceiverStream::new(messages);
    sender.send(check("first")).await.unwrap();
    let codec = ProstCodec::<Message, Message>::default();
    let path = "/chat.Chat/Talk".parse().unwrap();
    let mut replies =
        client.streaming(tonic::Request::new(messages), path, codec).await.unwrap().into_inner();
    assert_eq!(replies.message().await.unwrap().unwrap().service, "first");
    sender.send(check("second")).await.unwrap();
    assert_eq!(replies.message().await.unwrap().unwrap().service, "second");
    sender.send(check("end")).await.unwrap();
    let status = replies.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Aborted, "as you wish"));
}

/// The first message comes after a silence for which another request is cut off.
#[tokio::test]
async fn silent_call_outlives_silent_upload() {
    let rate = BodyRate::new(1, Duration::from_secs(1)).allow_silent_grpc();
    let (proxy, channel) = through(unlimited(), |proxy| proxy.body_rate(rate)).await;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let (sender, messages) = mpsc::channel(1);
    let call = tokio::spawn(async move {
        let messages = tonic::Request::new(ReceiverStream::new(messages));
        let codec = ProstCodec::<Message, Message>::default();
        client.streaming(messages, "/chat.Chat/Talk".parse().unwrap(), codec).await
    });
    let upload = "POST /chat.Chat/Talk HTTP/1.1
Host: a
Content-Length: 1

";
    let cut_off = exchange(proxy.addr, upload).await;
    assert!(cut_off.starts_with("HTTP/1.1 408 "), "{cut_off}");
    sender.send(check("first")).await.unwrap();
    let mut replies = call.await.unwrap().unwrap().into_inner();
    assert_eq!(replies.message().await.unwrap().unwrap().service, "first");
}

#[tokio::test]
async fn the_limit_of_the_proxy_is_resource_exhausted() {
    let limiter = Limiter::memory().with_rules(limits(TWO, None)).unwrap();
    let (_proxy, channel) = through(limiter, |proxy| proxy).await;
    let mut client = HealthClient::new(channel);
    for _ in 0..2 {
        let response = client.check(check("shop")).await.unwrap();
        assert!(response.metadata().contains_key("x-ratelimit-remaining"));
    }
    let refused = client.check(check("shop")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_unavailable() {
    let reserved = portcullis_servers::RedisServer::stopped_with(&[]).unwrap();
    let upstream = Upstream::new(&format!("http://127.0.0.1:{}", reserved.port())).unwrap().http2();
    let proxy = start_to(unlimited(), upstream, |proxy| proxy).await;
    let channel = Endpoint::from_shared(proxy.to_string()).unwrap().connect().await.unwrap();
    let refused = HealthClient::new(channel).check(check("")).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "the upstream cannot be reached"));
}
