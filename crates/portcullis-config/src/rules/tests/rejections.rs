//! Several rules match a request, and not all name what makes the response to its rejection.

use bytes::Bytes;
use http::Response;
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
