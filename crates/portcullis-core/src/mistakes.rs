//! Everything that is wrong with a value.

use alloc::vec::Vec;
use alloc::{slice, vec};
use core::fmt;

/// Every mistake of a value that comes from configuration or input, at least one. It prints all of them, separated by `; `.
///
/// ```
/// use portcullis_core::{Gcra, Policy, PolicySettings, Quota};
///
/// let settings = PolicySettings { max_lease: Some(0), ..PolicySettings::default() };
/// let mistakes = Policy::try_new("", Gcra::new(Quota::per_second(10).burst(10)), settings).unwrap_err();
/// assert_eq!(mistakes.iter().count(), 2);
/// for mistake in mistakes {
///     println!("{mistake}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes<E>(Vec<E>);

impl<E> Mistakes<E> {
    /// Returns `value`, or the mistakes if there are some.
    ///
    /// # Errors
    ///
    /// If there are mistakes.
    pub fn none_or<T>(mistakes: Vec<E>, value: T) -> Result<T, Self> {
        if mistakes.is_empty() { Ok(value) } else { Err(Self(mistakes)) }
    }

    /// Returns all values, or all mistakes if there are some.
    ///
    /// # Errors
    ///
    /// If there are mistakes.
    pub fn all<T>(results: impl IntoIterator<Item = Result<T, E>>) -> Result<Vec<T>, Self> {
        let (mut values, mut mistakes) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(value) => values.push(value),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        Self::none_or(mistakes, values)
    }

    /// The mistakes, in the order of the parameters and the fields.
    pub fn iter(&self) -> slice::Iter<'_, E> {
        self.0.iter()
    }
}

impl<E> From<E> for Mistakes<E> {
    fn from(mistake: E) -> Self {
        Self(vec![mistake])
    }
}

impl<E> IntoIterator for Mistakes<E> {
    type Item = E;
    type IntoIter = vec::IntoIter<E>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'m, E> IntoIterator for &'m Mistakes<E> {
    type Item = &'m E;
    type IntoIter = slice::Iter<'m, E>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<E: fmt::Display> fmt::Display for Mistakes<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for Mistakes<E> {}
