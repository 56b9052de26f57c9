//! Clients that are blocked under all policies.

use alloc::vec::Vec;
use core::time::Duration;

use super::span::Span;
use super::{MAX_LENGTH, OverrideError};
use crate::{Key, Timestamp};

/// The clients that are blocked under all policies, each until an instant: a list of [bounded](Self::MAX) length, which a store keeps as one
/// record beside its states.
///
/// A client is the key of which it is known. It is blocked under each policy that has exactly this key and, where the key has one part,
/// under each whose key begins with that part, such as that of a user on a route.
///
/// ```
/// use core::time::Duration;
/// use portcullis::store::BlockedClients;
/// use portcullis::{Secret, Timestamp};
///
/// let mut user = Secret::published().hasher();
/// user.writer().part("user", b"ada");
/// let mut on_route = user.clone();
/// on_route.writer().shared_part("route", b"/search");
/// let (ada, ada_on_route) = (user.finish()?, on_route.finish()?);
///
/// let (now, hour) = (Timestamp::EPOCH, Duration::from_secs(3_600));
/// let mut blocked = BlockedClients::default();
/// assert!(blocked.block(ada, now, hour));
/// assert_eq!((blocked.left(ada, now), blocked.left(ada_on_route, now)), (Some(hour), Some(hour)));
/// assert_eq!(blocked.left(ada, now.saturating_add(hour)), None);
/// # Ok::<(), portcullis::key::KeyWriteError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedClients(Vec<(Key, Span)>);

/// A change of the [`BlockedClients`] of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: stores make it.
pub struct ClientChange {
    /// The client.
    pub client: Key,
    /// For how long it is blocked from now on; `None` if its block ends.
    pub length: Option<Duration>,
}

impl BlockedClients {
    /// The most clients that are blocked at a time.
    pub const MAX: usize = 256;

    /// Makes a change, and forgets the blocks that have ended. Returns whether there was room.
    #[must_use]
    pub fn change(&mut self, change: ClientChange, now: Timestamp) -> bool {
        let ClientChange { client, length } = change;
        self.0.retain(|(known, span)| *known != client && span.left(now).is_some());
        let Some(length) = length else { return true };
        if self.0.len() == Self::MAX {
            return false;
        }
        self.0.push((client, Span::new(now, length)));
        true
    }

    /// Blocks a client for a length of time, in place of an earlier block of it. Returns whether there was room.
    #[must_use]
    pub fn block(&mut self, client: Key, now: Timestamp, length: Duration) -> bool {
        self.change(ClientChange { client, length: Some(length) }, now)
    }

    /// For how long a key is blocked still; `None` if it is not.
    pub fn left(&self, key: Key, now: Timestamp) -> Option<Duration> {
        let is_of = |client: &Key| [key.fingerprint(), key.slot()].contains(&client.fingerprint());
        let spans = self.0.iter().filter(|(client, _)| is_of(client));
        spans.filter_map(|(_, span)| span.left(now)).max()
    }

    /// The clients that are blocked still, and for how long.
    pub fn living(&self, now: Timestamp) -> impl Iterator<Item = (Key, Duration)> {
        self.0.iter().filter_map(move |(client, span)| Some((*client, span.left(now)?)))
    }

    /// The list by another clock, which is at `there` when the clock of this list is at `here`.
    #[must_use]
    pub fn on_clock(&self, here: Timestamp, there: Timestamp) -> Self {
        Self(self.living(here).map(|(client, left)| (client, Span::new(there, left))).collect())
    }

    /// Whether no client is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The instant at and after which the list decides like an empty one.
    pub fn expires_at(&self) -> Timestamp {
        self.0.iter().map(|(_, span)| span.until).max().unwrap_or(Timestamp::EPOCH)
    }

