//! A Lua script.

use bytes::Bytes;
use sha1::{Digest as _, Sha1};

use super::value::Value;

/// A SHA-1 in hexadecimal.
pub(crate) type Sha = [u8; 40];

/// A Lua script and the SHA-1 by which the server knows it. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) source: Bytes,
    pub(crate) sha: Sha,
    /// Tells from a reply whether it proves that the server accepts writes.
    pub(crate) wrote: fn(&Value) -> bool,
}

impl Script {
    /// Makes a script from its source.
    pub(crate) fn new(source: &str) -> Self {
        let sha = format!("{:x}", Sha1::digest(source));
        let sha = sha.as_bytes().try_into().expect("160 bits are 40 digits");
        Self { source: Bytes::copy_from_slice(source.as_bytes()), sha, wrote: |_| true }
    }

    /// Sets the function that tells from a reply whether the script has written to its keys; every reply does by default.
    pub(crate) fn with_write_check(self, wrote: fn(&Value) -> bool) -> Self {
        Self { wrote, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_server() {
        // As `SCRIPT LOAD "return 1"` replies.
        assert_eq!(&Script::new("return 1").sha, b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
