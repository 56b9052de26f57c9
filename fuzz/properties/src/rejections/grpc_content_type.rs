//! The content types of gRPC.

use http::{Method, header};

use super::{rejection, values};

pub(super) fn check(input: &[u8]) {
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
    if let Some(flavour) = first.and_then(|line| flavour(line.as_bytes())) {
        let expected = (200, flavour.as_str());
        assert_eq!((response.status().as_u16(), content_type), expected, "{method} {lines:?}");
        assert_eq!(headers["grpc-status"], "3");
        assert!(response.body().is_empty());
    } else {
        let expected = (400, "text/plain; charset=utf-8");
        assert_eq!((response.status().as_u16(), content_type), expected, "{method} {lines:?}");
        assert!(!headers.contains_key("grpc-status"), "{method} {lines:?}");
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
