//! Asks the processor for a cache line before it is needed: the only unsafe code of the published crates.
//!
//! A decision on one of many keys waits for the entry of its key longer than it computes. So the entry is loaded while the clock is read and
//! the lock is taken. No safe function takes an address that may be that of nothing.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "see above"))]

/// Begins to load the cache line at an address. Any address will do: if it is that of nothing, nothing happens.
#[inline]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is in every processor of this architecture. It is a hint: it changes no memory and no register, reads nothing
    // that the program can see, and causes no fault, whatever the address is.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    // Others have no such function in stable Rust.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_can_be_prefetched() {
        let value = 7_u8;
        for address in [0, 1, usize::MAX, usize::MAX / 3, std::ptr::from_ref(&value).addr()] {
            prefetch(address);
        }
        assert_eq!(value, 7);
    }
}
