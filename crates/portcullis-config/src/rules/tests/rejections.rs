//! Several rules match a request, and not all name what makes the response to its rejection.

use bytes::Bytes;
use http::{HeaderName, Response};
use portcullis_tower::Rejection;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;

fn says(text: &'static str) -> impl Fn(&Rejection<'_>) -> Response<Bytes> {
    move |rejection| Response::builder().status(rejection.status()).body(text.into()).unwrap()
}

/// Two policies of two requests and of one, and one whose key only some requests have.
fn three(layer: &str, [two, one, keyed]: [&str; 3]) -> String {
    format!(
        "[layer]\n{layer}\n\
         [policy.two]\nstrategy = \"fixed_window\"\nquota = \"2/h\"\nkey = \"global\"\n{two}\n\
         [policy.one]\nstrategy = \"fixed_window\"\nquota = \"1/h\"\nkey = \"method\"\n{one}\n\
         [policy.keyed]\nstrategy = \"fixed_window\"\nquota = \"9/h\"\nkey = {{ extension = \"account\" }}\n{keyed}\n"
    )
}

/// Which function made the responses to the rejections by `one`, by `two`, and for the lack of a key. `None` for the usual response.
async fn made_by(text: &str, of_limiter: bool) -> [Option<String>; 3] {
    let loader = loader(text)
        .extension::<u8>("account", |account, key| key.part("account", &[*account]))
        .rejection("a", says("a"))
        .rejection("b", says("b"))
        .rejection("c", says("c"));
    let rules = Rules::load(&loader).unwrap_or_else(|findings| panic!("{text}\n{findings}"));
    let (registry, _) = registry();
    if of_limiter {
        registry.reject_with(says("limiter"));
    }
    let all = (0..rules.iter().len()).collect();
    let layer = rules.layer(&registry, &all).unwrap().unwrap();
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    let call = async |method: &str, has_key: bool| {
        let mut request = Request::builder().method(method).uri("/").body(String::new()).unwrap();
        if has_key {
            request.extensions_mut().insert(1_u8);
        }
        let response = service.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    };
    let by = |(status, text): (u16, String), expected: u16| {
        assert_eq!(status, expected, "{text}");
        Some(text).filter(|text| ["a", "b", "c", "limiter"].contains(&text.as_str()))
    };
    assert_eq!(call("GET", true).await.0, 200);
    let by_one = by(call("GET", true).await, 429);
    assert_eq!(call("POST", true).await.0, 200);
    let by_two = by(call("PUT", true).await, 429);
    [by_one, by_two, by(call("GET", false).await, 400)]
}

fn names(names: [&str; 3]) -> [Option<String>; 3] {
    names.map(|name| (!name.is_empty()).then(|| name.to_owned()))
}

const A: &str = "reject_with = { function = \"a\" }";
const B: &str = "reject_with = { function = \"b\" }";
const C: &str = "reject_with = { function = \"c\" }";

#[tokio::test]
async fn policy_that_rejects_makes_the_response() {
    for (text, expected) in [
        (three("", ["", "", ""]), ["", "", ""]),
        (three("", [A, B, C]), ["b", "a", "a"]),
        (three(C, [A, B, ""]), ["b", "a", "a"]),
        (three(C, ["", "", ""]), ["c", "c", "c"]),
        // A policy without a function has the function of the layer, or none.
        (three(C, [A, "", ""]), ["c", "a", "a"]),
        (three("", ["", B, ""]), ["b", "", "b"]),
        (three("", ["", "", C]), ["", "", "c"]),
    ] {
        assert_eq!(made_by(&text, false).await, names(expected), "{text}");
        let or_limiter = expected.map(|name| if name.is_empty() { "limiter" } else { name });
        assert_eq!(made_by(&text, true).await, names(or_limiter), "{text}");
    }
}

