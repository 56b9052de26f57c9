//! A program without std that uses `portcullis-core`.
//!
//! std brings a panic handler of its own, and a program has room for one. This package defines it, so it builds
//! only while nothing below it links std. Looking for `#![no_std]` in our own source would say nothing about
//! our dependencies; a target without std would have to be installed first.
#![no_std]

extern crate alloc;
#[cfg(feature = "std-crept-in")]
extern crate std;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use portcullis_core::Quota;

/// Reaches into the crate and its allocations; never run.
pub fn proof() -> Box<Quota> {
    Box::new(Quota::per_second(3))
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

struct Nothing;

// `alloc` does not link without an allocator, and the trait of allocators is unsafe. This one hands out nothing,
// which the contract permits; it is neither shipped nor run.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static NOTHING: Nothing = Nothing;
