//! How many bodies are read at the same time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use portcullis_core::Key;

use crate::{ClientIp, IpPrefix};

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

/// The place of a body that is read.
#[derive(Debug)]
pub(super) struct Place(Sender);

impl Place {
    /// `None` if too many bodies are read, of this sender or of all of them.
    pub(super) fn take(sender: Sender) -> Option<Self> {
        let mut taken = taken();
        if taken.all >= MAX_BODIES {
            return None;
        }
        let of_sender = taken.of.entry(sender).or_default();
        if *of_sender >= MAX_OF_SENDER {
            return None;
        }
        *of_sender += 1;
        taken.all += 1;
        Some(Self(sender))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = taken();
        taken.all -= 1;
        if let Some(of_sender) = taken.of.get_mut(&self.0) {
            *of_sender -= 1;
            if *of_sender == 0 {
                taken.of.remove(&self.0);
            }
        }
    }
}

/// The places that are taken in this process.
#[derive(Debug, Default)]
struct Taken {
    all: u32,
    of: HashMap<Sender, u32>,
}

fn taken() -> MutexGuard<'static, Taken> {
    static TAKEN: LazyLock<Mutex<Taken>> = LazyLock::new(Mutex::default);
    // It is consistent between any two statements that can panic.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

const MAX_BODIES: u32 = 1_024;
const MAX_OF_SENDER: u32 = MAX_BODIES / 16;

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
        let take = |host| Place::take(sender(host));
        let mut places: Vec<_> = (0..MAX_OF_SENDER).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none());
        places.extend(take(2));
        places.pop();
        places.pop();
        let again = take(1);
        assert!(again.is_some() && take(1).is_none());
        drop((places, again));
        assert!(!taken().of.contains_key(&sender(1)));
        let of = |address: &str| Sender::of_peer(Some(address.parse().unwrap()));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
