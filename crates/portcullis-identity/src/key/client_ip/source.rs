//! Finds the client from the peer and one header.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::address::{fold, parse_element};
use super::forwarded::{self, Node};
use super::{ClientIpError, Trust};

/// The one header that trusted proxies write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    XForwardedFor,
    Forwarded,
    /// A header with one address, without which the request is rejected.
    Single(HeaderName),
    /// A header with one address, without which the peer is the client.
    SingleOrPeer(HeaderName),
}

impl Source {
    pub(super) fn header(&self) -> &HeaderName {
        match self {
            Self::XForwardedFor => &X_FORWARDED_FOR,
            Self::Forwarded => &http::header::FORWARDED,
            Self::Single(name) | Self::SingleOrPeer(name) => name,
        }
    }

    /// Returns the first hop, from the server outwards, that is not trusted; the farthest if all are.
    pub(super) fn client(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        trust: &Trust,
    ) -> Result<IpAddr, ClientIpError> {
        let peer = fold(peer);
        if !trust.trusts(peer, 0) {
            return Ok(peer);
        }
        let lines = headers.get_all(self.header()).iter();
        match self {
            Self::XForwardedFor => {
                let elements = lines.rev().flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
                let hops =
                    elements.map(|element| parse_element(element).map_or(Node::Malformed, Node::Address));
                self.walk(peer, hops, trust)
            }
            Self::Forwarded => {
                let nodes = forwarded::parse(lines.map(HeaderValue::as_bytes))
                    .ok_or_else(|| ClientIpError::Grammar { header: self.header().clone() })?;
                self.walk(peer, nodes.into_iter().rev(), trust)
            }
            Self::Single(name) => single(lines, name),
            Self::SingleOrPeer(name) => match single(lines, name) {
                Err(ClientIpError::Absent { .. }) => Ok(peer),
                found => found,
            },
        }
    }

    fn walk(
        &self,
        peer: IpAddr,
        hops: impl Iterator<Item = Node>,
        trust: &Trust,
    ) -> Result<IpAddr, ClientIpError> {
        let mut farthest = peer;
        for (index, hop) in hops.enumerate() {
            if !trust.trusts(farthest, index) {
                break;
            }
            let (header, position) = (|| self.header().clone(), index + 1);
            farthest = match hop {
                Node::Address(address) => address,
                Node::Hidden => return Err(ClientIpError::Hidden { header: header(), position }),
                Node::Malformed => return Err(ClientIpError::NotAnAddress { header: header(), position }),
            };
        }
        Ok(farthest)
    }
}

fn single<'a>(
    mut lines: impl Iterator<Item = &'a HeaderValue>,
    name: &HeaderName,
) -> Result<IpAddr, ClientIpError> {
    let line = lines.next().ok_or_else(|| ClientIpError::Absent { header: name.clone() })?;
    if lines.next().is_some() {
        return Err(ClientIpError::Repeated { header: name.clone() });
    }
    parse_element(line.as_bytes())
        .ok_or_else(|| ClientIpError::NotAnAddress { header: name.clone(), position: 1 })
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
