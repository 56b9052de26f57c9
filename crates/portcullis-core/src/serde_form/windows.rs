//! The windows of a calendar in a file.

use alloc::format;
use alloc::string::String;

use super::values::quoted;
use crate::WindowTable;

/// Makes the windows of a calendar from their description, or returns what is wrong with it.
pub(super) type ReadWindows = fn(&str) -> Result<&'static WindowTable, String>;

/// What reads a policy without time zone data.
pub(super) fn none(text: &str) -> Result<&'static WindowTable, String> {
    Err(format!(
        "the windows {} need time zone data: read the policy with `Policy::deserialize_with_windows`",
        quoted(text)
    ))
}
