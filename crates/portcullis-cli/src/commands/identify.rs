//! `portcullis identify`: the address that the layer would charge.

use std::net::IpAddr;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use portcullis_tower::{ClientIp, Networks, Trust};

use crate::request::{parse_header, parse_peer};

/// Prints the client address that the layer would find, and the network that it would charge.
///
/// Exits with 0, or with 2 and the reason on standard error if the layer would reject the request. It runs the layer's own
/// code on the arguments.
#[derive(Debug, Args)]
pub(crate) struct Identify {
    /// The address at the other end of the connection. A port and a zone are dropped.
    #[arg(long, value_name = "ADDR", value_parser = parse_peer)]
    peer: IpAddr,

    /// Where the client's address is found: `peer`, `x-forwarded-for`, `forwarded`, `header:NAME` for a header with one address, or
    /// `header-or-peer:NAME` if a trusted proxy that sends no such header is the client itself.
    #[arg(long, value_name = "SOURCE", default_value = "peer")]
    source: Source,

    /// A network of trusted proxies, such as 10.0.0.0/8. May be given several times, or with several values.
    #[arg(long, value_name = "CIDR", num_args = 1.., value_delimiter = ',')]
    trust: Vec<String>,

    /// The maximum number of trusted hops. Without `--trust`, exactly this number is trusted, whatever their addresses.
    #[arg(long, value_name = "N")]
    hops: Option<usize>,

    /// A header of the request, as in `'X-Forwarded-For: 192.0.2.1'`. May be given several times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(HeaderName, HeaderValue)>,

    /// The length of the IPv6 prefix that is charged as one client, in bits.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..=128))]
    ipv6_prefix: u8,

    /// The length of the IPv4 prefix that is charged as one client, in bits.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u8).range(1..=32))]
    ipv4_prefix: u8,
}

#[derive(Clone, Debug)]
enum Source {
    Peer,
    XForwardedFor,
    Forwarded,
    Header(String),
    HeaderOrPeer(String),
}

impl Identify {
    /// Prints the address and the network.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let trust = match (self.trust.as_slice(), self.hops) {
            ([], hops) => Trust::hops(hops.unwrap_or(0)),
            (networks, None) => Trust::networks(Networks::new(networks)?),
            (networks, Some(hops)) => Trust::networks(Networks::new(networks)?).at_most(hops),
        };
        let clients = match self.source {
            Source::Peer => ClientIp::peer(),
            Source::XForwardedFor => ClientIp::behind(trust).x_forwarded_for(),
            Source::Forwarded => ClientIp::behind(trust).forwarded(),
            Source::Header(name) => ClientIp::behind(trust).header(&header_name(&name)?),
            Source::HeaderOrPeer(name) => ClientIp::behind(trust).header_or_peer(&header_name(&name)?),
        };
        let clients = clients.ipv6_prefix(self.ipv6_prefix).ipv4_prefix(self.ipv4_prefix);
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        let address = clients.find(self.peer, &headers)?;
        println!("{address} {}", clients.prefix(address));
        Ok(())
    }
}

fn header_name(name: &str) -> anyhow::Result<HeaderName> {
    name.parse().with_context(|| format!("{name:?}"))
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "peer" => Ok(Self::Peer),
            "x-forwarded-for" => Ok(Self::XForwardedFor),
            "forwarded" => Ok(Self::Forwarded),
            _ => match text.split_once(':') {
                Some(("header", name)) => Ok(Self::Header(name.to_owned())),
                Some(("header-or-peer", name)) => Ok(Self::HeaderOrPeer(name.to_owned())),
                _ => Err(
                    "a source is `peer`, `x-forwarded-for`, `forwarded`, `header:NAME` or `header-or-peer:NAME`"
                        .to_owned(),
                ),
            },
        }
    }
}
