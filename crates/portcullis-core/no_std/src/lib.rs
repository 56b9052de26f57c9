//! A program without std that uses `portcullis-core`.
//!
//! std defines a panic handler, and a program can have only one. This package defines its own, so it builds only while
//! none of its dependencies links std. A search for `#![no_std]` in the source of the core would not cover the
//! dependencies; a target without std would have to be installed first.
#![no_std]

extern crate alloc;
#[cfg(feature = "std-crept-in")]
extern crate std;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use portcullis_core::Quota;

/// Uses the crate and its allocations; never run.
pub fn proof() -> Box<Quota> {
    Box::new(Quota::per_second(3))
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

struct NullAllocator;

// `alloc` does not link without an allocator, and the trait of allocators is unsafe. This one always returns null,
// which the contract permits; it is neither shipped nor run.
unsafe impl GlobalAlloc for NullAllocator {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NullAllocator = NullAllocator;
