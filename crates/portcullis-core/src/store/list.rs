//! The lists that are moved with every decision.

use alloc::vec::{self, Vec};
use core::ops::{Deref, DerefMut};
use core::{array, fmt, mem};

/// A list with space for two elements in place; more are on the heap.
///
/// Most decisions have one check. One element has a variant of its own, so that code that knows of only one moves the bytes of one,
/// not those of two.
#[derive(Clone)]
pub(crate) enum List<T> {
    One([T; 1]),
    Two([T; 2]),
    /// Three or more elements, or none, which takes no memory on the heap.
    Other(Vec<T>),
}

impl<T> List<T> {
    pub(crate) const EMPTY: Self = Self::Other(Vec::new());

    /// A list of `length` elements, each of which is written to its place at once.
    #[inline]
    pub(crate) fn from_fn(length: usize, mut value: impl FnMut(usize) -> T) -> Self {
        match length {
            1 => Self::One([value(0)]),
            2 => Self::Two([value(0), value(1)]),
            _ => Self::Other((0..length).map(value).collect()),
        }
    }

    /// The list with one element more. Moves less than [`push`](Self::push) does.
    #[inline]
    pub(crate) fn and(self, value: T) -> Self {
        match self {
            Self::One([first]) => Self::Two([first, value]),
            mut others => {
                others.push(value);
                others
            }
        }
    }

    pub(crate) fn push(&mut self, value: T) {
        if let Self::Other(all) = self
            && !all.is_empty()
        {
            all.push(value);
            return;
        }
        *self = match mem::replace(self, Self::EMPTY) {
            Self::One([first]) => Self::Two([first, value]),
            Self::Two([first, second]) => {
                let mut all = Vec::with_capacity(LEAST_CAPACITY);
                all.extend([first, second, value]);
                Self::Other(all)
            }
            Self::Other(_) => Self::One([value]),
        };
    }

    /// Consumes the list and returns the element at `index`.
    pub(crate) fn take(self, index: usize) -> T {
        self.into_iter().nth(index).expect("the list has an element at the index")
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => one,
            Self::Two(two) => two,
            Self::Other(all) => all,
        }
    }
}

impl<T> DerefMut for List<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => one,
            Self::Two(two) => two,
            Self::Other(all) => all,
        }
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Self::EMPTY };
        let Some(second) = values.next() else { return Self::One([first]) };
        let Some(third) = values.next() else { return Self::Two([first, second]) };
        let (more, _) = values.size_hint();
        let mut all = Vec::with_capacity(more.saturating_add(3));
        all.extend([first, second, third]);
        all.extend(values);
        Self::Other(all)
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    #[inline]
    fn into_iter(self) -> IntoIter<T> {
        match self {
            Self::One(one) => IntoIter::One(one.into_iter()),
            Self::Two(two) => IntoIter::Two(two.into_iter()),
            Self::Other(all) => IntoIter::Other(all.into_iter()),
        }
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// The elements of a [`List`].
pub(crate) enum IntoIter<T> {
    One(array::IntoIter<T, 1>),
    Two(array::IntoIter<T, 2>),
    Other(vec::IntoIter<T>),
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Self::One(one) => one.next(),
            Self::Two(two) => two.next(),
            Self::Other(all) => all.next(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::One(one) => one.size_hint(),
            Self::Two(two) => two.size_hint(),
            Self::Other(all) => all.size_hint(),
        }
    }
}

/// The first capacity on the heap.
const LEAST_CAPACITY: usize = 4;

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;
    use alloc::string::{String, ToString as _};

    use super::*;

    #[test]
    fn a_list_of_any_length_is_a_vector() {
        let mut pushed = List::<String>::EMPTY;
        let mut expected: Vec<String> = Vec::new();
        for number in 0..7 {
            assert_eq!((&*pushed, pushed.first()), (&*expected, expected.first()));
            let collected: List<String> = expected.iter().cloned().collect();
            assert_eq!((&collected, collected.len()), (&pushed, expected.len()));
            assert_eq!(pushed.clone().into_iter().collect::<Vec<_>>(), expected);
            assert_eq!(collected.into_iter().size_hint(), (expected.len(), Some(expected.len())));
            assert_eq!(List::from_fn(expected.len(), |index| expected[index].clone()), pushed);
            let one_more = pushed.clone().and("+".to_owned());
            assert_eq!(one_more.split_last(), Some((&"+".to_owned(), &expected[..])));
            for (index, text) in expected.iter().enumerate() {
                assert_eq!(pushed.clone().take(index), *text);
            }
            for (text, other) in pushed.iter_mut().zip(&mut expected) {
                text.push('+');
                other.push('+');
            }
            pushed.push(number.to_string());
            expected.push(number.to_string());
        }
        assert!(pushed != List::EMPTY);
    }

    #[test]
    fn a_list_of_one_takes_the_space_of_two_at_most() {
        assert!(size_of::<List<[u64; 19]>>() <= size_of::<[[u64; 19]; 2]>() + 8);
    }
}
