//! What a page calls: texts through linear memory.
//!
//! A page asks for room by `input`, writes a text in UTF-8 there, and calls a function, which returns the length of the answer at
//! `output`.

use std::cell::RefCell;

thread_local! {
    static TEXTS: RefCell<Texts> = const { RefCell::new(Texts { input: Vec::new(), output: String::new() }) };
}

/// What the page has written, and what it reads.
struct Texts {
    input: Vec<u8>,
    output: String,
}

/// Makes room for a text of `length` bytes, and returns where.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    TEXTS.with_borrow_mut(|texts| {
        texts.input = vec![0; length];
        texts.input.as_mut_ptr()
    })
}

/// Where the answer of the last call is.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    TEXTS.with_borrow(|texts| texts.output.as_ptr())
}

/// [`run`](crate::run) of the text.
#[unsafe(no_mangle)]
extern "C" fn run() -> usize {
    call(crate::run)
}

/// [`explain`](crate::explain) of the text.
#[unsafe(no_mangle)]
extern "C" fn explain() -> usize {
    call(crate::explain)
}

/// [`export`](crate::export) of the text.
#[unsafe(no_mangle)]
extern "C" fn export() -> usize {
    call(crate::export)
}

/// [`version`](crate::version), whatever the text is.
#[unsafe(no_mangle)]
extern "C" fn version() -> usize {
    call(|_| crate::version().to_owned())
}

fn call(function: fn(&str) -> String) -> usize {
    TEXTS.with_borrow_mut(|texts| {
        let input = std::mem::take(&mut texts.input);
        texts.output = function(&String::from_utf8_lossy(&input));
        texts.output.len()
    })
}
