//! The proxies that a server trusts.

use std::net::IpAddr;

use portcullis_tower::Trust;

/// Networks, a number of hops, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrustCase {
    networks: bool,
    hops: Option<usize>,
}

impl TrustCase {
    pub(super) const ALL: [Self; 5] = [
        Self { networks: true, hops: None },
        Self { networks: true, hops: Some(2) },
        Self { networks: false, hops: Some(0) },
        Self { networks: false, hops: Some(1) },
        Self { networks: false, hops: Some(3) },
    ];

    /// The setting of the layer.
    pub(super) fn trust(self) -> Trust {
        match (self.networks, self.hops) {
            (true, None) => Trust::networks(NETWORKS),
            (true, Some(hops)) => Trust::networks(NETWORKS).at_most(hops),
            (false, hops) => Trust::hops(hops.unwrap_or(0)),
        }
    }

    /// Whether a hop is trusted that is `index` hops away from the server.
    pub(super) fn trusts(self, address: IpAddr, index: usize) -> bool {
        let is_listed = match address {
            IpAddr::V4(four) => four.octets()[0] == 10 || four.octets()[..2] == [172, 16],
            IpAddr::V6(six) => six.octets()[0] == 0xfd,
        };
        (is_listed || !self.networks) && self.hops.is_none_or(|max| index < max)
    }
}

/// The last one is a network of IPv4-mapped addresses.
const NETWORKS: [&str; 3] = ["10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/112"];
