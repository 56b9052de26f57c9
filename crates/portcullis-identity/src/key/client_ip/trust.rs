//! The trusted hops.

use std::fmt;
use std::net::IpAddr;

use http::request::Parts;
use ipnet::IpNet;
use portcullis_core::{Mistakes, or_panic};

use super::address::fold;
use super::peer;

/// The trusted proxies: by their networks, or by the number of hops.
///
/// ```
/// use portcullis::key::Trust;
///
/// let proxies = Trust::networks(["10.0.0.0/8", "2001:db8:7::/48", "192.0.2.7"]);
/// # let _ = proxies;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Trust {
    /// All networks, if `None`.
    networks: Option<Networks>,
    /// Any number, if `None`.
    hops: Option<usize>,
}

impl Trust {
    /// Trusts the addresses in these networks, such as `10.0.0.0/8`, `fd00::/8` or a single address. Other networks are not
    /// trusted, including private ones. Those from configuration or input are [`Networks`].
    ///
    /// # Panics
    ///
    /// If texts are no networks, for which [`Networks::new`] returns an error.
    #[track_caller]
    pub fn networks(networks: impl TryInto<Networks, Error: fmt::Display>) -> Self {
        Self { networks: Some(or_panic(networks.try_into())), hops: None }
    }

    /// Trusts the last `count` hops regardless of their addresses: the peer and the last `count - 1` elements of the header.
    ///
    /// Correct only if **no** client can reach the server except through all of them; a client that can chooses its own address.
    /// [`networks`](Self::networks) does not have this problem. `Trust::hops(0)` trusts no hop.
    pub const fn hops(count: usize) -> Self {
        Self { networks: None, hops: Some(count) }
    }

    /// Trusts at most `count` hops, each of which must also be in a trusted network.
    pub const fn at_most(mut self, count: usize) -> Self {
        self.hops = Some(count);
        self
    }

    /// Whether the value written by a hop is trusted, with `hops_before` hops between it and this server.
    pub(super) fn trusts(&self, address: IpAddr, hops_before: usize) -> bool {
        self.hops.is_none_or(|most| hops_before < most)
            && self.networks.as_ref().is_none_or(|networks| networks.contain(&address))
    }

    /// Whether the peer of a request is trusted.
    pub(crate) fn trusts_peer(&self, parts: &Parts) -> bool {
        peer(&parts.extensions).is_some_and(|peer| self.trusts(fold(peer.ip()), 0))
    }

    pub(super) fn named(&self) -> Option<&Networks> {
        self.networks.as_ref()
    }

    /// Whether every address of one family is in the networks.
    pub(super) fn is_everything(&self) -> bool {
        self.networks.as_ref().is_some_and(Networks::are_everything)
    }
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// Neither an address nor a network.
    #[error("{network:?} is neither an address nor a network such as 10.0.0.0/8")]
    Syntax {
        /// The text.
        network: String,
    },
    /// An address with bits set outside of its prefix.
    #[error("{network} has bits outside of its prefix: write {meant} if that is meant")]
    HostBits {
        /// The text.
        network: String,
        /// The network that contains the address.
        meant: String,
    },
}

