use axum::body::Body;
use axum::routing::any;
use tower::ServiceExt as _;

use super::*;

fn router() -> Router {
    Router::new().fallback(any(async || "reached"))
}

#[tokio::test]
async fn grpc_is_http_2_with_its_content_type() {
    for (version, content_type, status) in [
        (Version::HTTP_2, Some("application/grpc"), 200),
        (Version::HTTP_2, Some("application/grpc+proto"), 200),
        (Version::HTTP_2, Some("Application/gRPC; charset=utf-8"), 200),
        (Version::HTTP_2, Some("application/grp"), 415),
        (Version::HTTP_2, Some("text/plain"), 415),
        (Version::HTTP_2, None, 415),
        (Version::HTTP_11, Some("application/grpc"), 505),
        (Version::HTTP_11, Some("text/plain"), 505),
        (Version::HTTP_10, None, 505),
    ] {
        let request = Request::post("http://any.example/a.B/C").version(version);
        let request =
            content_type.into_iter().fold(request, |request, value| request.header(CONTENT_TYPE, value));
        let answer = only_grpc(router()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{version:?} {content_type:?}");
    }
}

#[tokio::test]
async fn requests_of_this_machine_name_a_known_host() {
    let hosts = HostList::new(["limits.example"]).unwrap();
    let status = async |peer: [u8; 4], path: &str, host: &[&str]| {
        let peer = ConnectInfo(SocketAddr::from((peer, 9_000)));
        let request = host.iter().fold(Request::get(path), |request, host| request.header(HOST, *host));
        let request = request.extension(peer).body(Body::empty()).unwrap();
        only_hosts(router(), &hosts).oneshot(request).await.unwrap().status().as_u16()
    };
    let here = [127, 0, 0, 1];
    for path in ["/json", "/metrics", "/healthz"] {
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "limits.example:81"]
        {
            assert_eq!(status(here, path, &[host]).await, 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "192.0.2.1",
            "x@localhost",
            "",
            "a b",
        ] {
            assert_eq!(status(here, path, &[host]).await, 421, "{host}");
        }
        assert_eq!(status(here, path, &["localhost", "evil.example"]).await, 421);
        assert_eq!(status(here, path, &[]).await, 200, "a probe over HTTP/1.0");
        assert_eq!(status([192, 0, 2, 9], path, &["limits.internal"]).await, 200, "another machine");
    }
    assert_eq!(status(here, "http://evil.example/json", &["localhost"]).await, 421);
    assert_eq!(status(here, "/check/nginx", &["shop.example"]).await, 200);
}
