//! A store without a server, for measurements of what the client side of a call costs.

use bytes::Bytes;
use portcullis_core::Secret;

use crate::connection::Connection;
use crate::protocol::keys::Layout;
use crate::protocol::value::Value;
use crate::store::{DEFAULT_ENTRIES, Inner, Leases, RedisStore};

impl RedisStore {
    /// Creates a store in which every call has this reply of the script at once. The call is encoded, and not sent.
    ///
    /// The reply is the instant, then for each check its status and its state, as doubles with the least significant byte first.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    #[doc(hidden)]
    pub fn with_recorded_reply(reply: &[u8]) -> Self {
        let layout =
            Layout::new("portcullis", Secret::published().id()).expect("both are letters and digits");
        let connection = Connection::recorded(Value::Text(Bytes::copy_from_slice(reply)));
        let leases = Leases::new(true);
        Self::from_inner(Inner::new(connection, layout, DEFAULT_ENTRIES, leases, None))
    }
}

#[cfg(test)]
mod tests {
    use portcullis_core::store::{Checks, Store as _};
    use portcullis_core::{Policy, Quota};

    use super::*;
    use crate::store::tests::key;

    #[tokio::test]
    async fn a_recorded_reply_decides() {
        let at = 1_700_000_000_000_000_u64;
        let reply = |status: u64, tat: u64| -> Vec<u8> {
            #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
            let double = |number: u64| (number as f64).to_le_bytes();
            [at, status, tat, 0].map(double).concat()
        };
        let policy = Policy::gcra("search", Quota::per_minute(60).burst(5));
        for (reply, is_allowed) in [(reply(2_001, at + 1_000_000), true), (reply(0, at + 5_000_000), false)] {
            let store = RedisStore::with_recorded_reply(&reply);
            let outcome = store.check(Checks::one(policy.clone(), key(&["ada"]), 1)).await.unwrap();
            assert_eq!(outcome.is_allowed(), is_allowed);
        }
    }
}
