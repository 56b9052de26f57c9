//! `reject_with` of policies: which of several makes the response to a rejected request.

use std::sync::Arc;

use portcullis_core::{Decision, PolicyName};
use portcullis_tower::{RateLimitLayer, Rejection};

use super::rule::Rule;
use crate::hooks::RejectWith;

/// Adds the functions of these rules to their layer, which has the options of `[layer]` already.
pub(super) fn add<'r, I: Iterator<Item = &'r Rule>>(
    layer: RateLimitLayer,
    rules: impl Fn() -> I,
) -> RateLimitLayer {
    let Some(first) = rules().find_map(|rule| rule.reject_with.0.clone()) else { return layer };
    let rules = rules().map(|rule| (rule.name().clone(), rule.reject_with.0.clone()));
    let rules: Vec<(PolicyName, Option<Arc<RejectWith>>)> = rules.collect();
    let otherwise = layer.rejection();
    layer.reject_with(move |rejection| {
        let rule = decisive(rejection).and_then(|policy| rules.iter().find(|(name, _)| name == policy));
        let own = rule.map_or(Some(&first), |(_, reject_with)| reject_with.as_ref());
        own.or(otherwise.as_ref()).map_or_else(|| rejection.response(), |reject_with| reject_with(rejection))
    })
}

/// The policy that rejects the request. `None` if no policy does, such as where the key is missing.
fn decisive<'a>(rejection: &Rejection<'a>) -> Option<&'a PolicyName> {
    rejection.decision().map(Decision::policy).or_else(|| rejection.violated_policies().next())
}
