//! What determines the class of a request.

use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use portcullis_engine::Class;
use portcullis_identity::matching::{PathReadings, RequestMatcher};

/// Determines the class of a request: by the first rule that matches, else by the header.
#[derive(Clone, Default)]
pub(crate) struct Classes {
    rules: Vec<(Class, Arc<dyn RequestMatcher>)>,
    trusted_header: Option<HeaderName>,
}

impl Classes {
    pub(crate) fn add(&mut self, class: Class, matcher: impl RequestMatcher) {
        self.rules.push((class, Arc::new(matcher)));
    }

    pub(crate) fn trust_header(&mut self, header: HeaderName) {
        self.trusted_header = Some(header);
    }

    #[inline]
    pub(crate) fn of(&self, request: &PathReadings<'_>) -> Class {
        // A request that cannot be compared gains nothing by it: it gets no higher class than if the rule matched.
        let mut highest = Class::Critical;
        for (class, matcher) in &self.rules {
            match matcher.matches_with(request) {
                Ok(true) => return highest.min(*class),
                Ok(false) => {}
                Err(_) => highest = highest.min(*class),
            }
        }
        highest.min(self.by_header(request.parts()).unwrap_or_default())
    }

    fn by_header(&self, parts: &Parts) -> Option<Class> {
        let mut values = parts.headers.get_all(self.trusted_header.as_ref()?).iter();
        // Of two values, the proxy in front has set at most one.
        let (value, None) = (values.next()?, values.next()) else { return None };
        Class::ALL.into_iter().find(|class| value == class.as_str())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use portcullis_identity::matching::RequestPath;

    use super::*;

    fn class_of(classes: &Classes, parts: &Parts) -> Class {
        classes.of(&PathReadings::of(parts))
    }

    fn class(classes: &Classes, path: &str, header: &str) -> Class {
        let request = Request::get(path).header("x-class", header);
        class_of(classes, &request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_first_rule_that_matches_determines_the_class() {
        let mut classes = Classes::default();
        classes.add(Class::Critical, RequestPath::prefix("/pay"));
        classes.add(Class::Background, RequestPath::prefix("/"));
        assert_eq!(class(&classes, "/pay/1", "background"), Class::Critical);
        assert_eq!(class(&classes, "/export", "critical"), Class::Background);
    }

    #[test]
    fn an_ambiguous_request_gains_no_class() {
        let mut classes = Classes::default();
        classes.add(Class::Critical, RequestPath::exact("/pay"));
        assert_eq!(class(&classes, "/x/../pay", ""), Class::Default);
        classes.add(Class::Background, RequestPath::exact("/export"));
        assert_eq!(class(&classes, "/x/../pay", ""), Class::Background);
    }

    #[test]
    fn an_ambiguous_request_does_not_skip_a_lower_rule() {
        let mut classes = Classes::default();
        classes.add(Class::Default, RequestPath::prefix("/search"));
        classes.add(Class::Critical, http::Method::GET);
        classes.trust_header(HeaderName::from_static("x-class"));
        assert_eq!(class(&classes, "/pay", ""), Class::Critical);
        assert_eq!(class(&classes, "/search", ""), Class::Default);
        assert_eq!(class(&classes, "/x/../search", "critical"), Class::Default);
    }

    #[test]
    fn a_header_counts_only_if_it_is_trusted() {
        let mut classes = Classes::default();
        assert_eq!(class(&classes, "/", "critical"), Class::Default);
        classes.trust_header(HeaderName::from_static("x-class"));
        for of in Class::ALL {
            assert_eq!(class(&classes, "/", of.as_str()), of);
        }
        for other in ["", "CRITICAL", "critical,", "0"] {
            assert_eq!(class(&classes, "/", other), Class::Default);
        }
        let twice = Request::get("/").header("x-class", "critical").header("x-class", "background");
        assert_eq!(class_of(&classes, &twice.body(()).unwrap().into_parts().0), Class::Default);
    }
}
