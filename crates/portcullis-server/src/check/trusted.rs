//! The proxies that are believed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The networks of the proxies that may ask.
#[derive(Clone, Debug)]
pub(crate) struct TrustedPeers(Vec<IpNet>);

impl TrustedPeers {
    pub(crate) fn loopback() -> Self {
        let four = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        let six = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);
        Self(vec![four.into(), six.into()])
    }

    /// An IPv4-mapped network is the IPv4 network that it stands for.
    pub(crate) fn networks(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().map(canonical).collect())
    }

    pub(crate) fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|network| network.contains(&peer))
    }
}

fn canonical(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(six) if six.prefix_len() >= MAPPED_PREFIX => match six.addr().to_ipv4_mapped() {
            Some(four) => Ipv4Net::new_assert(four, six.prefix_len() - MAPPED_PREFIX).into(),
            None => network,
        },
        _ => network,
    }
}

/// The bits before the address in an IPv4-mapped one.
const MAPPED_PREFIX: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_mapped_addresses_and_nothing_else() {
        let trusts = |networks: &[&str], peer: &str| {
            let networks = networks.iter().map(|network| network.parse().unwrap());
            TrustedPeers::networks(networks).contains(peer.parse().unwrap())
        };
        for (networks, peer, is_trusted) in [
            (&["10.0.0.0/8"][..], "10.1.2.3", true),
            (&["10.0.0.0/8"], "::ffff:10.1.2.3", true),
            (&["::ffff:10.0.0.0/104"], "10.1.2.3", true),
            (&["10.0.0.0/8"], "11.0.0.0", false),
            (&["10.0.0.0/8", "2001:db8::/32"], "2001:db8::1", true),
            (&["10.0.0.0/8"], "127.0.0.1", false),
            (&[], "127.0.0.1", false),
        ] {
            assert_eq!(trusts(networks, peer), is_trusted, "{networks:?} {peer}");
        }
        for (peer, is_trusted) in
            [("127.0.0.9", true), ("::1", true), ("::ffff:127.0.0.1", true), ("10.0.0.1", false)]
        {
            assert_eq!(TrustedPeers::loopback().contains(peer.parse().unwrap()), is_trusted, "{peer}");
        }
    }
}
