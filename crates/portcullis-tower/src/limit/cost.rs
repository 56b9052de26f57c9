//! The closure that computes the units that a request costs.

use http::request::Parts;

/// The cost of a request in units: the argument of [`Limit::cost`](crate::Limit::cost).
///
/// A closure that compares paths by itself charges less for other spellings of a path, which a server behind may take for the same.
/// [`RequestPath`](crate::matching::RequestPath) knows them:
///
/// ```
/// use http::Request;
/// use portcullis_tower::matching::{RequestMatcher as _, RequestPath};
///
/// let export = RequestPath::exact("/export");
/// let cost = move |parts: &http::request::Parts| if export.matches(parts) == Ok(false) { 1 } else { 100 };
/// for (path, units) in [("/export", 100), ("/EXPORT", 100), ("/%65xport", 100), ("/search", 1)] {
///     assert_eq!(cost(&Request::get(path).body(()).unwrap().into_parts().0), units);
/// }
/// ```
///
/// All closures of this signature implement it, and no other type does:
///
/// ```compile_fail,E0277
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer, Registry};
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let all = Policy::gcra("all", Quota::per_minute(60).burst(10));
/// let _ = RateLimitLayer::new(registry, all.by(Global).cost(5)); // write `|_| 5`
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the cost of a request",
    label = "not a closure that returns units",
    note = "write `|parts| ..` for a cost that depends on the request, or `|_| 5` for a fixed one",
    note = "a cost that is known only after an `await` is charged in the handler, by `Charge::settle` or `Charge::charge_more`"
)]
pub trait Cost: Fn(&Parts) -> u64 + Send + Sync + 'static {}

// Without the attribute the compiler describes `Fn` in place of this trait.
#[diagnostic::do_not_recommend]
impl<F> Cost for F where F: Fn(&Parts) -> u64 + Send + Sync + 'static {}
