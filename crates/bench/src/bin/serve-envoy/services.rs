//! The services that are measured, each in a process of its own, and their clients.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use portcullis_bench::process::{Process, free_addr};
use portcullis_rls::messages::rate_limit_descriptor::Entry;
use portcullis_rls::messages::rate_limit_response::Code;
use portcullis_rls::messages::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// What a service speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Envoy's rate limit service over gRPC.
    Envoy,
    /// Its calls as JSON over HTTP/1.1.
    EnvoyJson,
    /// Throttlecrab's own service over gRPC.
    Throttlecrab,
    /// Throttlecrab's JSON over HTTP/1.1.
    ThrottlecrabJson,
}

/// A running service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) process: Process,
}

impl Service {
    pub(crate) fn portcullis(program: &Path, protocol: Protocol) -> Result<Self> {
        let listening = free_addr()?;
        let at = listening.to_string();
        let (name, grpc, http) = match protocol {
            Protocol::EnvoyJson => ("portcullis serve over HTTP", "127.0.0.1:0", &*at),
            _ => ("portcullis serve over gRPC", &*at, "off"),
        };
        let arguments = ["serve", "limits.yaml", "--grpc", grpc, "--http", http, "--store", "memory"];
        let process = Process::start(program, listening, &[("limits.yaml", ENVOY.to_owned())], &arguments)?;
        Ok(Self { name, protocol, process })
    }

    pub(crate) fn limitador(program: &Path) -> Result<Self> {
        let (listening, http) = (free_addr()?, free_addr()?.port().to_string());
        let port = listening.port().to_string();
        let addresses =
            ["--rls-ip", "127.0.0.1", "--rls-port", &port, "--http-ip", "127.0.0.1", "--http-port", &http];
        let arguments = [&addresses[..], &["limits.yaml", "memory"]].concat();
        let process =
            Process::start(program, listening, &[("limits.yaml", LIMITADOR.to_owned())], &arguments)?;
        Ok(Self { name: "limitador's server", protocol: Protocol::Envoy, process })
    }

    pub(crate) fn throttlecrab(program: &Path, protocol: Protocol) -> Result<Self> {
        let listening = free_addr()?;
        let port = listening.port().to_string();
        let (name, arguments) = match protocol {
            Protocol::ThrottlecrabJson => {
                ("throttlecrab over HTTP", ["--http", "--http-host", "127.0.0.1", "--http-port", &port])
            }
            _ => ("throttlecrab over gRPC", ["--grpc", "--grpc-host", "127.0.0.1", "--grpc-port", &port]),
        };
        let process = Process::start(program, listening, &[], &arguments)?;
        Ok(Self { name, protocol, process })
    }
}

/// The connections to a service.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    Grpc(Arc<[Grpc<Channel>]>, Protocol),
    /// HTTP/1.1 has one call at a time on each.
    Http(Arc<[Mutex<SendRequest<Full<Bytes>>>]>, Protocol),
}

impl Client {
    /// Opens the connections for this number of concurrent calls.
    pub(crate) async fn connect(service: &Service, calls: usize) -> Result<Self> {
        let addr = service.process.addr();
        if matches!(service.protocol, Protocol::Envoy | Protocol::Throttlecrab) {
            let mut channels = Vec::new();
            for _ in 0..CONNECTIONS {
                channels.push(Grpc::new(Endpoint::new(format!("http://{addr}"))?.connect().await?));
            }
            return Ok(Self::Grpc(channels.into(), service.protocol));
        }
        let mut senders = Vec::new();
        for _ in 0..calls {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            senders.push(Mutex::new(sender));
        }
        Ok(Self::Http(senders.into(), service.protocol))
    }

    /// Checks a unit of the next user, which has to be admitted.
    pub(crate) async fn check(&self, task: usize, number: usize) -> Result<()> {
        let user = format!("user-{}", number % USERS);
        match self {
            Self::Grpc(channels, Protocol::Envoy) => {
                let entry = Entry { key: "user".to_owned(), value: user };
                let descriptor =
                    RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
                let descriptors = vec![descriptor];
                let call = RateLimitRequest { domain: "shop".to_owned(), descriptors, hits_addend: 1 };
                let answer: RateLimitResponse = unary(channels, task, call, METHOD).await?;
                ensure!(answer.overall_code() == Code::Ok, "a call was denied");
            }
            Self::Grpc(channels, _) => {
                let call = ThrottleRequest {
                    key: user,
                    max_burst: MOST,
                    count_per_period: MOST,
                    period: 3_600,
                    quantity: 1,
                };
                let answer: ThrottleResponse =
                    unary(channels, task, call, "/throttlecrab.RateLimiter/Throttle").await?;
                ensure!(answer.allowed, "a call was denied");
            }
            Self::Http(senders, protocol) => {
                let (path, call, allowed) = if *protocol == Protocol::EnvoyJson {
                    let entry = format!(r#"{{"key":"user","value":"{user}"}}"#);
                    let call = format!(
                        r#"{{"domain":"shop","descriptors":[{{"entries":[{entry}]}}],"hitsAddend":1}}"#
                    );
                    ("/json", call, &b"\"overallCode\":\"OK\""[..])
                } else {
                    let call = format!(
                        r#"{{"key":"{user}","max_burst":{MOST},"count_per_period":{MOST},"period":3600,"quantity":1}}"#
                    );
                    ("/throttle", call, &b"\"allowed\":true"[..])
                };
                let request = hyper::Request::post(path)
                    .header("host", "localhost")
                    .header("content-type", "application/json")
                    .body(Full::from(call))?;
                let mut sender = senders[task % senders.len()].lock().await;
                sender.ready().await?;
                let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
                let is_allowed = answer.windows(allowed.len()).any(|part| part == allowed);
                ensure!(is_allowed, "a call was denied: {}", String::from_utf8_lossy(&answer));
            }
        }
        Ok(())
    }
}

async fn unary<C, A>(channels: &[Grpc<Channel>], task: usize, call: C, method: &'static str) -> Result<A>
where
    C: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let mut channel = channels[task % channels.len()].clone();
    channel.ready().await.context("a connection has ended")?;
    let codec = ProstCodec::<C, A>::default();
    let answer = channel.unary(Request::new(call), PathAndQuery::from_static(method), codec).await?;
    Ok(answer.into_inner())
}

/// Source: `proto/throttlecrab.proto` of throttlecrab-server.
#[derive(Clone, PartialEq, prost::Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// Of the answer, only what is read here.
#[derive(Clone, PartialEq, prost::Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

/// A fixed window, which no user reaches.
const ENVOY: &str = "domain: shop
descriptors:
  - key: user
    rate_limit:
      unit: hour
      requests_per_unit: 4000000000
";
const LIMITADOR: &str = "- namespace: shop
  max_value: 4000000000
  seconds: 3600
  conditions: []
  variables:
    - descriptors[0]['user']
";
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// A limit that no user reaches, in the 31 bits of a call.
const MOST: i32 = 2_000_000_000;
pub(crate) const USERS: usize = 10_000;
pub(crate) const CONNECTIONS: usize = 4;
