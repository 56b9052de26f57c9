//! Everything that is wrong with a value.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// Every mistake of a value that comes from configuration or input, at least one, in the order of the parameters and fields. It
/// prints all of them, separated by `; `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes<E>(Vec<E>);

/// The value of a literal.
///
/// # Panics
///
/// If the literal is wrong, with its mistakes.
#[doc(hidden)]
#[track_caller]
pub fn or_panic<T>(made: Result<T, impl fmt::Display>) -> T {
    match made {
        Ok(value) => value,
        Err(mistakes) => panic!("{mistakes}"),
    }
}

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

impl<E> Deref for Mistakes<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.0
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
