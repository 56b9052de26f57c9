//! gRPC-Web, with Tonic's translation outside of the limit, and with rejections in gRPC-Web from the limit itself.

use axum::body::Bytes;
use axum::http::{Request, Response, Version};
use portcullis_tests::HttpClient;
use tonic::Code;
use tonic::transport::Server;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_web::GrpcWebLayer;
use tower::Layer as _;

use crate::grpc::{listen, two_per_hour};

/// Starts a server with the translation outside or inside of the limit. Returns the URL of a method.
async fn serve(translation_outside: bool) -> String {
    let (incoming, url) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().accept_http1(true);
    if translation_outside {
        let server = server.layer(GrpcWebLayer::new()).layer(two_per_hour()).add_service(health);
        tokio::spawn(server.serve_with_incoming(incoming));
    } else {
        let server = server.layer(two_per_hour()).layer(GrpcWebLayer::new()).add_service(health);
        tokio::spawn(server.serve_with_incoming(incoming));
    }
    format!("{url}/grpc.health.v1.Health/Check")
}

/// Sends an empty message as a browser does over HTTP/1.1.
async fn call(url: &str, content_type: &str) -> Response<Bytes> {
    let message = if content_type.contains("-text") { "AAAAAAA=".as_bytes() } else { &[0; 5] };
    let request = Request::post(url)
        .header("content-type", content_type)
        .header("accept", content_type)
        .header("x-grpc-web", "1");
    let answer = HttpClient::http_1().send(request, message.to_vec()).await;
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_11));
    answer
}

#[tokio::test]
async fn browsers_read_the_status_in_the_headers_in_either_order() {
    for translation_outside in [true, false] {
        let url = serve(translation_outside).await;
        for content_type in ["application/grpc-web+proto", "application/grpc-web-text"] {
            let allowed = call(&url, content_type).await;
            assert!(allowed.headers().get("grpc-status").is_none(), "the status is in the body");
            assert!(allowed.headers().contains_key("x-ratelimit-remaining"));
        }
        for content_type in ["application/grpc-web+proto", "application/grpc-web-text"] {
            let refused = call(&url, content_type).await;
            let headers = refused.headers().clone();
            let answered = headers["content-type"].to_str().unwrap();
            let flavour = content_type.trim_end_matches("+proto");
            assert!(
                answered.starts_with(flavour),
                "{answered} for {content_type}, outside: {translation_outside}"
            );
            assert_eq!(headers["grpc-status"], "8");
            assert_eq!(headers["retry-after"], "3600");
            assert!(
                headers.contains_key("grpc-status-details-bin")
                    && headers.contains_key("grpc-retry-pushback-ms")
            );
            assert_eq!(refused.body(), "", "there is no message");
        }
    }
}

/// Tonic's client is a gRPC-Web client that is not a browser.
#[tokio::test]
async fn tonics_grpc_web_client_reads_rejections() {
    use hyper_util::client::legacy::Client;

    for translation_outside in [true, false] {
        let url = serve(translation_outside).await;
        let origin = url.trim_end_matches("/grpc.health.v1.Health/Check").parse().unwrap();
        let http = Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let service = tonic_web::GrpcWebClientLayer::new().layer(http);
        let mut client = HealthClient::with_origin(service, origin);
        let mut codes = Vec::new();
        for _ in 0..3 {
            let answer = client.check(HealthCheckRequest::default()).await;
            codes.push(answer.err().map(|status| (status.code(), status.message().to_owned())));
        }
        let exhausted = (Code::ResourceExhausted, "rate limit exceeded: retry after 3600 s".to_owned());
        assert_eq!(codes, [None, None, Some(exhausted)]);
    }
}
