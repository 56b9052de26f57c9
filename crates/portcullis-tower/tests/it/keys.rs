//! The keys that are charged.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, KeyWriteError, Policy, Quota, Secret};
use portcullis_tower::{
    ClientIp, Extension, Global, Header, Identity, KeyError, KeyExtractor, KeyWriter, OnMissing,
    PolicyExt as _, RateLimitLayer,
};

use crate::probe::{grpc, probed, request, send};
use crate::support::registry;

/// The result of an extractor, and the key if it finds one.
fn find(extractor: &dyn KeyExtractor, parts: &Parts) -> Result<(Identity, Option<Key>), KeyError> {
    let mut hasher = Secret::published().hasher();
    let identity = extractor.extract(parts, &mut hasher.writer())?;
    let key = if identity == Identity::Found { Some(hasher.finish()?) } else { None };
    Ok((identity, key))
}

fn key(extractor: &dyn KeyExtractor, parts: &Parts) -> Key {
    find(extractor, parts).unwrap().1.unwrap()
}

fn parts(headers: &[(&str, &str)]) -> Parts {
    request(headers).into_parts().0
}

/// An extractor that writes a part and returns `answer`.
fn returns(answer: Result<Identity, KeyError>) -> impl KeyExtractor {
    move |_: &Parts, key: &mut KeyWriter<'_>| {
        key.part("fixed", b"something");
        answer.clone()
    }
}

const A: &str = "x-a";
const B: &str = "x-b";

#[test]
fn one_address_has_one_key() {
    let key_of = |address: &str| {
        let mut parts = parts(&[]);
        parts.extensions.insert(address.parse::<SocketAddr>().unwrap());
        key(&ClientIp::peer(), &parts)
    };
    for (left, right, same) in [
        ("192.0.2.1:1", "192.0.2.1:2", true),
        ("192.0.2.1:1", "192.0.2.2:1", false),
        ("192.0.2.1:1", "[::ffff:192.0.2.1]:1", true),
        ("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", false),
        // Only ::ffff:0:0/96 is folded: neither the IPv4-compatible nor the translated form.
        ("192.0.2.1:1", "[::192.0.2.1]:1", false),
        ("192.0.2.1:1", "[64:ff9b::192.0.2.1]:1", false),
        ("192.0.2.1:1", "[::ffff:0:192.0.2.1]:1", false),
        ("[2001:db8::1]:1", "[2001:db8::ffff:ffff:ffff:ffff]:1", true),
        ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false),
        ("[fe80::1%1]:1", "[fe80::1%2]:1", true),
        // Octets that spell the same bytes.
        ("32.1.13.184:1", "[2001:db8::]:1", false),
        ("0.0.0.0:1", "[::]:1", false),
    ] {
        assert_eq!(key_of(left) == key_of(right), same, "{left} and {right}");
    }
}

#[test]
fn a_header_once_is_an_identity() {
    let header = Header::named("X-Api-Key");
    let own = key(&header, &parts(&[("x-api-key", "k")]));
    assert_ne!(own, key(&header, &parts(&[("x-api-key", "K")])));
    assert_ne!(own, key(&Header::named("x-other"), &parts(&[("x-other", "k")])));
    assert_eq!(find(&header, &parts(&[])), Ok((Identity::Missing, None)));
    for blank in ["", " ", "\t \t"] {
        assert_eq!(find(&header, &parts(&[("x-api-key", blank)])), Ok((Identity::Missing, None)));
    }
    for same in ["k ", " k", "\tk", " \t k \t "] {
        assert_eq!(own, key(&header, &parts(&[("x-api-key", same)])), "{same:?}");
    }
    assert_ne!(key(&header, &parts(&[("x-api-key", "a b")])), key(&header, &parts(&[("x-api-key", "ab")])));

    let mut odd = parts(&[]);
    odd.headers.insert("x-api-key", HeaderValue::from_bytes(b"\xff\x80 \t").unwrap());
    assert_eq!(find(&header, &odd).unwrap().0, Identity::Found);
}

#[test]
fn a_repeated_header_is_an_error_without_the_value() {
    let header = Header::named("x-api-key");
    for values in [["secret", "secret"], ["", "secret"], ["secret", ""]] {
        let error = find(&header, &parts(&values.map(|value| ("x-api-key", value)))).unwrap_err();
        assert!(error.is_client_fault());
        assert_eq!(error.to_string(), "header x-api-key was sent more than once");
        assert!(!format!("{error:?}").contains("secret"));
    }
}

#[tokio::test]
async fn an_identity_of_a_mebibyte_is_a_bad_request() {
    let (service, probe) = probed(&RateLimitLayer::new(
        registry(),
        Policy::gcra("all", Quota::per_second(1)).by(Header::named(A)),
    ));
    let long = "x".repeat(1 << 20);
    let answer = send(&service, request(&[(A, &long)])).await;
    assert_eq!((answer.status, probe.calls()), (400, 0));
    assert!(answer.text.contains("more than the 8192 that a key may have"), "{}", answer.text);
    assert_eq!(send(&service, grpc(&[(A, &long)])).await.header("grpc-status"), Some("3"));
}

#[test]
#[should_panic(expected = "x api key")]
fn an_invalid_header_name_panics() {
    let _ = Header::named("x api key");
}

