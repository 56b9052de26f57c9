//! The content types of gRPC.

use http::{Method, header};

use super::{rejection, values};

/// Checks that a rejection is gRPC exactly for a POST whose first `Content-Type` is one of gRPC, and that its own content type
/// has no byte of the request. The first byte of the input selects the method, and the others are the lines of `Content-Type`.
pub fn grpc_content_type(input: &[u8]) {
    let (first, lines) = input.split_first().unwrap_or((&0, &[]));
    let method = match METHODS.get(usize::from(*first)) {
        Some(other) => Method::from_bytes(other.as_bytes()).expect("a method"),
        None => Method::POST,
    };
    let lines = values(lines);
    let response = rejection(method.clone(), &header::CONTENT_TYPE, &lines);
    let headers = response.headers();
    let content_type = headers[header::CONTENT_TYPE].to_str().expect("a literal");
    let first = lines.first().filter(|_| method == Method::POST);
    match first.and_then(|line| flavour(line.as_bytes())) {
        Some(flavour) => {
            assert_eq!(
                (response.status().as_u16(), content_type),
                (200, flavour.as_str()),
                "{method} {lines:?}"
            );
            assert_eq!(headers["grpc-status"], "3");
            assert!(response.body().is_empty());
        }
        None => {
            assert_eq!((response.status().as_u16(), content_type), (400, "text/plain; charset=utf-8"));
            assert!(!headers.contains_key("grpc-status"), "{method} {lines:?}");
        }
    }
}

/// The part before the suffix or the parameters, if it is a content type of gRPC.
fn flavour(value: &[u8]) -> Option<String> {
    let end = value.iter().position(|byte| b"+;".contains(byte)).unwrap_or(value.len());
    let name = String::from_utf8(value[..end].to_ascii_lowercase()).ok()?;
    let web = name.strip_prefix("application/grpc")?;
    matches!(web, "" | "-web" | "-web-text").then_some(name)
}

/// A first byte beyond them is POST, so that most inputs are.
const METHODS: [&str; 8] = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "POSTS"];
