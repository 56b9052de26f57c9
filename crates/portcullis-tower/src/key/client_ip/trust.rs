//! Which hops are ours.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address::fold;

/// Which proxies are believed: those in certain networks, or so many in a row.
///
/// ```
/// use portcullis_tower::Trust;
///
/// let proxies = Trust::networks(["10.0.0.0/8", "2001:db8:7::/48", "192.0.2.7"]);
/// assert!(Trust::try_networks(["10.0.0.1/8"]).is_err(), "the address has bits outside of its network");
/// # let _ = proxies;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Trust {
    /// All there are, if `None`.
    networks: Option<Vec<IpNet>>,
    /// As many as there are, if `None`.
    hops: Option<usize>,
}

impl Trust {
    /// Whoever is in one of these networks, such as `10.0.0.0/8`, `fd00::/8` or a single address. No network is trusted
    /// unless it is named here, private ones included.
    ///
    /// # Panics
    ///
    /// If [`Trust::try_networks`] refuses a network.
    #[track_caller]
    pub fn networks(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        match Self::try_networks(networks) {
            Ok(trust) => trust,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`Trust::networks`], for networks that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If one is neither an address nor a network, or has bits set outside of its prefix, which is more often a slip
    /// than not.
    pub fn try_networks(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, TrustError> {
        let networks = networks.into_iter().map(|network| parse_network(network.as_ref()));
        let networks: Vec<_> = networks.collect::<Result<_, _>>()?;
        Ok(Self { networks: Some(IpNet::aggregate(&networks)), hops: None })
    }

    /// The last `count` hops, whatever their addresses: the peer and the `count - 1` that stand before it in the header.
    ///
    /// Right only if **nobody** can reach the server except through all of them; whoever can chooses his own address.
    /// With networks that question does not arise. `Trust::hops(0)` trusts nobody.
    pub const fn hops(count: usize) -> Self {
        Self { networks: None, hops: Some(count) }
    }

    /// At most `count` hops, each of which is trusted by itself as well.
    pub const fn at_most(mut self, count: usize) -> Self {
        self.hops = Some(count);
        self
    }

    /// Whether to believe what a hop says, with so many hops between it and this server.
    pub(super) fn believes(&self, address: IpAddr, hops_before: usize) -> bool {
        self.hops.is_none_or(|most| hops_before < most)
            && self.networks.as_ref().is_none_or(|networks| networks.iter().any(|net| net.contains(&address)))
    }

    /// Whether every address of one family is in the networks.
    pub(super) fn is_everything(&self) -> bool {
        self.networks
            .as_ref()
            .is_some_and(|networks| networks.iter().any(|network| network.prefix_len() == 0))
    }
}

/// Why something is no network to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// Neither an address nor a network.
    #[error("{network:?} is neither an address nor a network such as 10.0.0.0/8")]
    Syntax {
        /// What it is.
        network: String,
    },
    /// An address with a prefix that it is longer than.
    #[error("{network} has bits outside of its prefix: write {meant} if that is meant")]
    HostBits {
        /// What was written.
        network: String,
        /// The network that the address is in.
        meant: String,
    },
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

/// Addresses are folded before they are looked for, so networks of mapped addresses are as well.
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
    fn a_network_has_its_addresses_and_no_others() {
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
            assert_eq!(trust.believes(address.parse().unwrap(), 1_000), trusted, "{address}");
        }
        assert!(!Trust::networks([""; 0]).believes([0, 0, 0, 0].into(), 0));
    }

    #[test]
    fn hops_are_counted_whatever_their_address_and_with_networks_both_have_to_hold() {
        let [ours, other] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 1])];
        assert!(Trust::hops(1).believes(other, 0) && !Trust::hops(1).believes(ours, 1));
        assert!(!Trust::hops(0).believes(ours, 0));
        let both = Trust::networks(["10.0.0.0/8"]).at_most(1);
        assert!(both.believes(ours, 0) && !both.believes(ours, 1) && !both.believes(other, 0));
    }

    #[test]
    fn everything_is_known_when_it_is_seen() {
        assert!(Trust::networks(["0.0.0.0/0"]).is_everything());
        assert!(Trust::networks(["0.0.0.0/1", "128.0.0.0/1", "10.0.0.0/8"]).is_everything());
        assert!(Trust::networks(["10.0.0.0/8", "::/0"]).is_everything());
        assert!(!Trust::networks(["10.0.0.0/8", "::/1"]).is_everything());
        assert!(!Trust::hops(3).is_everything());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "localhost", "10.0.0.0/8 ", "fe80::1%eth0", "10.0.0.0/-1"]
        {
            let error = Trust::try_networks([text]).unwrap_err();
            assert_eq!(error, TrustError::Syntax { network: text.to_owned() });
        }
        let error = Trust::try_networks(["10.0.0.1/8"]).unwrap_err().to_string();
        assert_eq!(error, "10.0.0.1/8 has bits outside of its prefix: write 10.0.0.0/8 if that is meant");
    }
}
