//! Determines the checks of a CORS preflight, which has a separate budget.

mod request;

use http::request::Parts;
use http_body::Body;
use portcullis_core::{Key, Secret};

use super::Plan;
use crate::config::LayerConfig;
use crate::limit::KeySource;
use crate::{Identity, KeyError, KeyExtractor};
use portcullis_engine::EventKind;
use portcullis_engine::{Ask, CallerPolicies};
use portcullis_identity::PREFLIGHT;
use request::{has_credentials, is_preflight};

/// The checks of a preflight, empty if no policy finds a key; `None` for a request that is counted like any other.
///
/// Each policy has a separate budget for preflights, so that a browser, which sends at most one before each request, is not
/// limited earlier by them. Look-ups and shadow policies are left out: a preflight has no identity to look up.
pub(super) fn plan(
    config: &LayerConfig,
    callers: &CallerPolicies,
    parts: &Parts,
    body: &impl Body,
) -> Option<Plan> {
    if config.limits_preflights || !is_preflight(parts, body) {
        return None;
    }
    let mut ask = Ask::of_caller(&config.limits, callers);
    let mut previous: Option<(&KeySource, Option<Key>)> = None;
    for (index, limit) in
        config.policies().iter().enumerate().filter(|(_, limit)| limit.is_enforced_for_some())
    {
        let KeySource::Sync(extractor) = &limit.key else { continue };
        let key = match previous {
            Some((source, key)) if source.is_same(&limit.key) => key,
            // A malformed identity is rejected as on any request: browsers send no identity in preflights.
            _ => preflight_key(&**extractor, config.registry.secret(), parts).ok()?,
        };
        previous = Some((&limit.key, key));
        if let Some(key) = key
            && config.limits.policies()[index].is_enforced_for(key)
        {
            ask.add(&config.limits, index, key, limit.cost_of(parts));
        }
    }
    let is_counted = !ask.is_empty();
    if !is_counted && has_credentials(&parts.headers) {
        return None;
    }
    ask.emit(&config.limits, EventKind::Preflight { is_counted });
    Some(Plan { ask, ..Plan::default() })
}

/// The key of the request with a part added that marks preflights. The first part stays the same, and so does the slot.
fn preflight_key(
    extractor: &dyn KeyExtractor,
    secret: &Secret,
    parts: &Parts,
) -> Result<Option<Key>, KeyError> {
    let mut hasher = secret.hasher();
    match extractor.extract(parts, &mut hasher.writer())? {
        Identity::Found => {
            // An extractor that wrote nothing returns an error here, as on any request.
            hasher.clone().finish()?;
            hasher.writer().shared_part(PREFLIGHT, b"");
            Ok(Some(hasher.finish()?))
        }
        Identity::Missing | Identity::Exempt => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::{Global, Header, KeyWriter};

    #[test]
    fn the_key_of_a_preflight_differs_within_the_same_slot() {
        let secret = Secret::published();
        let (parts, ()) = Request::builder().header("x-user", "ada").body(()).unwrap().into_parts();
        for extractor in [&Global as &dyn KeyExtractor, &Header::named("x-user")] {
            let mut hasher = secret.hasher();
            assert_eq!(extractor.extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
            let key = hasher.finish().unwrap();
            let preflight = preflight_key(extractor, &secret, &parts).unwrap().unwrap();
            assert_ne!(preflight, key);
            assert_eq!((preflight.slot(), preflight.own_parts()), (key.slot(), key.own_parts()));
        }
        assert_eq!(preflight_key(&Header::named("x-absent"), &secret, &parts), Ok(None));
    }

    #[test]
    fn an_extractor_that_writes_nothing_makes_no_key() {
        let (parts, ()) = Request::new(()).into_parts();
        let forgetful = |_: &Parts, _: &mut KeyWriter<'_>| Ok(Identity::Found);
        assert!(preflight_key(&forgetful, &Secret::published(), &parts).is_err());
    }
}
