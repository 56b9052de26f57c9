//! What holds of any lines that a client may send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, HeaderValue};
use portcullis_tower::ClientIp;

use super::Header;
use super::belief::Belief;
use super::model::{self, Hop, Refusal};

/// Panics unless all laws hold of the lines of `input`. No input at all is no header.
pub(super) fn hold(header: &Header, input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').filter(|_| !input.is_empty()).collect();
    // A server knows neither other bytes nor so many headers.
    if lines.len() > 1_000 || lines.iter().any(|line| HeaderValue::from_bytes(line).is_err()) {
        return;
    }
    let hops = (header.read)(&lines);
    for belief in Belief::ALL {
        let subject =
            SystemUnderTest { header, belief, clients: (header.clients)(ClientIp::behind(belief.trust())) };
        subject.is_the_model(&lines, hops.as_deref());
        subject.ignores_strangers(&lines);
        subject.tells_a_client(&lines, hops.as_deref());
        subject.joins_lines(&lines);
        subject.believes_the_right(&lines, hops.is_some());
    }
}

struct SystemUnderTest<'a> {
    header: &'a Header,
    belief: Belief,
    clients: ClientIp,
}

impl SystemUnderTest<'_> {
    fn find(&self, peer: IpAddr, lines: &[&[u8]]) -> Result<IpAddr, Refusal> {
        let mut headers = HeaderMap::new();
        for line in lines {
            let value = HeaderValue::from_bytes(line).expect("every line was one");
            headers.append(HeaderName::from_static(self.header.name), value);
        }
        model::in_short(self.clients.find(peer, &headers))
    }

    fn is_the_model(&self, lines: &[&[u8]], hops: Option<&[Hop]>) {
        for peer in [PROXY, STRANGER] {
            let expected = model::client(peer, hops, self.belief);
            assert_eq!(self.find(peer, lines), expected, "{:?} {peer} {hops:?}", self.belief);
        }
        assert_eq!(self.find(MAPPED_PROXY, lines), self.find(PROXY, lines), "{:?}", self.belief);
    }

    fn ignores_strangers(&self, lines: &[&[u8]]) {
        if !self.belief.holds(STRANGER, 0) {
            assert_eq!(self.find(STRANGER, lines), Ok(STRANGER), "{:?}", self.belief);
        }
    }

    /// A believed address is a client only if it is the farthest of all, and none is IPv4 in IPv6 clothes.
    fn tells_a_client(&self, lines: &[&[u8]], hops: Option<&[Hop]>) {
        let Ok(client) = self.find(PROXY, lines) else { return };
        assert_eq!(client, client.to_canonical());
        let hops = hops.unwrap_or_default();
        if self.belief.holds(PROXY, 0) && !model::is_settled(PROXY, hops, self.belief) {
            let farthest = hops.first().copied().unwrap_or(Hop::Address(PROXY));
            assert_eq!(Hop::Address(client), farthest, "{:?}", self.belief);
        }
    }

    /// Joined, the lines say the same; only a string that spans two of them may become whole.
    fn joins_lines(&self, lines: &[&[u8]]) {
        if lines.is_empty() {
            return;
        }
        let apart = self.find(PROXY, lines);
        for comma in [&b","[..], b", ", b"\t,\t"] {
            let together = self.find(PROXY, &[&lines.join(comma)]);
            assert!(
                together == apart || apart == Err(Refusal::Grammar),
                "{:?} {apart:?} {together:?}",
                self.belief
            );
        }
    }

    /// What a proxy adds on the right is what counts, whatever stands left of it.
    fn believes_the_right(&self, lines: &[&[u8]], well_formed: bool) {
        let own: &[&[u8]] = match self.header.name {
            "forwarded" => {
                &[b"for=192.0.2.1, for=10.0.0.9", b"by=\"[fd00::2]\";for=\"[2001:db8::1]:80\";host=\"a\""]
            }
            _ => &[b"192.0.2.1, 10.0.0.9", b"[2001:db8::1]:80"],
        };
        for own in own {
            let expected = self.find(PROXY, &[own]);
            // A chain that is believed to its end says less than what stands before it.
            let settled =
                (self.header.read)(&[own]).is_some_and(|hops| model::is_settled(PROXY, &hops, self.belief));
            if !settled && self.belief.holds(PROXY, 0) {
                continue;
            }
            let in_a_line =
                self.find(PROXY, &in_the_last(lines, own).iter().map(Vec::as_slice).collect::<Vec<_>>());
            let on_its_own = self.find(PROXY, &[lines, &[own]].concat());
            for found in [in_a_line, on_its_own] {
                let refused = found == Err(Refusal::Grammar) && !well_formed;
                assert!(found == expected || refused, "{:?} {found:?}, not {expected:?}", self.belief);
            }
        }
    }
}

/// The lines, the last of which goes on.
fn in_the_last(lines: &[&[u8]], own: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = lines.iter().map(|line| line.to_vec()).collect();
    match lines.last_mut() {
        Some(last) => last.extend([b", ", own].concat()),
        None => lines.push(own.to_vec()),
    }
    lines
}

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const MAPPED_PROXY: IpAddr = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xa00, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
