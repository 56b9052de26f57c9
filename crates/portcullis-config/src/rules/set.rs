//! Sets of rules.

/// Some of the [rules](crate::Rules) of a load, by their position in the file.
///
/// It allocates only if a rule beyond the first 64 is in it.
///
/// ```
/// use portcullis::rules::RuleSet;
///
/// let mut set = RuleSet::default();
/// set.insert(0);
/// set.insert(70);
/// assert_eq!(set.iter().collect::<Vec<_>>(), [0, 70]);
/// assert!(set.contains(70) && !set.contains(1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleSet {
    first: u64,
    /// Without zeros at the end, so that equal sets are equal here.
    more: Vec<u64>,
}

impl RuleSet {
    /// Adds the rule at this position.
    pub fn insert(&mut self, index: usize) {
        let bit = 1 << (index % WORD);
        match (index / WORD).checked_sub(1) {
            None => self.first |= bit,
            Some(word) => {
                if self.more.len() <= word {
                    self.more.resize(word + 1, 0);
                }
                if let Some(more) = self.more.get_mut(word) {
                    *more |= bit;
                }
            }
        }
    }

    /// Whether the rule at this position is in the set.
    pub fn contains(&self, index: usize) -> bool {
        let word = match (index / WORD).checked_sub(1) {
            None => self.first,
            Some(word) => self.more.get(word).copied().unwrap_or(0),
        };
        word & (1 << (index % WORD)) != 0
    }

    /// Whether no rule is in the set.
    pub fn is_empty(&self) -> bool {
        self.first == 0 && self.more.is_empty()
    }

    /// The number of rules in the set.
    pub fn len(&self) -> usize {
        self.words().map(|word| usize::try_from(word.count_ones()).unwrap_or(WORD)).sum()
    }

    /// The positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words().enumerate().flat_map(|(number, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = usize::try_from(rest.trailing_zeros()).ok().filter(|_| rest != 0)?;
                rest &= rest - 1;
                Some(number * WORD + bit)
            })
        })
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

impl FromIterator<usize> for RuleSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut set = Self::default();
        indices.into_iter().for_each(|index| set.insert(index));
        set
    }
}

const WORD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_inserted_in_order() {
        let positions = [999, 0, 63, 64, 65, 127, 128, 0];
        let set: RuleSet = positions.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 65, 127, 128, 999]);
        assert_eq!((set.len(), set.is_empty()), (7, false));
        assert!((0..1_100).all(|index| set.contains(index) == positions.contains(&index)));
        assert!(RuleSet::default().is_empty());
    }
}
