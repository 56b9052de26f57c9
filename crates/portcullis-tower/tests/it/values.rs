//! Identities in requests: repeated, unusual, missing and too long values.

use http::request::Parts;
use http::{HeaderValue, Method};
use portcullis_core::{Key, Policy, Quota, Secret};
use portcullis_tower::{
    Bearer, Cookie, Header, Identity, KeyError, KeyExtractor, PolicyExt as _, Query, RateLimitLayer, Route,
};

use crate::probe::{grpc, probed, request, send};
use crate::support::registry;

/// The key, or `None` if the identity is missing.
fn find(extractor: &dyn KeyExtractor, parts: &Parts) -> Result<Option<Key>, KeyError> {
    let mut hasher = Secret::published().hasher();
    match extractor.extract(parts, &mut hasher.writer())? {
        Identity::Found => Ok(Some(hasher.finish()?)),
        _ => Ok(None),
    }
}

fn parts(headers: &[(&str, &str)]) -> Parts {
    request(headers).into_parts().0
}

fn at(uri: &str) -> Parts {
    let mut parts = parts(&[]);
    parts.uri = uri.parse().unwrap();
    parts
}

fn raw(name: &'static str, value: &[u8]) -> Parts {
    let mut parts = parts(&[]);
    parts.headers.insert(name, HeaderValue::from_bytes(value).unwrap());
    parts
}

#[test]
fn a_bearer_token_is_what_follows_the_scheme() {
    let token = |value: &str| find(&Bearer, &parts(&[("authorization", value)]));
    let found = token("Bearer abc").unwrap().unwrap();
    for same in ["bearer abc", "BEARER   abc", " Bearer abc", "Bearer\tabc", "\t Bearer \t abc\t "] {
        assert_eq!(token(same), Ok(Some(found)), "{same}");
    }
    for other in [
        "Bearer abd",
        "Bearer ABC",
        "Bearer abc=",
        "Bearer a-._~+/9==",
        "Bearer 5|abc",
        "Bearer =",
        "Bearer a,\"b\"",
    ] {
        assert!(token(other).unwrap().is_some_and(|key| key != found), "{other}");
    }
    for missing in [
        "",
        " ",
        "Basic abc",
        "Bearerabc",
        "Bear abc",
        "Digest Bearer abc",
        "Bearer",
        "Bearer ",
        "\tBearer\t",
        "Bearer a b",
        "Bearer a\tb",
    ] {
        assert_eq!(token(missing), Ok(None), "{missing}");
    }
    assert_eq!(find(&Bearer, &parts(&[])), Ok(None));
    assert_eq!(find(&Bearer, &raw("authorization", b"Bearer \xff")), Ok(None));
    let twice = parts(&[("authorization", "Bearer a"), ("authorization", "Basic b")]);
    assert_eq!(find(&Bearer, &twice), Ok(None));
    assert!(token(&format!("Bearer {}", "x".repeat(4_096))).unwrap().is_some());
    assert_eq!(token(&format!("Bearer {}", "x".repeat(4_097))), Ok(None));
}

