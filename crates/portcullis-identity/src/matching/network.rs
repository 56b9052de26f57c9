//! Requests by the network of the client.

use std::fmt;

use http::request::Parts;

use super::{RequestMatcher, Undecided};
use crate::{ClientIp, KeyError, Networks};
use portcullis_core::or_panic;
use portcullis_log::{LogThrottle, codes};

/// Matches requests of clients in these networks, by the address that a [`ClientIp`] finds.
///
/// It trusts what the `ClientIp` trusts: a header counts only if a trusted proxy wrote it. Pass the one that the layer charges
/// by. An IPv4-mapped IPv6 address is treated as the IPv4 address, in the networks and in the address.
///
/// If the address cannot be determined, the request is [undecided](super::Undecided), with the error of the `ClientIp`:
/// it is not exempt, and where the network is denied, it gets the response to that error (400 or 500).
///
/// **Do not exempt the network of a proxy.** A proxy that writes no header is the client of all requests that it forwards, and an
/// exemption of its network exempts all of them.
///
/// ```
/// use std::net::SocketAddr;
///
/// use http::Request;
/// use portcullis::ClientIp;
/// use portcullis::key::Trust;
/// use portcullis::layer::{Network, RequestMatcher};
///
/// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/24"])).x_forwarded_for();
/// let office = Network::of(&clients, ["203.0.113.0/24", "2001:db8:7::/48"]);
///
/// let is_office = |peer: [u8; 4], forwarded: &str| {
///     let request = Request::builder().extension(SocketAddr::from((peer, 1024))).header("x-forwarded-for", forwarded);
///     office.matches(&request.body(()).unwrap().into_parts().0)
/// };
/// assert_eq!(is_office([10, 0, 0, 9], "203.0.113.7"), Ok(true));
/// // A peer that is not a trusted proxy is the client, and the entries that a client writes do not count.
/// assert_eq!(is_office([198, 51, 100, 1], "203.0.113.7"), Ok(false));
/// assert_eq!(is_office([10, 0, 0, 9], "203.0.113.7, 198.51.100.1"), Ok(false));
/// assert!(is_office([10, 0, 0, 9], "unknown").is_err());
/// ```
#[derive(Debug)]
pub struct Network {
    clients: ClientIp,
    networks: Networks,
    no_address: LogThrottle,
}

impl Network {
    /// Matches clients in these networks, such as `10.0.0.0/8`, `fd00::/8` or a single address. Without networks it matches none. Those
    /// from configuration or input are [`Networks`].
    ///
    /// # Panics
    ///
    /// If texts are no networks, for which [`Networks::new`] returns an error.
    #[track_caller]
    pub fn of(clients: &ClientIp, networks: impl TryInto<Networks, Error: fmt::Display>) -> Self {
        let networks = or_panic(networks.try_into());
        Self { clients: clients.clone(), networks, no_address: LogThrottle::hourly() }
    }

    fn log_misconfiguration(&self, error: &KeyError) {
        self.no_address.count(0, None, || {
            let error = error.clone();
            move |counted| {
                tracing::error!(
                    code = %codes::NO_ADDRESS_TO_COMPARE,
                    %error,
                    requests = counted.events,
                    "a list by network of the rate limiter has no address to compare: no client is exempt by it; counted \
                     since the last such line"
                );
            }
        });
    }
}

impl RequestMatcher for Network {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        match self.clients.client_of(parts) {
            Ok(client) => Ok(self.networks.contain(&client)),
            Err(error) => {
                if !error.is_client_fault() {
                    self.log_misconfiguration(&error);
                }
                Err(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use http::Request;

    use super::*;

    fn parts(peer: &str) -> Parts {
        let peer = SocketAddr::new(peer.parse::<IpAddr>().unwrap(), 1);
        Request::builder().extension(peer).body(()).unwrap().into_parts().0
    }

    #[test]
    fn mapped_addresses_are_ipv4_addresses() {
        let clients = ClientIp::peer();
        for network in ["192.0.2.0/24", "::ffff:192.0.2.0/120"] {
            let network = Network::of(&clients, [network]);
            for (peer, expected) in [
                ("192.0.2.1", true),
                ("::ffff:192.0.2.1", true),
                ("192.0.3.1", false),
                ("::ffff:192.0.3.1", false),
                ("::192.0.2.1", false),
                ("64:ff9b::192.0.2.1", false),
            ] {
                assert_eq!(network.matches(&parts(peer)), Ok(expected), "{peer}");
            }
        }
        assert_eq!(Network::of(&clients, [""; 0]).matches(&parts("::1")), Ok(false));
    }

    #[test]
    #[should_panic(expected = "write 10.0.0.0/8 if that is meant; \"x\" is neither an address nor a network")]
    fn invalid_literal_panics_with_all_mistakes() {
        let _ = Network::of(&ClientIp::peer(), ["10.0.0.1/8", "x"]);
    }

    #[test]
    fn without_an_address_a_request_is_undecided() {
        let network = Network::of(&ClientIp::peer(), ["0.0.0.0/0", "::/0"]);
        let (parts, ()) = Request::new(()).into_parts();
        let Err(Undecided::Identity(error)) = network.matches(&parts) else { unreachable!() };
        assert!(!error.is_client_fault());
    }
}
