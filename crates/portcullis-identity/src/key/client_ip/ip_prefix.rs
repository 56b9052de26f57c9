//! Networks of addresses.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use portcullis_core::KeyWriter;

use super::address::fold;

/// The network that is charged for an address, of the configured prefix length.
///
/// ```
/// use portcullis::{ClientIp, Secret};
///
/// let prefix = ClientIp::peer().prefix("2001:db8:1:2:3:4:5:6".parse()?);
/// assert_eq!(prefix.to_string(), "2001:db8:1:2::/64");
///
/// // The key that requests from this network are charged to.
/// let mut hasher = Secret::published().hasher();
/// prefix.write(&mut hasher.writer());
/// assert!(hasher.finish().is_ok());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpPrefix(IpNet);

impl IpPrefix {
    /// Writes the network to a key, as [`ClientIp`](super::ClientIp) does.
    pub fn write(&self, key: &mut KeyWriter<'_>) {
        // With the length, because a network and a smaller one inside it can have the same address.
        match self.0 {
            IpNet::V4(network) => {
                let [a, b, c, d] = network.addr().octets();
                key.part("ipv4", &[a, b, c, d, network.prefix_len()]);
            }
            IpNet::V6(network) => {
                let mut bytes = [0; 17];
                bytes[..16].copy_from_slice(&network.addr().octets());
                bytes[16] = network.prefix_len();
                key.part("ipv6", &bytes);
            }
        }
    }
}

impl fmt::Display for IpPrefix {
    /// Prints the network, as in `192.0.2.1/32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The configured prefix lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PrefixLengths {
    pub(super) ipv4: u8,
    pub(super) ipv6: u8,
}

impl PrefixLengths {
    pub(super) const DEFAULT: Self = Self { ipv4: 32, ipv6: 64 };

    pub(super) fn prefix_of(self, address: IpAddr) -> IpPrefix {
        let address = fold(address);
        let prefix = if address.is_ipv4() { self.ipv4 } else { self.ipv6 };
        IpPrefix(IpNet::new_assert(address, prefix).trunc())
    }
}
