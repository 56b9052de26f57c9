//! Networks of addresses.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use portcullis_core::KeyWriter;

use super::address::fold;
use super::{KeyError, NamedPart};

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

impl NamedPart for PrefixLengths {
    fn name(&self) -> Cow<'_, str> {
        "ip".into()
    }

    fn example(&self) -> Cow<'_, str> {
        "203.0.113.20".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["ipv4"]
    }

    /// An address, or the network of it that is charged.
    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        let text = str::from_utf8(value).unwrap_or_default().trim_ascii();
        let (address, length) = match text.parse::<IpNet>() {
            Ok(network) => (Some(network.addr()), Some(network)),
            Err(_) => (text.parse().ok(), None),
        };
        let address: IpAddr = address.ok_or_else(|| {
            KeyError::client("must be an address such as 203.0.113.20 or 2001:db8::1, or the network of it that is charged")
        })?;
        let prefix = self.prefix_of(address);
        if let Some(network) = length
            && network.prefix_len() != network.max_prefix_len()
            && network.trunc() != prefix.0
        {
            return Err(KeyError::client(format!(
                "is a network that is not charged as one, but by networks of /{}: name one of them, or turn the whole network away by `deny`",
                prefix.0.prefix_len()
            )));
        }
        prefix.write(key);
        Ok(())
    }

    fn value_of<'v>(&self, tag: &str, bytes: &'v [u8]) -> Option<Cow<'v, [u8]>> {
        let address: IpAddr = match (tag, bytes) {
            ("ipv4", [address @ .., _]) => <[u8; 4]>::try_from(address).ok()?.into(),
            ("ipv6", [address @ .., _]) => <[u8; 16]>::try_from(address).ok()?.into(),
            _ => return None,
        };
        Some(Cow::Owned(address.to_string().into_bytes()))
    }
}
