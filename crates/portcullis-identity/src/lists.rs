//! The lists of a layer: which requests it denies, limits and exempts.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use crate::KeyError;
use crate::matching::{PathReadings, RequestMatcher, Undecided};

/// The matchers of a layer, in the order in which they are applied.
#[derive(Clone, Default)]
pub struct Lists {
    deny: Vec<Arc<dyn RequestMatcher>>,
    only: Vec<Arc<dyn RequestMatcher>>,
    except: Vec<Arc<dyn RequestMatcher>>,
}

/// What the lists of a layer make of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum ListVerdict {
    /// The request is limited.
    Limited,
    /// The request passes, and is not charged.
    Skipped,
    /// The request is rejected.
    Denied,
    /// The identity by which the request might be denied cannot be determined.
    Unidentified(KeyError),
}

impl fmt::Debug for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deny, only, except } = self;
        let [deny, only, except] = [deny, only, except].map(Vec::len);
        f.debug_struct("Lists").field("deny", &deny).field("only", &only).field("except", &except).finish()
    }
}

impl Lists {
    /// Adds requests that are denied.
    pub fn deny(&mut self, matcher: impl RequestMatcher) {
        self.deny.push(Arc::new(matcher));
    }

    /// Adds requests to those that are limited, which are all if none are added.
    pub fn only(&mut self, matcher: impl RequestMatcher) {
        self.only.push(Arc::new(matcher));
    }

    /// Adds requests that are not limited.
    pub fn except(&mut self, matcher: impl RequestMatcher) {
        self.except.push(Arc::new(matcher));
    }

    /// Applies the lists. A request that a matcher cannot compare ends on the side that is denied or limited.
    pub fn decide(&self, parts: &Parts) -> ListVerdict {
        let request = PathReadings::of(parts);
        let mut unidentified = None;
        for matcher in &self.deny {
            match matcher.matches_with(&request) {
                Ok(false) => {}
                Ok(true) | Err(Undecided::Ambiguous) => return ListVerdict::Denied,
                Err(Undecided::Identity(error)) => unidentified = unidentified.or(Some(error)),
            }
        }
        if let Some(error) = unidentified {
            return ListVerdict::Unidentified(error);
        }
        let is_named = self.only.is_empty() || self.only.matches_with(&request) != Ok(false);
        if !is_named || self.except.matches_with(&request) == Ok(true) {
            return ListVerdict::Skipped;
        }
        ListVerdict::Limited
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::matching::RequestPath;

    struct Fixed(Result<bool, Undecided>);

    impl RequestMatcher for Fixed {
        fn matches(&self, _: &Parts) -> Result<bool, Undecided> {
            self.0.clone()
        }
    }

    fn answers() -> [Option<Result<bool, Undecided>>; 5] {
        let error = KeyError::client("no address");
        [
            None,
            Some(Ok(true)),
            Some(Ok(false)),
            Some(Err(Undecided::Ambiguous)),
            Some(Err(Undecided::Identity(error))),
        ]
    }

    #[test]
    fn deny_precedes_only_and_only_precedes_except() {
        let (parts, ()) = Request::new(()).into_parts();
        for deny in answers() {
            for only in answers() {
                for except in answers() {
                    let mut lists = Lists::default();
                    deny.clone().into_iter().for_each(|answer| lists.deny(Fixed(answer)));
                    only.clone().into_iter().for_each(|answer| lists.only(Fixed(answer)));
                    except.clone().into_iter().for_each(|answer| lists.except(Fixed(answer)));
                    let expected = match (&deny, &only, &except) {
                        (Some(Err(Undecided::Identity(error))), ..) => {
                            ListVerdict::Unidentified(error.clone())
                        }
                        (Some(Ok(true) | Err(_)), ..) => ListVerdict::Denied,
                        (_, Some(Ok(false)), _) | (.., Some(Ok(true))) => ListVerdict::Skipped,
                        _ => ListVerdict::Limited,
                    };
                    assert_eq!(lists.decide(&parts), expected, "{deny:?} {only:?} {except:?}");
                }
            }
        }
    }

    /// A long path takes allocations, of which the matchers need no further ones.
    #[test]
    fn path_is_read_once_for_all_matchers() {
        let (parts, ()) = Request::get("/%61;x//b".repeat(50)).body(()).unwrap().into_parts();
        let allocations = |matchers| {
            let mut lists = Lists::default();
            for _ in 0..matchers {
                lists.deny(RequestPath::exact("/admin"));
                lists.only([RequestPath::prefix("/internal")]);
                lists.except(RequestPath::prefix("/").not().and(RequestPath::prefix("/health")));
            }
            let decide = || assert_eq!(lists.decide(&parts), ListVerdict::Skipped);
            allocation_counter::measure(decide).count_total
        };
        assert!(allocations(1) > 0);
        assert_eq!(allocations(1), allocations(5));
    }

    #[test]
    fn any_matcher_of_a_list_is_enough() {
        let (parts, ()) = Request::new(()).into_parts();
        let mut lists = Lists::default();
        for answer in [false, true] {
            lists.only(Fixed(Ok(answer)));
        }
        assert_eq!(lists.decide(&parts), ListVerdict::Limited);
        for answer in [false, true] {
            lists.except(Fixed(Ok(answer)));
        }
        assert_eq!(lists.decide(&parts), ListVerdict::Skipped);
        // A certain denial wins over an error, in any order.
        lists.deny(Fixed(Err(Undecided::Identity(KeyError::client("no address")))));
        lists.deny(Fixed(Ok(true)));
        assert_eq!(lists.decide(&parts), ListVerdict::Denied);
    }
}
