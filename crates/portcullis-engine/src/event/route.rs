//! Where the requests of a layer come from, for people.

use std::sync::{Arc, PoisonError, RwLock};

/// The route of a layer: one that it was given, or those that its requests have shown.
#[derive(Debug, Default)]
pub struct Route(RwLock<RouteText>);

#[derive(Clone, Debug, Default)]
struct RouteText {
    text: Option<Arc<str>>,
    is_given: bool,
    /// The number of routes that requests have shown.
    seen: usize,
}

impl Route {
    /// A route that was given.
    pub fn given(text: &str) -> Self {
        Self(RwLock::new(RouteText { text: Some(text.into()), is_given: true, seen: 0 }))
    }

    /// The route of another layer with the same settings, which has got no request.
    pub(crate) fn anew(&self) -> Self {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self(RwLock::new(if known.is_given { known } else { RouteText::default() }))
    }

    /// Adds the route of a request, unless one was given or eight are known. Returns whether it is shown from now on.
    pub fn see(&self, route: &str) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let text = known.text.as_deref().unwrap_or_default();
        if known.is_given || known.seen > MAX_ROUTES || text.split(SEPARATOR).any(|seen| seen == route) {
            return false;
        }
        let is_shown = known.seen < MAX_ROUTES;
        let added = if is_shown { route } else { "…" };
        let separator = if known.seen == 0 { "" } else { SEPARATOR };
        known.text = Some(format!("{text}{separator}{added}").into());
        known.seen += 1;
        is_shown
    }

    /// Returns the route, or the routes with commas between.
    pub fn text(&self) -> Option<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).text.clone()
    }
}

const SEPARATOR: &str = ", ";

/// The routes that are shown of one layer.
const MAX_ROUTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_requests_are_listed_once() {
        let route = Route::default();
        assert_eq!(route.text(), None);
        for path in ["/search", "/items/{id}", "/search"] {
            route.see(path);
        }
        assert_eq!(route.text().as_deref(), Some("/search, /items/{id}"));
        assert_eq!(route.anew().text(), None);
        let shown = (0..100).filter(|number| route.see(&format!("/{number}"))).count();
        assert_eq!(shown, 6);
        assert_eq!(route.text().as_deref(), Some("/search, /items/{id}, /0, /1, /2, /3, /4, /5, …"));
    }

    #[test]
    fn given_route_stays() {
        let route = Route::given("GET /search");
        route.see("/search");
        assert_eq!(route.anew().text().as_deref(), Some("GET /search"));
    }
}
