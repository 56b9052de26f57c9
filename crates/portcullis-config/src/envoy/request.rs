//! The limits of a whole request, which sends several descriptors.

use std::collections::HashSet;

use super::matching::Match;

/// What applies to one descriptor of a request.
#[derive(Clone, Debug)]
pub enum Applied<'a> {
    /// No limit: the files have none for the descriptor. It is admitted.
    NoLimit,
    /// An [unlimited](super::Limit::is_unlimited) limit: it is admitted, and nothing is counted.
    Unlimited(Match<'a>),
    /// A limit that the limit of another descriptor of the request [replaces](super::Limit::replaces): it is admitted, and nothing
    /// is counted.
    Replaced(Match<'a>),
    /// A limit that is counted and may deny the request.
    Limit(Match<'a>),
}

impl<'a> Applied<'a> {
    /// The limit, if it is counted and may deny the request.
    pub const fn limit(&self) -> Option<&Match<'a>> {
        match self {
            Self::Limit(found) => Some(found),
            Self::NoLimit | Self::Unlimited(_) | Self::Replaced(_) => None,
        }
    }
}

/// What applies to each descriptor of a request, in their order.
///
/// Made by [`Descriptors::request`](super::Descriptors::request).
#[derive(Clone, Debug)]
pub struct RequestLimits<'a>(Vec<Applied<'a>>);

impl<'a> RequestLimits<'a> {
    /// Applies `replaces`: a limit does not apply if any limit that was found for the request names it, also one that is unlimited
    /// or replaced itself. An unlimited limit is not replaced.
    pub(super) fn new(found: impl Iterator<Item = Option<Match<'a>>>) -> Self {
        let found: Vec<_> = found.collect();
        let replaced: HashSet<&str> =
            found.iter().flatten().flat_map(|found| found.limit().replaces()).map(String::as_str).collect();
        let apply = |found: Option<Match<'a>>| match found {
            None => Applied::NoLimit,
            Some(found) if found.limit().is_unlimited() => Applied::Unlimited(found),
            Some(found) if found.limit().name().is_some_and(|name| replaced.contains(name)) => {
                Applied::Replaced(found)
            }
            Some(found) => Applied::Limit(found),
        };
        Self(found.into_iter().map(apply).collect())
    }

    /// What applies to each descriptor, in their order.
    pub fn as_slice(&self) -> &[Applied<'a>] {
        &self.0
    }

    /// Whether the request is denied, where `over` answers for the position of a descriptor whether its limit is exceeded. It is
    /// called only for [limits](Applied::Limit) that may deny.
    ///
    /// A limit with `shadow_mode` never denies. Any other limit that is exceeded denies the request, except that limits with `quota_mode` do so
    /// only if all of those that apply to the request are exceeded.
    pub fn is_over_limit(&self, mut over: impl FnMut(usize) -> bool) -> bool {
        let (mut quotas, mut quotas_left, mut denied) = (false, false, false);
        for (index, applied) in self.0.iter().enumerate() {
            let Some(limit) = applied.limit().map(Match::limit) else {
                continue;
            };
            let over = !limit.shadow_mode() && over(index);
            if limit.quota_mode() {
                quotas = true;
                quotas_left |= !over;
            } else {
                denied |= over;
            }
        }
        denied || (quotas && !quotas_left)
    }
}
