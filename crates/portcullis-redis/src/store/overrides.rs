//! Overrides: keys with a grant of another quota, and blocked keys.
//!
//! A check is made under the grant that this process has [seen](seen) last, and the script compares it with the record, at the server's
//! time. If they differ, nothing in the decision is charged, and it is made once more under the grant of the reply.

mod clients;
mod exchange;
mod guarded;
mod records;
mod seen;

pub(crate) use self::seen::SeenGrants;
