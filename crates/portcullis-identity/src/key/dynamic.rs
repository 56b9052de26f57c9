//! Extractors that are chosen at run time.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{AsyncKeyExtractor, Identity, KeyError, KeyExtractor, KeyForms, LookupFuture};
use crate::LookupCounts;

macro_rules! forward_to_pointee {
    ($($pointer:ident),*) => {$(
        impl KeyExtractor for $pointer<dyn KeyExtractor> {
            fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
                (**self).extract(parts, key)
            }

            fn challenge(&self) -> Option<HeaderValue> {
                (**self).challenge()
            }

            fn counts_rejections(&self) -> bool {
                (**self).counts_rejections()
            }

            fn is_chosen_by_client(&self) -> bool {
                (**self).is_chosen_by_client()
            }

            fn is_shared(&self) -> bool {
                (**self).is_shared()
            }

            fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
                (**self).expected(parts)
            }

            fn description(&self) -> Cow<'static, str> {
                (**self).description()
            }

            fn forms(&self) -> KeyForms {
                (**self).forms()
            }
        }

        impl AsyncKeyExtractor for $pointer<dyn AsyncKeyExtractor> {
            fn look_up(&self, parts: &Parts) -> LookupFuture {
                (**self).look_up(parts)
            }

            fn challenge(&self) -> Option<HeaderValue> {
                (**self).challenge()
            }

            fn description(&self) -> Cow<'static, str> {
                (**self).description()
            }

            fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
                (**self).expected(parts)
            }

            fn count_in(&self, counts: &LookupCounts) {
                (**self).count_in(counts);
            }
        }
    )*};
}

forward_to_pointee!(Arc, Box);

#[cfg(test)]
mod tests {
    use http::Request;
    use portcullis_core::Secret;

    use super::*;
    use crate::{Bearer, ClientIp, Global, Lookup};

    #[test]
    fn pointers_forward_every_method() {
        let (parts, ()) =
            Request::builder().header("authorization", "Bearer t").body(()).unwrap().into_parts();
        let secret = Secret::published();
        let key = |extractor: &dyn KeyExtractor| {
            let mut hasher = secret.hasher();
            assert_eq!(extractor.extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
            hasher.finish().unwrap()
        };
        let boxed: Box<dyn KeyExtractor> = Box::new(Bearer);
        let shared: Arc<dyn KeyExtractor> = Arc::new(Bearer);
        for pointer in [&boxed as &dyn KeyExtractor, &shared] {
            assert_eq!(key(pointer), key(&Bearer));
            assert_eq!(pointer.challenge().unwrap(), "Bearer");
            assert_eq!(pointer.description(), "bearer");
            assert_eq!(pointer.forms().to_string(), Bearer.forms().to_string());
            assert_eq!(pointer.expected(&parts).unwrap(), "a bearer token");
            assert!(!pointer.counts_rejections() && pointer.is_chosen_by_client());
        }
        let boxed: Box<dyn KeyExtractor> = Box::new(ClientIp::peer());
        let shared: Arc<dyn KeyExtractor> = Arc::new(ClientIp::peer());
        for pointer in [&boxed as &dyn KeyExtractor, &shared] {
            assert!(pointer.counts_rejections() && pointer.challenge().is_none());
            assert!(!pointer.is_chosen_by_client() && !pointer.is_shared());
        }
        let boxed: Box<dyn KeyExtractor> = Box::new(Global);
        let shared: Arc<dyn KeyExtractor> = Arc::new(Global);
        assert!(boxed.is_shared() && shared.is_shared());
    }

    struct Directory;

    impl AsyncKeyExtractor for Directory {
        fn look_up(&self, _: &Parts) -> LookupFuture {
            Box::pin(std::future::ready(Ok(Lookup::found("tenant", "acme"))))
        }

        fn challenge(&self) -> Option<HeaderValue> {
            Some(HeaderValue::from_static("ApiKey"))
        }

        fn expected(&self, _: &Parts) -> Option<Cow<'static, str>> {
            Some(Cow::Borrowed("an API key"))
        }

        fn count_in(&self, counts: &LookupCounts) {
            counts.hit();
        }
    }

    #[tokio::test]
    async fn pointers_to_look_ups_forward_every_method() {
        let (parts, ()) = Request::new(()).into_parts();
        let boxed: Box<dyn AsyncKeyExtractor> = Box::new(Directory);
        let shared: Arc<dyn AsyncKeyExtractor> = Arc::new(Directory);
        for pointer in [&boxed as &dyn AsyncKeyExtractor, &shared] {
            assert_eq!(pointer.look_up(&parts).await, Ok(Lookup::found("tenant", "acme")));
            assert_eq!(pointer.challenge().unwrap(), "ApiKey");
            assert_eq!(pointer.expected(&parts).unwrap(), "an API key");
            let counts = LookupCounts::default();
            pointer.count_in(&counts);
            assert!(format!("{counts:?}").contains("lookup_hits: 1"), "{counts:?}");
        }
    }
}