#[test]
fn a_cookie_is_found_by_name_among_others_and_across_lines() {
    let sid = Cookie::named("sid");
    let cookie = |value: &str| find(&sid, &parts(&[("cookie", value)]));
    let found = cookie("sid=31d4").unwrap().unwrap();
    for same in [
        "a=1; sid=31d4; b=2",
        "sid=31d4;",
        ";; sid=31d4",
        "odd; sid=31d4; =x",
        "a=\"sid=1\"; sid=31d4",
        " sid=31d4 ",
        "\tsid\t=\t31d4\t;",
    ] {
        assert_eq!(cookie(same), Ok(Some(found)), "{same}");
    }
    assert_eq!(find(&sid, &parts(&[("cookie", "a=1"), ("cookie", "sid=31d4")])), Ok(Some(found)));
    for other in ["sid=31D4", "sid=\"31d4\"", "sid=%33%31d4", "sid=31d4=", "sid==31d4"] {
        assert!(cookie(other).unwrap().is_some_and(|key| key != found), "{other}");
    }
    for missing in ["", "sid", "sid=", "SID=31d4", "xsid=31d4", "sid2=31d4", "a=sid=31d4"] {
        assert_eq!(cookie(missing), Ok(None), "{missing}");
    }
    // A browser sends several where two paths have set one. The first counts, or the last.
    assert_eq!(cookie("sid=31d4; sid=31d4"), Ok(Some(found)));
    assert_eq!(cookie("sid=31d4; sid=other"), Ok(Some(found)));
    let last = |value: &str| find(&sid.clone().last(), &parts(&[("cookie", value)]));
    assert_eq!(last("sid=other; sid=31d4"), Ok(Some(found)));
    assert_eq!((cookie("sid=; sid=1"), last("sid=1; sid=")), (Ok(None), Ok(None)));
    assert_eq!(find(&sid.clone().last().first(), &parts(&[("cookie", "sid=31d4; sid=1")])), Ok(Some(found)));
    assert_eq!(find(&sid, &parts(&[("cookie", "sid=31d4"), ("cookie", "sid=1")])), Ok(Some(found)));
    // Another cookie that cannot be read says nothing of this one.
    assert_eq!(find(&sid, &raw("cookie", b"a=\xff; sid=31d4")), Ok(Some(found)));
    assert!(cookie(&format!("sid={}", "x".repeat(9_000))).is_err());
    assert_ne!(cookie("sid=v"), find(&Cookie::named("tid"), &parts(&[("cookie", "tid=v")])));
}

#[test]
fn a_query_parameter_is_decoded_once_and_has_to_be_text() {
    let key = Query::named("key");
    let query = |uri: &str| find(&key, &at(uri));
    let found = query("/?key=a%20b").unwrap().unwrap();
    for same in ["/?key=a+b", "/?x=1&key=a%20b&y", "/other?k%65y=a%20b", "/?&&key=a+b"] {
        assert_eq!(query(same), Ok(Some(found)), "{same}");
    }
    for other in ["/?key=a%2520b", "/?key=A+b", "/?key=a%2Bb", "/?key=a%zzb"] {
        assert!(query(other).unwrap().is_some_and(|key| key != found), "{other}");
    }
    for missing in ["/", "/?", "/?key", "/?key=", "/?KEY=a", "/key=a", "/?q=key=a"] {
        assert_eq!(query(missing), Ok(None), "{missing}");
    }
    for broken in ["/?key=a&key=a", "/?key=&key=a", "/?key&key=a"] {
        assert_eq!(
            query(broken).unwrap_err().to_string(),
            "parameter key was sent more than once",
            "{broken}"
        );
    }
    for broken in ["/?key=%ff", "/?key=a%C3", "/?key=%ef%bf%bd", "/?key=%ed%a0%80"] {
        assert_eq!(query(broken).unwrap_err().to_string(), "parameter key is not UTF-8", "{broken}");
    }
    assert!(query(&format!("/?key={}", "x".repeat(9_000))).is_err());
    assert_ne!(query("/?key=v"), find(&Query::named("k"), &at("/?k=v")));
}

#[test]
fn unknown_methods_share_one_key() {
    let method = |name: &str| {
        let mut parts = at("/");
        parts.method = Method::from_bytes(name.as_bytes()).unwrap();
        find(&Route::http_method(), &parts).unwrap().unwrap()
    };
    assert_ne!(method("GET"), method("POST"));
    // A server may take it for the same.
    assert_eq!(method("GET"), method("get"));
    assert_eq!(method("MADE-UP-1"), method("MADE-UP-2"));
}