/// Networks and addresses, of proxies that are [trusted](Trust::networks) or of clients that a
/// [matcher](crate::matching::Network) names.
///
/// ```
/// use portcullis::ClientIp;
/// use portcullis::key::{Networks, Trust};
///
/// let proxies = Networks::new("10.0.0.0/8 192.0.2.7".split(' '))?;
/// let _ = ClientIp::behind(Trust::networks(proxies)).x_forwarded_for();
/// let mistakes = Networks::new(["10.0.0.1/8", "10.0.0.0/33"]).unwrap_err();
/// assert_eq!(mistakes.len(), 2);
/// # Ok::<(), portcullis::Mistakes<portcullis::key::TrustError>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Parses networks such as `10.0.0.0/8`, `fd00::/8` or a single address, and joins them where possible. Networks of IPv4-mapped
    /// addresses become networks of IPv4 addresses.
    ///
    /// # Errors
    ///
    /// Each that is neither an address nor a network, or has bits set outside of its prefix, which is usually a mistake.
    pub fn new(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Mistakes<TrustError>> {
        let networks = Mistakes::all(networks.into_iter().map(|network| parse_network(network.as_ref())))?;
        Ok(Self(IpNet::aggregate(&networks)))
    }

    /// Returns whether every address of one family is in them.
    pub fn are_everything(&self) -> bool {
        self.0.iter().any(|network| network.prefix_len() == 0)
    }

    pub(crate) fn contain(&self, address: &IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

impl fmt::Display for Networks {
    /// Writes the networks with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, network) in self.0.iter().enumerate() {
            write!(f, "{}{network}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl<const N: usize> TryFrom<[&str; N]> for Networks {
    type Error = Mistakes<TrustError>;

    fn try_from(networks: [&str; N]) -> Result<Self, Self::Error> {
        Self::new(networks)
    }
}

fn parse_network(text: &str) -> Result<IpNet, TrustError> {
    let syntax = || TrustError::Syntax { network: text.to_owned() };
    let network = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => text.parse().map_err(|_| syntax())?,
    };
    if network.trunc() != network {
        let (network, meant) = (network.to_string(), network.trunc().to_string());
        return Err(TrustError::HostBits { network, meant });
    }
    Ok(fold_network(network))
}

/// Converts networks of IPv4-mapped addresses, because addresses are converted before they are compared.
fn fold_network(network: IpNet) -> IpNet {
    const MAPPED: u8 = 96;

    match (fold(network.addr()), network.prefix_len().checked_sub(MAPPED)) {
        (address @ IpAddr::V4(_), Some(prefix)) if matches!(network, IpNet::V6(_)) => {
            IpNet::new_assert(address, prefix)
        }
        _ => network,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_trusts_its_addresses_only() {
        let trust = Trust::networks(["10.0.0.0/8", "192.0.2.7", "::ffff:198.51.100.0/120", "fd00::/8"]);
        for (address, trusted) in [
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("198.51.100.200", true),
            ("198.51.101.0", false),
            ("fdff::1", true),
            ("fe00::1", false),
            ("::", false),
        ] {
            assert_eq!(trust.trusts(address.parse().unwrap(), 1_000), trusted, "{address}");
        }
        assert!(!Trust::networks([""; 0]).trusts([0, 0, 0, 0].into(), 0));
    }

    #[test]
    fn hops_are_counted_and_with_networks_both_must_hold() {
        let [ours, other] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 1])];
        assert!(Trust::hops(1).trusts(other, 0) && !Trust::hops(1).trusts(ours, 1));
        assert!(!Trust::hops(0).trusts(ours, 0));
        let both = Trust::networks(["10.0.0.0/8"]).at_most(1);
        assert!(both.trusts(ours, 0) && !both.trusts(ours, 1) && !both.trusts(other, 0));
    }

    #[test]
    fn trust_of_every_address_is_detected() {
        assert!(Trust::networks(["0.0.0.0/0"]).is_everything());
        assert!(Trust::networks(["0.0.0.0/1", "128.0.0.0/1", "10.0.0.0/8"]).is_everything());
        assert!(Trust::networks(["10.0.0.0/8", "::/0"]).is_everything());
        assert!(!Trust::networks(["10.0.0.0/8", "::/1"]).is_everything());
        assert!(!Trust::hops(3).is_everything());
    }

    #[test]
    fn invalid_network_is_named_in_the_error() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "localhost", "10.0.0.0/8 ", "fe80::1%eth0", "10.0.0.0/-1"]
        {
            let error = Networks::new([text]).unwrap_err();
            assert_eq!(error, TrustError::Syntax { network: text.to_owned() }.into());
        }
        let error = Networks::new(["10.0.0.1/8"]).unwrap_err().to_string();
        assert_eq!(error, "10.0.0.1/8 has bits outside of its prefix: write 10.0.0.0/8 if that is meant");
    }

    #[test]
    fn all_invalid_networks_are_returned_at_once() {
        let mistakes = Networks::new(["10.0.0.1/8", "10.0.0.0/8", "localhost"]).unwrap_err();
        assert!(matches!(
            mistakes.iter().as_slice(),
            [TrustError::HostBits { network, .. }, TrustError::Syntax { network: other }]
                if network == "10.0.0.1/8" && other == "localhost"
        ));
    }

    #[test]
    #[should_panic(expected = "\"10.0.0.0/33\" is neither an address nor a network such as 10.0.0.0/8")]
    fn invalid_literal_panics() {
        let _ = Trust::networks(["10.0.0.0/33"]);
    }
}
