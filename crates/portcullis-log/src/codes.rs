//! The codes of all warnings and errors in the log. `docs/reference/codes.md` is made of them.
//!
//! A line has its code in the field `code`, the first of its fields, by which a log can be filtered. A code that was published keeps its
//! meaning, and is never given to another line.

/// Makes a constant of each code, and what the page says of it: `/// what it means` and `NAME = "CODE" Level "how often", "the line",
/// "what to do";`. The line is as in the source up to something that varies, and `..` stands for that; it is empty if all of it varies.
macro_rules! codes {
    ($($(#[doc = $means:literal])+ $name:ident = $code:literal $level:ident $often:literal, $line:literal, $help:literal;)+) => {
        $($(#[doc = $means])+ pub const $name: &str = $code;)+

        #[cfg(test)]
        pub(super) const ALL: &[super::tests::Described] = &[$(super::tests::Described {
            code: $code,
            level: stringify!($level),
            often: $often,
            line: $line,
            means: concat!($($means),+),
            help: $help,
        }),+];
    };
}

mod charges;
mod identity;
mod load;
mod memory;
mod rules;
mod servers;
mod setup;
mod store;
mod watchers;

pub use charges::*;
pub use identity::*;
pub use load::*;
pub use memory::*;
pub use rules::*;
pub use servers::*;
pub use setup::*;
pub use store::*;
pub use watchers::*;

#[cfg(test)]
mod tests;
