//! What the steps run with.

use std::{env, thread};

use super::report::Report;
use crate::cmd::Cmd;
use crate::workspace::Workspace;

/// How much of each check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Size {
    /// What a change needs: the tests, and the checks that take seconds.
    Quick,
    /// Every kind of check once.
    Gate,
    /// Every check in full.
    Full,
}

/// What a step runs in, and what it reports to.
pub(super) struct Run<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) size: Size,
    pub(super) report: &'a mut Report,
}

impl Size {
    /// The flag of `cargo xtask test`, and a blank.
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Quick => "",
            Self::Gate => "--gate ",
            Self::Full => "--all ",
        }
    }
}

/// Lets a test program run as many random steps as the size asks for, and three tests at a time per processor, unless a number is
/// set: most tests wait for a server. With all random steps a test computes more, so that three of them would delay the servers that
/// others wait for.
pub(super) fn sized(test: Cmd, size: Size) -> Cmd {
    const THREADS: &str = "RUST_TEST_THREADS";
    // The random steps per algorithm. Otherwise the tests run 10 000.
    let test = if size == Size::Full { test.env("PORTCULLIS_RANDOM_STEPS", "100000") } else { test };
    let each = if size == Size::Full { 2 } else { 3 };
    let threads = thread::available_parallelism().map_or(each, |processors| each * processors.get());
    if env::var_os(THREADS).is_some() { test } else { test.env(THREADS, threads.to_string()) }
}