    /// The list as bytes, for a store that keeps them outside of the process: at most 14 kB.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = alloc::vec![VERSION];
        for (client, span) in &self.0 {
            bytes.extend(client.fingerprint().to_be_bytes());
            bytes.extend(client.slot().to_be_bytes());
            bytes.extend(u64::from(client.own_parts()).to_be_bytes());
            bytes.extend(span.until.as_micros().to_be_bytes());
            bytes.extend(span.micros.to_be_bytes());
        }
        bytes
    }

    /// Reads the bytes of [`encode`](Self::encode). `None` if they are not such.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (entries, []) = bytes.strip_prefix(&[VERSION])?.as_chunks::<ENTRY>() else { return None };
        let entry = |entry: &[u8; ENTRY]| {
            let mut words = entry.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
            let mut next = || words.next();
            let mut wide = || Some(u128::from(next()?) << 64 | u128::from(next()?));
            let (fingerprint, slot) = (wide()?, wide()?);
            let client = Key::from_fingerprints(fingerprint, slot, u8::try_from(next()?).ok()?);
            let until = next().filter(|until| *until <= Timestamp::MAX.as_micros())?;
            let micros = next().filter(|micros| *micros <= crate::time::saturating_micros(MAX_LENGTH))?;
            Some((client, Span { until: Timestamp::from_micros(until), micros }))
        };
        (entries.len() <= Self::MAX).then(|| entries.iter().map(entry).collect::<Option<_>>().map(Self))?
    }
}

/// Checks whether a client can be blocked under all policies for a length of time.
///
/// # Errors
///
/// If unrelated clients [share](Key::is_shared) the key, or if the length is zero or longer than [`MAX_LENGTH`].
pub fn validate_client(client: Key, length: Duration) -> Result<(), OverrideError> {
    if client.is_shared() {
        return Err(OverrideError::SharedClient);
    }
    if length.as_micros() == 0 {
        return Err(OverrideError::ClientTooShort { length });
    }
    if length > MAX_LENGTH {
        return Err(OverrideError::ClientTooLong { length });
    }
    Ok(())
}

const VERSION: u8 = 0x31;
/// A key in 40 bytes, its end and its length.
const ENTRY: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn key(first: u128) -> Key {
        Key::from_fingerprints(first, first, 1)
    }

    #[test]
    fn client_is_its_key_or_the_first_part_of_one() {
        let mut blocked = BlockedClients::default();
        let two_parts = Key::from_fingerprints(7, 8, 2);
        assert!(blocked.block(key(1), NOW, HOUR) && blocked.block(two_parts, NOW, 2 * HOUR));
        for (key, left) in [
            (key(1), Some(HOUR)),
            (Key::from_fingerprints(2, 1, 1), Some(HOUR)),
            (two_parts, Some(2 * HOUR)),
            (key(8), None),
            (Key::from_fingerprints(9, 8, 2), None),
            (key(2), None),
        ] {
            assert_eq!(blocked.left(key, NOW), left, "{key:?}");
        }
        let end = ClientChange { client: key(1), length: None };
        assert!(blocked.change(end, NOW));
        assert_eq!(blocked.left(key(1), NOW), None);
    }

    #[test]
    fn full_list_refuses_until_a_block_ends() {
        let mut blocked = BlockedClients::default();
        for client in 1..=256 {
            assert!(blocked.block(key(client), NOW, HOUR));
        }
        assert!(blocked.block(key(1), NOW, HOUR / 2) && !blocked.block(key(0), NOW, HOUR));
        assert!(blocked.block(key(0), NOW.saturating_add(HOUR / 2), HOUR));
    }

    #[test]
    fn list_is_read_back() {
        let mut blocked = BlockedClients::default();
        assert_eq!(BlockedClients::decode(&blocked.encode()), Some(blocked.clone()));
        for client in [Key::from_fingerprints(u128::MAX, 1 << 64, 255), key(3)] {
            assert!(blocked.block(client, NOW, HOUR));
        }
        let bytes = blocked.encode();
        assert_eq!(BlockedClients::decode(&bytes), Some(blocked.clone()));
        assert_eq!(blocked.expires_at(), NOW.saturating_add(HOUR));
        for broken in [
            &bytes[..bytes.len() - 1],
            &bytes[1..],
            &[],
            &[VERSION, 0],
            &[&[VERSION], &[255; ENTRY][..]].concat(),
        ] {
            assert_eq!(BlockedClients::decode(broken), None);
        }
        let there = NOW.saturating_add(5 * HOUR);
        let moved = blocked.on_clock(NOW.saturating_add(HOUR / 4), there);
        assert_eq!(moved.left(key(3), there), Some(HOUR * 3 / 4));
    }

    #[test]
    fn shared_key_is_no_client() {
        assert_eq!(validate_client(Key::from_fingerprints(1, 1, 0), HOUR), Err(OverrideError::SharedClient));
        assert!(
            validate_client(key(1), Duration::ZERO).is_err()
                && validate_client(key(1), Duration::MAX).is_err()
        );
        assert_eq!(validate_client(key(1), HOUR), Ok(()));
    }
}