#[test]
fn or_falls_through_when_missing_and_rewinds() {
    let or = Header::named(A).or(Header::named(B));
    let only_b = parts(&[(B, "b")]);
    assert_eq!(key(&or, &only_b), key(&Header::named(B), &only_b));
    assert_eq!(key(&or, &parts(&[(A, "a"), (B, "b")])), key(&or, &parts(&[(A, "a")])));
    assert_ne!(key(&or, &parts(&[(A, "v")])), key(&or, &parts(&[(B, "v")])));
    assert_eq!(find(&or, &parts(&[])), Ok((Identity::Missing, None)));

    let rewound = returns(Ok(Identity::Missing)).or(Header::named(B));
    assert_eq!(key(&rewound, &only_b), key(&Header::named(B), &only_b));
    let nested = Header::named(A).and(returns(Ok(Identity::Missing))).or(Header::named(B));
    let both = parts(&[(A, "a"), (B, "b")]);
    assert_eq!(key(&nested, &both), key(&Header::named(B), &both));

    let broken = Header::named(A).or(Global);
    assert!(find(&broken, &parts(&[(A, "1"), (A, "2")])).is_err());
    let exempt = returns(Ok(Identity::Exempt)).or(Global);
    assert_eq!(find(&exempt, &both), Ok((Identity::Exempt, None)));
}

#[test]
fn and_needs_both_and_goes_from_left_to_right() {
    use Identity::{Exempt, Found, Missing};

    let error = || KeyError::client("broken");
    for (left, right, answer) in [
        (Ok(Found), Ok(Found), Ok(Found)),
        (Ok(Found), Ok(Missing), Ok(Missing)),
        (Ok(Missing), Ok(Found), Ok(Missing)),
        (Ok(Missing), Ok(Missing), Ok(Missing)),
        (Ok(Exempt), Ok(Found), Ok(Exempt)),
        (Ok(Found), Ok(Exempt), Ok(Exempt)),
        (Ok(Exempt), Ok(Missing), Ok(Exempt)),
        (Ok(Missing), Ok(Exempt), Ok(Exempt)),
        (Ok(Exempt), Err(error()), Ok(Exempt)),
        (Err(error()), Ok(Exempt), Err(error())),
        (Ok(Found), Err(error()), Err(error())),
        (Ok(Missing), Err(error()), Err(error())),
    ] {
        let both = returns(left.clone()).and(returns(right.clone()));
        assert_eq!(find(&both, &parts(&[])).map(|found| found.0), answer, "{left:?} and {right:?}");
    }
    let and = Header::named(A).and(Header::named(B));
    let whole = key(&and, &parts(&[(A, "a"), (B, "bc")]));
    assert_ne!(whole, key(&and, &parts(&[(A, "ab"), (B, "c")])));
    assert_eq!(whole.slot(), key(&Header::named(A), &parts(&[(A, "a")])).slot());
}

#[test]
fn extensions_of_two_types_have_different_keys() {
    #[derive(Clone)]
    struct Tenant(&'static str);
    #[derive(Clone)]
    struct User(&'static str);
    impl AsRef<[u8]> for Tenant {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    impl AsRef<[u8]> for User {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    let mut parts = parts(&[]);
    assert_eq!(find(&Extension::<User>::new(), &parts), Ok((Identity::Missing, None)));
    parts.extensions.insert(User("acme"));
    parts.extensions.insert(Tenant("acme"));
    assert_ne!(key(&Extension::<User>::new(), &parts), key(&Extension::<Tenant>::new(), &parts));
    parts.extensions.insert(User(""));
    assert_eq!(find(&Extension::<User>::new(), &parts), Ok((Identity::Missing, None)));

    let forgetful = find(&Extension::<User>::with(|_, _| ()), &parts).unwrap_err();
    assert_eq!(forgetful, KeyError::from(KeyWriteError::Empty));
    assert!(!forgetful.is_client_fault());
}

#[tokio::test]
async fn a_missing_identity_is_rejected_or_shares_or_is_exempt() {
    for (on_missing, first, second) in
        [(OnMissing::Reject, 400, 400), (OnMissing::Shared, 200, 429), (OnMissing::Exempt, 200, 200)]
    {
        let layer = RateLimitLayer::new(
            registry(),
            Policy::gcra("all", Quota::per_minute(1))
                .by(returns(Ok(Identity::Missing)).or(Header::named(A)))
                .on_missing(on_missing),
        );
        let (service, _) = probed(&layer);
        assert_eq!(send(&service, request(&[])).await.status, first, "{on_missing:?}");
        let answer = send(&service, request(&[])).await;
        assert_eq!(answer.status, second, "{on_missing:?}");
        if on_missing == OnMissing::Exempt {
            assert!(answer.seen.is_none() && answer.headers.is_empty());
        }
        assert_eq!(send(&service, request(&[(A, "known")])).await.status, 200, "{on_missing:?}");
        assert_eq!(send(&service, request(&[(A, "known")])).await.status, 429, "{on_missing:?}");
    }
}

#[tokio::test]
async fn extractors_can_be_chosen_at_run_time() {
    let chosen: Arc<dyn KeyExtractor> = Arc::new(Header::named(A));
    let layer =
        RateLimitLayer::new(registry(), Policy::gcra("all", Quota::per_minute(1)).by(chosen.or(Global)));
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, request(&[(A, "a")])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[(A, "a")])).await.status, 429);
}
