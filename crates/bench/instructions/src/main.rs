//! The work whose instructions `cargo xtask test instructions` counts.
//!
//! Callgrind counts what [`measured`] executes, separately for each of its calls. The names of the cases are printed in the order of
//! the calls. What is measured is independent of the speed of the machine and of other load, because only instructions count.
//!
//! The allocator is not the system's: that of glibc merges freed memory or not, depending on addresses, which are random. It makes a
//! request cost 300 instructions more in one run than in the next.

mod layer;
mod memory;
mod redis;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("times {TIMES}");
    memory::cases();
    layer::cases();
    layer::list_cases();
    redis::cases();
    layer::shed_cases();
}

/// Measures a case after a warm-up, in which it allocates what later iterations reuse.
fn case(name: &str, mut once: impl FnMut()) {
    for _ in 0..WARM_UP {
        once();
    }
    println!("case {name}");
    measured(&mut once);
}

/// Callgrind finds this function by its name. So it is neither inlined nor generic, and it does more than to call another one.
#[inline(never)]
fn measured(once: &mut dyn FnMut()) {
    for _ in 0..TIMES {
        once();
    }
}

const WARM_UP: usize = 100;
/// Enough that what happens every few checks, such as a sweep, is averaged.
const TIMES: usize = 1_000;
