//! How many bodies are read at the same time.

use std::net::IpAddr;
use std::sync::LazyLock;

use portcullis_core::Key;

use crate::{ClientIp, IpPrefix};
use portcullis_engine::engine::keyed_limit::{KeyedLimit, KeyedPermit};

/// Whose body it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sender {
    Key(u128),
    Peer(IpPrefix),
    Unknown,
}

impl Sender {
    pub(super) fn of_key(key: Key) -> Self {
        Self::Key(key.fingerprint())
    }

    /// A host of IPv6 commonly has a whole /64.
    pub(super) fn of_peer(peer: Option<IpAddr>) -> Self {
        peer.map_or(Self::Unknown, |peer| Self::Peer(ClientIp::peer().prefix(peer)))
    }
}

/// Returns the place of a body to read. `None` if too many are read in this process, of this sender or of all of them.
pub(super) fn take_place(sender: Sender) -> Option<KeyedPermit<Sender>> {
    static PLACES: LazyLock<KeyedLimit<Sender>> = LazyLock::new(|| KeyedLimit::new(MAX_BODIES));
    PLACES.acquire(Some(sender))
}

const MAX_BODIES: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    /// Other tests of the process take few places.
    #[test]
    fn sender_has_a_sixteenth_of_places() {
        let sender = |network| {
            Sender::of_peer(Some(Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, network).into()))
        };
        let take = |host| take_place(sender(host));
        let mut places: Vec<_> = (0..MAX_BODIES / 16).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none());
        places.extend(take(2));
        places.pop();
        places.pop();
        let again = take(1);
        assert!(again.is_some() && take(1).is_none());
        drop((places, again));
        let of = |address: &str| Sender::of_peer(Some(address.parse().unwrap()));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
