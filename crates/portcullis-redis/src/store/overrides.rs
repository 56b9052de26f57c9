//! Overrides: keys with a grant of another quota, and blocked keys.
//!
//! The server cannot compute with a quota that it reads: the numbers of a check, such as its cost, are computed in core from the quota. So
//! a check is made under the grant that this process has [seen](seen) last, and the script compares it with the record, at the server's
//! time. If they differ, nothing in the decision is charged, and it is made once more under the grant of the reply. So a decision takes
//! one call, and one more in each process when a grant begins and when it ends. A block is found by the script alone.

mod guarded;
mod records;
mod seen;

pub(crate) use self::seen::SeenGrants;
