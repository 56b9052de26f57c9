//! Random choices that are reproducible from a seed.

/// `SplitMix64`. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. The same seed gives the same choices.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`, which must not be zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = self.below(choices.len() as u64);
        &choices[usize::try_from(index).unwrap_or_default()]
    }
}
