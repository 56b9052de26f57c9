//! Values of headers and of parameters.

use std::net::SocketAddr;

use http::{HeaderValue, Request};

use super::*;
use crate::Trust;

const UNDECIDED: Result<bool, Undecided> = Err(Undecided::Ambiguous);

/// Whether present, absent, equal to `pro` and beginning with `pro`.
fn all(value: &RequestValue, parts: &Parts) -> [Result<bool, Undecided>; 4] {
    let value = || value.clone();
    let matchers = [value(), value().absent(), value().equals(["pro"]), value().begins_with(["pro"])];
    matchers.map(|matcher| matcher.matches(parts))
}

fn parts(uri: &str, lines: &[(&str, &[u8])]) -> Parts {
    let (mut parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
    for (name, value) in lines {
        parts.headers.append(header_name(name), HeaderValue::from_bytes(value).unwrap());
    }
    parts
}

#[test]
fn header_is_present_equal_or_begins() {
    let plan = RequestValue::header("X-Plan");
    let long = vec![b'a'; RequestValue::MAX_BYTES];
    for (lines, expected) in [
        (&[][..], [Ok(false), Ok(true), Ok(false), Ok(false)]),
        (&[("x-other", &b"pro"[..])], [Ok(false), Ok(true), Ok(false), Ok(false)]),
        (&[("x-plan", b" pro\t")], [Ok(true), Ok(false), Ok(true), Ok(true)]),
        (&[("x-plan", b"pro/7")], [Ok(true), Ok(false), Ok(false), Ok(true)]),
        (&[("x-plan", &long)], [Ok(true), Ok(false), Ok(false), Ok(false)]),
        (&[("x-plan", b"Pro")], [Ok(true), Ok(false), UNDECIDED, UNDECIDED]),
    ] {
        assert_eq!(all(&plan, &parts("/", lines)), expected, "{lines:?}");
    }
}

#[test]
fn irregular_value_is_undecided() {
    let plan = RequestValue::header("x-plan");
    let long = vec![b'a'; RequestValue::MAX_BYTES + 1];
    for lines in [
        &[("x-plan", &b""[..])][..],
        &[("x-plan", b" \t")],
        &[("x-plan", b"\xff")],
        &[("x-plan", &long)],
        &[("x-plan", b"pro"), ("x-plan", b"pro")],
        &[("x-plan", b"pro"), ("x_plan", b"free")],
        &[("x_plan", b"pro")],
    ] {
        assert_eq!(all(&plan, &parts("/", lines)), [const { UNDECIDED }; 4], "{lines:?}");
    }
    let plan = RequestValue::query("plan");
    let long = format!("/?plan={}", "a".repeat(RequestValue::MAX_BYTES + 1));
    for uri in [
        "/?plan",
        "/?plan=",
        "/?plan=%ff",
        "/?plan=pro&plan=pro",
        "/?Plan=pro",
        "/?a=1;plan=pro",
        "/?plan=pro;b",
        &long,
    ] {
        assert_eq!(all(&plan, &parts(uri, &[])), [const { UNDECIDED }; 4], "{uri}");
    }
}

#[test]
fn parameter_is_decoded() {
    let plan = RequestValue::query("plan");
    for (uri, expected) in [
        ("/", [Ok(false), Ok(true), Ok(false), Ok(false)]),
        ("/?a=1;b=2", [Ok(false), Ok(true), Ok(false), Ok(false)]),
        ("/?a=1&plan=%70ro", [Ok(true), Ok(false), Ok(true), Ok(true)]),
        ("/?%70lan=pro+7", [Ok(true), Ok(false), Ok(false), Ok(true)]),
    ] {
        assert_eq!(all(&plan, &parts(uri, &[])), expected, "{uri}");
    }
}

#[test]
fn trusted_header_of_another_peer_is_absent() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let plan = RequestValue::header("x-plan").trusted(&clients);
    let mut parts = parts("/", &[("x-plan", b"pro"), ("x-plan", b"")]);
    let absent = [Ok(false), Ok(true), Ok(false), Ok(false)];
    assert_eq!(all(&plan, &parts), absent, "no peer");
    parts.extensions.insert(SocketAddr::from(([192, 0, 2, 1], 1)));
    assert_eq!(all(&plan, &parts), absent);
    parts.extensions.insert(SocketAddr::from(([10, 0, 0, 1], 1)));
    assert_eq!(all(&plan, &parts), [const { UNDECIDED }; 4]);
    parts.headers.insert("x-plan", HeaderValue::from_static("pro"));
    assert_eq!(all(&plan, &parts), [Ok(true), Ok(false), Ok(true), Ok(true)]);
}

#[test]
fn combinations_are_chosen_by_client_if_a_part_is() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let written = || RequestValue::header("x-plan");
    let trusted = || written().trusted(&clients);
    assert!(written().is_chosen_by_client() && !trusted().is_chosen_by_client());
    assert!(written().not().is_chosen_by_client() && trusted().and(written()).is_chosen_by_client());
    assert!([trusted(), written()].is_chosen_by_client() && !vec![trusted()].is_chosen_by_client());
    let shared: std::sync::Arc<dyn RequestMatcher> = std::sync::Arc::new(written());
    assert!(shared.is_chosen_by_client() && !http::Method::GET.is_chosen_by_client());
}

#[test]
#[should_panic(expected = "names no networks of proxies")]
fn header_trusted_by_hops_panics() {
    let _ = RequestValue::header("x-plan").trusted(&ClientIp::behind(Trust::hops(1)).x_forwarded_for());
}

#[test]
#[should_panic(expected = "written by the client")]
fn trusted_parameter_panics() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let _ = RequestValue::query("plan").trusted(&clients);
}
