//! The examples of the book, one module a page, as programs of a user who depends on the facade.

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/pages.rs"));