/// The status, the body and the headers of the responses to a `GET` beyond the limit, and to one without a key.
async fn rejected(text: &str) -> [(u16, String, http::HeaderMap); 2] {
    let loader = loader(text).extension::<u8>("account", |account, key| key.part("account", &[*account]));
    let rules = Rules::load(&loader).unwrap_or_else(|findings| panic!("{text}\n{findings}"));
    let (registry, _) = registry();
    let all = (0..rules.iter().len()).collect();
    let layer = rules.layer(&registry, &all).unwrap().unwrap();
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    let call = async |has_key: bool| {
        let mut request = Request::new(String::new());
        if has_key {
            request.extensions_mut().insert(1_u8);
        }
        let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap(), parts.headers)
    };
    let admitted = call(true).await;
    assert_eq!(admitted.0, 200);
    [call(true).await, call(false).await]
}

const ACCOUNTS: &str =
    "[policy.p]\nstrategy = \"fixed_window\"\nquota = \"1/h\"\nkey = { extension = \"account\" }\n";

#[tokio::test]
async fn status_and_body_are_those_of_the_file() {
    for (reject_with, content_type, body) in [
        (
            "{ status = 503, body = '{\"error\":\"slow down\"}' }",
            "application/json",
            "{\"error\":\"slow down\"}",
        ),
        ("{ status = 503, body = \"slow down\" }", "text/plain; charset=utf-8", "slow down"),
        ("{ status = 503, body = \"<p>\", content_type = \"text/html\" }", "text/html", "<p>"),
    ] {
        for text in [
            format!("{ACCOUNTS}reject_with = {reject_with}\n"),
            format!("[layer]\nreject_with = {reject_with}\n{ACCOUNTS}"),
        ] {
            let [limited, without_key] = rejected(&text).await;
            assert_eq!((limited.0, limited.1.as_str()), (503, body));
            assert_eq!(limited.2["content-type"], content_type);
            assert!(limited.2.contains_key("retry-after") && limited.2["x-ratelimit-remaining"] == "0");
            // What is no rejection by a limit keeps its status, which says what is wrong.
            assert_eq!(without_key.0, 400);
            assert_ne!(without_key.1, body);
        }
    }
}

#[tokio::test]
async fn names_of_the_file_replace_those_of_the_limiter() {
    let exposed = |names: &str| {
        let (registry, _) = registry();
        let own = HeaderName::from_static("acme-limit");
        registry.rename_header(&HeaderName::from_static("x-ratelimit-limit"), own).unwrap();
        let policy = "[policy.all]\nstrategy = \"gcra\"\nquota = \"9/h\"\nkey = \"global\"\n";
        let rules = Rules::load(&loader(&format!("{names}{policy}"))).unwrap();
        let all = (0..rules.iter().len()).collect();
        rules.layer(&registry, &all).unwrap().unwrap().exposed_headers()
    };
    assert_eq!(exposed("")[..2], ["acme-limit", "x-ratelimit-remaining"]);
    // Another header has the name that the limiter has given away.
    let names = "[layer]\nheader_names = { x-ratelimit-remaining = \"acme-limit\" }\n";
    assert_eq!(exposed(names)[..2], ["x-ratelimit-limit", "acme-limit"]);
}

#[tokio::test]
async fn headers_have_the_names_of_the_file() {
    let names = "[layer]\nheader_names = { x-ratelimit-limit = \"x-rate-limit-limit\", x-ratelimit-remaining = \"X-Left\" }\n";
    let [limited, _] = rejected(&format!("{names}{ACCOUNTS}")).await;
    let shown = |name: &str| limited.2.get(name).map(|value| value.to_str().unwrap());
    assert_eq!((shown("x-rate-limit-limit"), shown("x-left")), (Some("1"), Some("0")));
    assert_eq!((shown("x-ratelimit-limit"), shown("x-ratelimit-remaining")), (None, None));
    assert!(shown("x-ratelimit-reset").is_some() && shown("retry-after").is_some());
    for (names, error) in [
        ("{ retry-after = \"x-retry\" }", "layer.header_names.retry-after: retry-after shows no budget"),
        ("{ x-ratelimit-limit = \"content-type\" }", "content-type has another meaning"),
        ("{ x-ratelimit-limit = \"a b\" }", "\"a b\" is no name of a header"),
    ] {
        let found =
            Rules::load(&loader(&format!("[layer]\nheader_names = {names}\n{ACCOUNTS}"))).unwrap_err();
        assert!(found.to_string().contains(error), "{found}");
    }
}
