//! Messages of streams: a protocol after an upgrade, as a WebSocket is, and a gRPC stream in both directions.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use hyper_util::rt::TokioIo;
use portcullis::key::Global;
use portcullis::{Charge, ClientIp, Policy, PolicyExt as _};
use portcullis_tests::per_half_century;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest as Message;
use tonic_prost::ProstCodec;
use tower::Service;

use crate::grpc::listen;
use crate::handler_checks::limiters;

const MESSAGES: Policy = Policy::fixed_window("messages", per_half_century(5));

/// Switches to a protocol of lines, which are echoed until one is rejected. Then the last line has the close code and the reason.
async fn chat(charge: Charge, request: Request) -> Response {
    tokio::spawn(async move {
        let socket = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
        let (incoming, mut outgoing) = tokio::io::split(socket);
        let mut lines = BufReader::new(incoming).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let (reply, is_over) = match charge.check(1).await {
                Ok(decision) => (format!("{line}, {} left\n", decision.remaining()), false),
                Err(limited) => (format!("{} {}\n", limited.close_code(), limited.close_reason()), true),
            };
            if outgoing.write_all(reply.as_bytes()).await.is_err() || is_over {
                break;
            }
        }
        // The connection may be gone.
        outgoing.shutdown().await.ok();
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "chat")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Opens a connection, sends the lines, and returns everything after the head of the response.
async fn talk(address: std::net::SocketAddr, lines: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (incoming, mut outgoing) = stream.split();
    let mut incoming = BufReader::new(incoming);
    let mut status = String::new();
    incoming.read_line(&mut status).await.unwrap();
    assert!(status.starts_with("HTTP/1.1 101 "), "{status}");
    let mut line = String::new();
    while incoming.read_line(&mut line).await.unwrap() > 2 {
        line.clear();
    }
    let mut replies = String::new();
    for line in lines {
        outgoing.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        incoming.read_line(&mut replies).await.unwrap();
    }
    outgoing.shutdown().await.unwrap();
    incoming.read_to_string(&mut replies).await.unwrap();
    replies
}

#[tokio::test(flavor = "multi_thread")]
async fn the_charge_of_an_upgrade_limits_the_messages_after_it() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        // The upgrade itself is charged as well.
        let app = Router::new()
            .route("/chat", get(chat))
            .layer(limiter.layer(MESSAGES.by(ClientIp::peer())).with_charge());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());

        assert_eq!(talk(address, &["a", "b"]).await, "a, 3 left\nb, 2 left\n");
        // Another connection of the same client has the same budget.
        let replies = talk(address, &["c", "d"]).await;
        let (first, last) = replies.split_once('\n').unwrap();
        assert_eq!(first, "c, 0 left");
        assert!(last.starts_with("1008 rate limit exceeded: retry after "), "{last}");
    }
}

/// A service with one method, as `tonic-build` would write it, that streams in both directions.
#[derive(Clone)]
struct Chat;

impl NamedService for Chat {
    const NAME: &'static str = "chat.Chat";
}

impl Service<axum::http::Request<tonic::body::Body>> for Chat {
    type Response = axum::http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: axum::http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async {
            let codec = ProstCodec::<Message, Message>::default();
            Ok(Grpc::new(codec).streaming(Echo, request).await)
        })
    }
}

/// Echoes each message that the charge of the call admits.
struct Echo;

impl StreamingService<Message> for Echo {
    type Response = Message;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>;
    type Future = Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Message>>) -> Self::Future {
        let charge = request.extensions().get::<Charge>().unwrap().clone();
        let replies = request.into_inner().then(move |message| {
            let charge = charge.clone();
            async move {
                let Message { service } = message?;
                let left = charge.check(1).await?.remaining();
                Ok(Message { service: format!("{service}, {left} left") })
            }
        });
        ready(Ok(tonic::Response::new(Box::pin(replies))))
    }
}

async fn stream(channel: Channel, messages: &'static [&'static str]) -> (Vec<String>, Option<Status>) {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let messages = messages.iter().map(|message| Message { service: (*message).to_owned() });
    let request = tonic::Request::new(tokio_stream::iter(messages));
    let path = "/chat.Chat/Talk".parse().unwrap();
    let codec = ProstCodec::<Message, Message>::default();
    let mut replies = client.streaming(request, path, codec).await.unwrap().into_inner();
    let mut seen = Vec::new();
    loop {
        match replies.message().await {
            Ok(Some(reply)) => seen.push(reply.service),
            Ok(None) => return (seen, None),
            Err(status) => return (seen, Some(status)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_stream_ends_with_the_status_of_its_rejection() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let (incoming, url) = listen().await;
        let server =
            Server::builder().layer(limiter.layer(MESSAGES.by(Global)).with_charge()).add_service(Chat);
        let server = tokio::spawn(server.serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let (replies, end) = stream(channel.clone(), &["a", "b"]).await;
        assert_eq!((replies, end.is_none()), (vec!["a, 3 left".to_owned(), "b, 2 left".to_owned()], true));
        let (replies, end) = stream(channel, &["c", "d", "e"]).await;
        assert_eq!(replies, ["c, 0 left"]);
        let status = end.unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.metadata().contains_key("grpc-retry-pushback-ms") && !status.details().is_empty());
        server.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_two_streams_share_one_limit() {
    let (_redis, limiters) = limiters().await;
    let messages = Policy::fixed_window("batched", per_half_century(1_000));
    for limiter in limiters {
        let mut used = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let (limiter, messages) = (limiter.clone(), messages.clone());
            used.spawn(async move {
                let charge =
                    limiter.check(&messages).by(|key| key.part("user", b"ada")).cost(0).await.unwrap();
                let mut meter = charge.meter(64);
                let mut used = 0;
                for _ in 0..800 {
                    used += u64::from(meter.check(1).await.is_ok());
                }
                meter.finish().await.unwrap();
                used
            });
        }
        let used: u64 = used.join_all().await.into_iter().sum();
        let charge = limiter.check(&messages).by(|key| key.part("user", b"ada")).cost(0).await.unwrap();
        assert_eq!((used <= 1_000, charge.decision().remaining()), (true, 1_000 - used), "{used}");
        // What the other stream had in its batch at the end, at most.
        assert!(used > 1_000 - 64, "{used}");
    }
}
