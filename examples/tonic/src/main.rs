//! A Tonic greeter limited per peer, and a client that is rejected once, waits for the stated time and retries.
//!
//! `README.md` shows how the code of the service is generated.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use portcullis::{Charge, ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

use greeter::greeter_client::GreeterClient;
use greeter::greeter_server::{Greeter, GreeterServer};
use greeter::{HelloReply, HelloRequest};

#[allow(missing_docs, unreachable_pub, clippy::pedantic, reason = "generated code")]
mod greeter {
    include!("../generated/greeter.rs");
}

struct GreeterService;

#[tonic::async_trait]
impl Greeter for GreeterService {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        // The layer's decision about this call. A `Charge` can also charge more or refund.
        let left = request.extensions().get::<Charge>().map_or(0, |charge| charge.decision().remaining());
        let message = format!("Hello, {}! {left} left", request.into_inner().name);
        Ok(Response::new(HelloReply { message }))
    }
}

/// Two calls at once, then one per second, for each address.
fn limit() -> RateLimitLayer {
    let greetings = Policy::gcra("greetings", Quota::per_second(1).burst(2));
    Limiter::memory().layer(greetings.by(ClientIp::peer())).with_charge()
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let server = Server::builder().layer(limit()).add_service(GreeterServer::new(GreeterService));
    Ok(server.serve_with_incoming(TcpListenerStream::new(listener)).await?)
}

/// Greets. If the server states when to retry, waits for that time and tries once more.
async fn greet(client: &mut GreeterClient<tonic::transport::Channel>, name: &str) -> anyhow::Result<String> {
    let request = HelloRequest { name: name.to_owned() };
    let refusal = match client.say_hello(request.clone()).await {
        Ok(reply) => return Ok(reply.into_inner().message),
        Err(status) if status.code() == Code::ResourceExhausted => status,
        Err(status) => return Err(status.into()),
    };
    let pushback =
        refusal.metadata().get("grpc-retry-pushback-ms").context("the rejection states no time to wait")?;
    let wait = Duration::from_millis(pushback.to_str()?.parse()?);
    println!("turned away ({}), waiting {wait:?}", refusal.message());
    tokio::time::sleep(wait).await;
    Ok(client.say_hello(request).await?.into_inner().message)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener));

    let mut client = GreeterClient::connect(format!("http://{address}")).await?;
    for name in ["Ada", "Grace", "Barbara"] {
        println!("{}", greet(&mut client, name).await?);
    }
    server.abort();
    Ok(())
}
