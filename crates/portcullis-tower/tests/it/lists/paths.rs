//! Forged paths: none of them is exempt, and none gets around a list that denies or limits.

use http::{Method, Request};
use portcullis_tower::RateLimitLayer;
use portcullis_tower::matching::RequestPath;

use super::{is_untouched, limit};
use crate::probe::{probed, send};

/// Paths that some servers take for `/health`, or for a path below it or above it.
const FORGED: [&str; 27] = [
    "/health/",
    "//health",
    "/health//",
    "///health",
    "/./health",
    "/health/.",
    "/health/..",
    "/health/../admin",
    "/health/%2e%2e/admin",
    "/health/%2E./admin",
    "/health%2f..%2fadmin",
    "/health%2F%2e%2e%2Fadmin",
    "/health/..;/admin",
    "/health/..%2fadmin",
    "/health/..%5cadmin",
    "/health\\..\\admin",
    "/health;jsessionid=1",
    "/health%3bx",
    "/health%00",
    "/health%3f/admin",
    "/%68ealth",
    "/%2568ealth",
    "/health%c0%ae",
    "/health%",
    "/HEALTH",
    "/Health",
    "/x/../health",
];

const OTHERS: [&str; 7] =
    ["/healthy", "/health.json", "/health-check", "/healt", "/x/health", "/", "/users/a%20b"];

async fn is_skipped(layer: &RateLimitLayer, request: Request<String>) -> bool {
    is_untouched(&send(&probed(layer).0, request).await)
}

async fn status(layer: &RateLimitLayer, request: Request<String>) -> u16 {
    send(&probed(layer).0, request).await.status
}

fn get(uri: &str) -> Request<String> {
    Request::get(uri).body(String::new()).unwrap()
}

#[tokio::test]
async fn forged_paths_are_never_exempt() {
    for matcher in [RequestPath::exact("/health"), RequestPath::prefix("/health")] {
        let layer = limit().except(matcher);
        for path in FORGED.into_iter().chain(OTHERS) {
            assert!(!is_skipped(&layer, get(path)).await, "{path}");
        }
        for uri in
            ["/health", "/health?full=1&x=/../admin", "http://example.com/health", "http://a:80/health?x"]
        {
            assert!(is_skipped(&layer, get(uri)).await, "{uri}");
        }
    }
    assert!(is_skipped(&limit().except(RequestPath::prefix("/health")), get("/health/live")).await);
    assert!(!is_skipped(&limit().except(RequestPath::exact("/health")), get("/health/live")).await);
}

#[tokio::test]
async fn forged_paths_do_not_get_around_a_denial() {
    let layer = limit().deny(RequestPath::prefix("/health"));
    for path in FORGED {
        assert_eq!(status(&layer, get(path)).await, 403, "{path}");
    }
    for path in OTHERS {
        assert_ne!(status(&layer, get(path)).await, 403, "{path}");
    }
    for uri in ["/health", "http://example.com/health/live", "/health?x"] {
        assert_eq!(status(&layer, get(uri)).await, 403, "{uri}");
    }
}

#[tokio::test]
async fn forged_paths_do_not_get_around_a_list_of_the_limited() {
    let layer = limit().only(RequestPath::prefix("/health"));
    for path in FORGED.into_iter().chain(["/health", "/health/live"]) {
        assert!(!is_skipped(&layer, get(path)).await, "{path}");
    }
    for path in OTHERS {
        assert!(is_skipped(&layer, get(path)).await, "{path}");
    }
}

#[tokio::test]
async fn requests_without_a_path_are_limited_or_denied() {
    let authority =
        || Request::builder().method(Method::CONNECT).uri("example.com:443").body(String::new()).unwrap();
    let asterisk = || Request::options("*").body(String::new()).unwrap();
    for path in ["/", "/health"] {
        for request in [authority, asterisk] as [fn() -> Request<String>; 2] {
            assert_eq!(status(&limit().deny(RequestPath::prefix(path)), request()).await, 403);
            assert!(!is_skipped(&limit().except(RequestPath::prefix(path)), request()).await);
            assert!(!is_skipped(&limit().only(RequestPath::prefix(path)), request()).await);
        }
    }
    // The path of an absolute URI without one is that of the root.
    assert!(is_skipped(&limit().except(RequestPath::exact("/")), get("http://example.com")).await);
}
