//! Requests by a value that another layer inserted.

use std::any::type_name;
use std::fmt;

use http::Extensions;
use http::request::Parts;

use super::{RequestMatcher, Undecided};

/// Matches requests by a value in their extensions, which a layer outside of this one inserts: the account that authentication has
/// found. A client cannot write extensions.
///
/// ```
/// use http::Request;
/// use portcullis::layer::{ExtensionValue, RequestMatcher};
///
/// #[derive(Clone)]
/// struct Account {
///     is_internal: bool,
/// }
///
/// let internal = ExtensionValue::is(|account: &Account| account.is_internal);
///
/// let (mut parts, ()) = Request::new(()).into_parts();
/// assert_eq!(internal.matches(&parts), Ok(false));
/// parts.extensions.insert(Account { is_internal: true });
/// assert_eq!(internal.matches(&parts), Ok(true));
/// ```
pub struct ExtensionValue {
    test: Box<dyn Fn(&Extensions) -> bool + Send + Sync>,
    name: &'static str,
}

impl ExtensionValue {
    /// Matches requests that have a `T` for which `test` returns `true`.
    ///
    /// A request without a `T` does not match. So `only` by it does not limit requests that no layer
    /// has authenticated: write the opposite with `except`, which limits them.
    pub fn is<T: Send + Sync + 'static>(test: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        let test = move |extensions: &Extensions| extensions.get::<T>().is_some_and(&test);
        Self { test: Box::new(test), name: type_name::<T>() }
    }
}

impl RequestMatcher for ExtensionValue {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        Ok((self.test)(&parts.extensions))
    }
}

impl fmt::Debug for ExtensionValue {
    /// Prints the name of the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtensionValue").field(&format_args!("{}", self.name)).finish()
    }
}
