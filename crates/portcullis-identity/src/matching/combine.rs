//! Combinations of matchers.

use std::sync::Arc;

use http::request::Parts;

use super::{PathReadings, RequestMatcher, Undecided};

/// Matches the requests that two matchers match. Made by [`RequestMatcher::and`].
#[derive(Clone, Copy, Debug)]
pub struct Both<L, R> {
    left: L,
    right: R,
}

impl<L, R> Both<L, R> {
    pub(super) fn new(left: L, right: R) -> Self {
        Self { left, right }
    }
}

impl<L: RequestMatcher, R: RequestMatcher> RequestMatcher for Both<L, R> {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        self.matches_with(&PathReadings::of(parts))
    }

    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        match self.left.matches_with(request) {
            Ok(true) => self.right.matches_with(request),
            Ok(false) => Ok(false),
            // What the other does not match is decided.
            Err(undecided) => match self.right.matches_with(request) {
                Ok(false) => Ok(false),
                Ok(true) | Err(_) => Err(undecided),
            },
        }
    }

    fn is_chosen_by_client(&self) -> bool {
        self.left.is_chosen_by_client() || self.right.is_chosen_by_client()
    }
}

/// Matches the requests that another matcher does not match. Made by [`RequestMatcher::not`].
#[derive(Clone, Copy, Debug)]
pub struct Inverted<M> {
    matcher: M,
}

impl<M> Inverted<M> {
    pub(super) fn new(matcher: M) -> Self {
        Self { matcher }
    }
}

impl<M: RequestMatcher> RequestMatcher for Inverted<M> {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        self.matches_with(&PathReadings::of(parts))
    }

    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        self.matcher.matches_with(request).map(|matches| !matches)
    }

    fn is_chosen_by_client(&self) -> bool {
        self.matcher.is_chosen_by_client()
    }
}

/// Matches the requests that one of them matches; otherwise undecided if one of them is.
impl<M: RequestMatcher, const N: usize> RequestMatcher for [M; N] {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        any(self, &PathReadings::of(parts))
    }

    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        any(self, request)
    }

    fn is_chosen_by_client(&self) -> bool {
        self.iter().any(RequestMatcher::is_chosen_by_client)
    }
}

/// Matches the requests that one of them matches; otherwise undecided if one of them is.
impl<M: RequestMatcher> RequestMatcher for Vec<M> {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        any(self, &PathReadings::of(parts))
    }

    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        any(self, request)
    }

    fn is_chosen_by_client(&self) -> bool {
        self.iter().any(RequestMatcher::is_chosen_by_client)
    }
}

fn any<M: RequestMatcher>(matchers: &[M], request: &PathReadings<'_>) -> Result<bool, Undecided> {
    let mut found = Ok(false);
    for matcher in matchers {
        match matcher.matches_with(request) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(undecided) => found = found.and(Err(undecided)),
        }
    }
    found
}

macro_rules! forward_to_pointee {
    ($($pointer:ident),*) => {$(
        impl RequestMatcher for $pointer<dyn RequestMatcher> {
            fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
                (**self).matches(parts)
            }

            fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
                (**self).matches_with(request)
            }

            fn is_chosen_by_client(&self) -> bool {
                (**self).is_chosen_by_client()
            }
        }
    )*};
}

forward_to_pointee!(Arc, Box);

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    struct Fixed(Result<bool, Undecided>);

    impl RequestMatcher for Fixed {
        fn matches(&self, _: &Parts) -> Result<bool, Undecided> {
            self.0.clone()
        }
    }

    const UNDECIDED: Result<bool, Undecided> = Err(Undecided::Ambiguous);

    fn decide(matcher: &impl RequestMatcher) -> Result<bool, Undecided> {
        matcher.matches(&Request::new(()).into_parts().0)
    }

    #[test]
    fn both_must_match_and_any_may() {
        let [yes, no] = [Ok(true), Ok(false)];
        for (left, right, both, any) in [
            (yes.clone(), yes.clone(), yes.clone(), yes.clone()),
            (yes.clone(), no.clone(), no.clone(), yes.clone()),
            (no.clone(), no.clone(), no.clone(), no.clone()),
            (UNDECIDED, yes.clone(), UNDECIDED, yes.clone()),
            (UNDECIDED, no.clone(), no, UNDECIDED),
            (UNDECIDED, UNDECIDED, UNDECIDED, UNDECIDED),
        ] {
            for (left, right) in [(left.clone(), right.clone()), (right, left)] {
                let pair = || (Fixed(left.clone()), Fixed(right.clone()));
                assert_eq!(decide(&pair().0.and(pair().1)), both);
                assert_eq!(decide(&<[Fixed; 2]>::from(pair())), any);
                assert_eq!(decide(&Vec::from(<[Fixed; 2]>::from(pair()))), any);
            }
        }
        assert_eq!(decide(&Vec::<Fixed>::new()), Ok(false));
    }

    #[test]
    fn the_inverse_of_undecided_is_undecided() {
        assert_eq!(decide(&Fixed(Ok(true)).not()), Ok(false));
        assert_eq!(decide(&Fixed(Ok(false)).not()), Ok(true));
        assert_eq!(decide(&Fixed(UNDECIDED).not()), UNDECIDED);
    }

    #[test]
    fn pointers_forward() {
        let boxed: Box<dyn RequestMatcher> = Box::new(Fixed(UNDECIDED));
        let shared: Arc<dyn RequestMatcher> = Arc::new(Fixed(UNDECIDED));
        assert_eq!((decide(&boxed), decide(&shared)), (UNDECIDED, UNDECIDED));
    }
}