#[test]
fn a_grpc_call_has_a_service_and_a_method() {
    let service = |path: &str| find(&Route::grpc_service(), &at(path)).unwrap();
    let method = |path: &str| find(&Route::grpc_method(), &at(path)).unwrap();
    assert_eq!(service("/a.Greeter/Hello"), service("/a.Greeter/Bye?x"));
    assert_ne!(service("/a.Greeter/Hello"), service("/b.Greeter/Hello"));
    assert_ne!(method("/a.Greeter/Hello"), method("/a.Greeter/Bye"));
    assert_ne!(method("/a.Greeter/Hello"), service("/a.Greeter/Hello"));
    // Others read the last ones as another call.
    for path in ["/", "//", "/a", "/a/", "//b", "/a/b/c", "/a/b/", "*", "/a/%62", "/a/b.", "/a/b;c", "/a/.."]
    {
        assert_eq!((service(path), method(path)), (None, None), "{path}");
    }
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn a_matched_path_is_the_route_and_never_the_uri() {
    use axum::{Router, body::Body, routing::get};
    use tower::{Layer as _, ServiceExt as _};

    let limit = || {
        RateLimitLayer::new(
            registry(),
            Policy::gcra("all", Quota::per_minute(1))
                .by(Route::matched_path())
                .on_missing(portcullis_tower::OnMissing::Shared),
        )
    };
    let handler = || get(|| async { "found" });
    let routes = || Router::new().route("/users/{id}", handler()).route("/items/{id}", handler());
    let send = async |app: &Router, path: &str| {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    for app in [routes().layer(limit()), routes().route_layer(limit())] {
        assert_eq!(send(&app, "/users/1").await, 200);
        assert_eq!(send(&app, "/users/2").await, 429, "another path, the same route");
        assert_eq!(send(&app, "/items/1").await, 200, "another route");
    }
    // In nested routers, the route is the complete path.
    let nested = Router::new().nest("/a", routes()).nest("/b", routes()).layer(limit());
    assert_eq!(send(&nested, "/a/users/1").await, 200);
    assert_eq!(send(&nested, "/b/users/1").await, 200);
    assert_eq!(send(&nested, "/a/users/2").await, 429);

    // No route has matched in the fallback and outside of the router: these requests share one budget.
    let app = routes().layer(limit());
    assert_eq!(send(&app, "/made/up").await, 404);
    assert_eq!(send(&app, "/made/up/too").await, 429);
    let around = limit().layer(routes());
    let request = |path: &str| http::Request::get(path).body(Body::empty()).unwrap();
    assert_eq!(around.clone().oneshot(request("/users/1")).await.unwrap().status(), 200);
    assert_eq!(around.oneshot(request("/items/1")).await.unwrap().status(), 429);
}

#[tokio::test]
async fn a_missing_or_malformed_credential_is_challenged() {
    let all = || Policy::gcra("all", Quota::per_minute(1));
    let api_key = Header::named("x-api-key").credential("ApiKey");
    let broken = [("authorization", "Bearer a b")];
    let twice = [("x-api-key", "a"), ("x-api-key", "b")];
    for (limit, headers, status, challenge, code) in [
        (all().by(Bearer), &[][..], 401, Some("Bearer"), "16"),
        (all().by(Bearer), &broken, 401, Some("Bearer"), "16"),
        (all().by(Header::named("x-api-key").or(Bearer)), &[], 401, Some("Bearer"), "16"),
        (all().by(Header::named("x-api-key").or(Bearer)), &twice, 400, None, "3"),
        (all().by(Bearer.and(Route::http_method())), &[], 401, Some("Bearer"), "16"),
        (all().by(api_key.clone()), &[], 401, Some("ApiKey"), "16"),
        (all().by(api_key), &twice, 401, Some("ApiKey"), "16"),
        (all().by(Header::named("x-api-key")), &[], 400, None, "3"),
        (all().by(Cookie::named("sid")), &[], 400, None, "3"),
    ] {
        let (service, probe) = probed(&RateLimitLayer::new(registry(), limit));
        let answer = send(&service, request(headers)).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (status, challenge), "{headers:?}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(send(&service, grpc(headers)).await.header("grpc-status"), Some(code), "{headers:?}");
        assert_eq!(probe.calls(), 0);
    }
}
