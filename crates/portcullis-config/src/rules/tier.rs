//! Tiers of callers.

use std::borrow::Cow;

/// The tier of the caller, such as `pro`, in the extensions of a request: a rule with `tiers` takes the quota of this tier.
///
/// Authentication inserts it in front of the layer. A request without one, or with one that the rule does not name, has the quota of
/// the policy.
///
/// ```
/// use http::Request;
/// use portcullis::rules::Tier;
///
/// let request = Request::builder().extension(Tier::new("pro")).body(()).unwrap();
/// assert_eq!(request.extensions().get::<Tier>().unwrap().name(), "pro");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tier(Cow<'static, str>);

impl Tier {
    /// The tier of this name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}
