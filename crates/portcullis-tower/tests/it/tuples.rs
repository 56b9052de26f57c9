//! No two different identities share a key.

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, Secret};
use portcullis_tower::{ClientIp, Cookie, Header, Identity, KeyExtractor, Query};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::probe::request;

/// An address, two headers, a cookie and a parameter, from few values, so that parts of one tuple occur in others.
#[derive(Clone, Debug, PartialEq)]
struct Tuple {
    address: u16,
    headers: [String; 2],
    cookie: String,
    query: String,
}

impl Tuple {
    fn parts(&self) -> Parts {
        let mut parts = request(&[]).into_parts().0;
        let [high, low] = self.address.to_be_bytes();
        parts.extensions.insert(std::net::SocketAddr::from(([192, 0, high, low], 1)));
        for (name, value) in ["x-a", "x-b"].into_iter().zip(&self.headers) {
            parts.headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        parts.headers.insert("cookie", HeaderValue::from_str(&format!("c={}", self.cookie)).unwrap());
        parts.uri = format!("/?q={}", self.query).parse().unwrap();
        parts
    }

    fn key(&self, extractor: &dyn KeyExtractor) -> Key {
        let mut hasher = Secret::published().hasher();
        assert_eq!(extractor.extract(&self.parts(), &mut hasher.writer()), Ok(Identity::Found));
        hasher.finish().unwrap()
    }
}

fn tuple() -> impl Strategy<Value = Tuple> {
    let text =
        || vec(prop_oneof!["a", "b", "x-a", "header", "cookie", "c"], 1..4).prop_map(|words| words.concat());
    (0u16..3, [text(), text()], text(), text()).prop_map(|(address, headers, cookie, query)| Tuple {
        address,
        headers,
        cookie,
        query,
    })
}

proptest! {
    #[test]
    fn different_tuples_have_different_keys(left in tuple(), right in tuple()) {
        let flat = Header::named("x-a")
            .and(Header::named("x-b"))
            .and(ClientIp::peer())
            .and(Cookie::named("c"))
            .and(Query::named("q"));
        let nested = ClientIp::peer()
            .and(Cookie::named("c").and(Query::named("q")))
            .and(Header::named("x-a").and(Header::named("x-b")));
        for extractor in [&flat as &dyn KeyExtractor, &nested] {
            prop_assert_eq!(left == right, left.key(extractor) == right.key(extractor));
        }
        // The same value in another field has another key.
        let a = left.key(&Header::named("x-a"));
        prop_assert_ne!(a, right.key(&Header::named("x-b")));
        prop_assert_ne!(a, right.key(&Cookie::named("c")));
        prop_assert_ne!(a, right.key(&Query::named("q")));
        prop_assert_ne!(a, left.key(&Header::named("x-a").and(Header::named("x-b"))));
    }
}
