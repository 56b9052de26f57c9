//! gRPC and JSON.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::messages::DESCRIPTORS;
use crate::{PROTO_FILES, SERVICE_NAME, reflection, reflection_v1alpha};

const LIMITS: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 2, name: users }
";

async fn post(service: &RateLimitService, body: &str) -> (u16, String) {
    let request = Request::post("/json")
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let response = service.json().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn method() -> String {
    format!("/{SERVICE_NAME}/ShouldRateLimit")
}

#[tokio::test]
async fn json_has_the_form_of_protobuf() {
    let service = service(&ManualClock::default(), LIMITS);
    let request = r#"{"domain": "shop", "hitsAddend": "2", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}"#;
    let (status, body) = post(&service, request).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["overallCode"]), (200, &json!("OK")));
    assert_eq!(
        body["statuses"][0]["currentLimit"],
        json!({ "requestsPerUnit": 2, "unit": "DAY", "name": "users" })
    );
    assert!(body["statuses"][0]["durationUntilReset"].as_str().unwrap().ends_with('s'));
    let (status, body) = post(&service, &request.replace("hitsAddend", "hits_addend")).await;
    assert_eq!(status, 429);
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["statuses"][0]["code"], "OVER_LIMIT");
    let limited = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}],
        "hitsAddend": 0, "limit": {"requestsPerUnit": 7, "unit": "HOUR"}}]}"#;
    let (status, body) = post(&service, limited).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["statuses"][0]["limitRemaining"]), (200, &json!(7)));
}

#[tokio::test]
async fn json_that_is_no_call_is_answered_with_400() {
    let service = service(&ManualClock::default(), LIMITS);
    for body in [
        "",
        "[]",
        "{}",
        r#"{"domain": "shop"}"#,
        r#"{"dommain": "shop"}"#,
        r#"{"domain": "shop", "hitsAddend": -1}"#,
        r#"{"domain": "shop", "hitsAddend": 4294967296, "descriptors": [{}]}"#,
        r#"{"domain": "shop", "hitsAddend": 1, "hits_addend": 1, "descriptors": [{}]}"#,
    ] {
        assert_eq!(post(&service, body).await.0, 400, "{body}");
    }
    let long = format!(r#"{{"domain": "{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(post(&service, &long).await.0, 413);
}

#[test]
fn reflection_describes_the_service_consistently() {
    assert!(reflection().is_ok() && reflection_v1alpha().is_ok());
    let FileDescriptorSet { file } = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let names: Vec<_> = file.iter().filter_map(|file| file.name.clone()).collect();
    for file in &file {
        assert!(file.dependency.iter().all(|import| names.contains(import)), "{:?}", file.name);
    }
    let own = names.iter().filter(|name| !name.starts_with("google/"));
    assert!(own.map(String::as_str).eq(in_order_of(&names)), "the files are those of the descriptors");
    let methods: Vec<_> =
        file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method).collect();
    let names: Vec<_> = methods.iter().map(|method| method.name()).collect();
    assert_eq!(names, ["ShouldRateLimit", "CheckRateLimit", "Report", "Reserve", "Commit"]);
}

#[tokio::test]
async fn reflection_lists_services_in_both_versions() {
    macro_rules! list {
        ($service:expr, $version:ident) => {{
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, ServerReflectionResponse, server_reflection_request::MessageRequest,
                server_reflection_response::MessageResponse,
            };
            let question = ServerReflectionRequest {
                message_request: Some(MessageRequest::ListServices(String::new())),
                ..ServerReflectionRequest::default()
            };
            let questions = tonic::Request::new(tonic::codegen::tokio_stream::once(question));
            let path =
                concat!("/grpc.reflection.", stringify!($version), ".ServerReflection/ServerReflectionInfo");
            let codec = ProstCodec::<_, ServerReflectionResponse>::default();
            let mut client = Grpc::new($service);
            client.ready().await.unwrap();
            let answers = client.streaming(questions, path.parse().unwrap(), codec).await.unwrap();
            match answers.into_inner().message().await.unwrap().unwrap().message_response {
                Some(MessageResponse::ListServicesResponse(list)) => {
                    list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        }};
    }
    for names in [list!(reflection().unwrap(), v1), list!(reflection_v1alpha().unwrap(), v1alpha)] {
        assert!(names.iter().any(|name| name == SERVICE_NAME), "{names:?}");
        assert!(names.iter().any(|name| name == "grpc.health.v1.Health"), "{names:?}");
    }
}

/// The paths of the files, in the order in which the descriptors have them.
fn in_order_of(names: &[String]) -> impl Iterator<Item = &'static str> {
    let mut paths = PROTO_FILES.map(|(path, _)| path);
    paths.sort_by_key(|path| names.iter().position(|name| name == path));
    paths.into_iter()
}

#[tokio::test]
async fn grpc_answers_and_rejects_more_than_sixteen_descriptors() {
    let service = service(&ManualClock::default(), LIMITS);
    let ask = |call| ask_grpc(&service, call);
    let answer = ask(call(&[&[("user", "ada")]])).await.unwrap();
    assert_eq!((answer.overall_code(), answer.statuses[0].limit_remaining), (Code::Ok, 1));
    let many = of(vec![descriptor(&[("user", "ada")]); 17]);
    let status = ask(many).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    let long = call(&[&[("user", &"x".repeat(2 << 20))]]);
    assert_eq!(ask(long).await.unwrap_err().code(), tonic::Code::OutOfRange);
}

#[tokio::test]
async fn value_without_utf_8_is_invalid_argument() {
    // `domain: shop, descriptors: [{ entries: [{ key: user, value: FF }] }]`, as Envoy sends it.
    let entry = b"\x0a\x04user\x12\x01\xff";
    let call = [b"\x0a\x04shop\x12\x0b\x0a\x09".as_slice(), entry].concat();
    let framed = [&[0, 0, 0, 0, u8::try_from(call.len()).unwrap()], &*call].concat();
    let request =
        Request::post(method()).header("content-type", "application/grpc").body(Body::from(framed)).unwrap();
    let response = service(&ManualClock::default(), LIMITS).grpc().oneshot(request).await.unwrap();
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains("Entry.value") && status.message().contains("UTF-8"), "{status}");
}

#[tokio::test]
async fn request_of_web_page_charges_nothing() {
    let service = service(&ManualClock::default(), LIMITS);
    let call = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}"#;
    let ask = async |headers: &[(&str, &str)]| {
        let request = headers
            .iter()
            .fold(Request::post("/json"), |request, (name, value)| request.header(*name, *value));
        let response = service.json().oneshot(request.body(Body::from(call)).unwrap()).await.unwrap();
        response.status().as_u16()
    };
    let json = ("content-type", "application/json");
    for (headers, status) in [
        (&[][..], 415),
        // What a page of another site sends without asking.
        (&[("content-type", "text/plain")], 415),
        (&[("content-type", "text/plain; application/json")], 415),
        (&[("content-type", "application/x-www-form-urlencoded")], 415),
        (&[json, ("origin", "https://a.example")], 403),
        (&[json, ("origin", "null")], 403),
        (&[json, ("sec-fetch-site", "cross-site")], 403),
        (&[json, ("sec-fetch-site", "same-site")], 403),
        (&[json, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")], 403),
        // Two are left, so nothing was charged.
        (&[json], 200),
        (&[("content-type", "Application/JSON; charset=utf-8"), ("sec-fetch-site", "same-origin")], 200),
        (&[json, ("sec-fetch-site", "none")], 429),
    ] {
        assert_eq!(ask(headers).await, status, "{headers:?}");
    }
}
