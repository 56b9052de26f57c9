//! Properties for any lines that a client may send.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, HeaderValue};
use portcullis_tower::ClientIp;

use super::Header;
use super::model::{self, Hop, Refusal};
use super::trust::TrustCase;

/// Panics unless all properties hold for the lines of `input`. An empty input is an absent header.
pub(super) fn check(header: &Header, input: &[u8]) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').filter(|_| !input.is_empty()).collect();
    // A server accepts neither other bytes nor more headers.
    if lines.len() > 1_000 || lines.iter().any(|line| HeaderValue::from_bytes(line).is_err()) {
        return;
    }
    let hops = (header.read)(&lines);
    for case in TrustCase::ALL {
        let subject =
            HeaderUnderTest { header, case, clients: (header.clients)(ClientIp::behind(case.trust())) };
        subject.matches_the_model(&lines, hops.as_deref());
        subject.ignores_untrusted_peers(&lines);
        subject.finds_a_canonical_client(&lines, hops.as_deref());
        subject.joins_lines(&lines);
        subject.trusts_the_right_end(&lines, hops.is_some());
    }
}

struct HeaderUnderTest<'a> {
    header: &'a Header,
    case: TrustCase,
    clients: ClientIp,
}

impl HeaderUnderTest<'_> {
    fn find(&self, peer: IpAddr, lines: &[&[u8]]) -> Result<IpAddr, Refusal> {
        let mut headers = HeaderMap::new();
        for line in lines {
            let value = HeaderValue::from_bytes(line).expect("every line was one");
            headers.append(HeaderName::from_static(self.header.name), value);
        }
        model::simplified(self.clients.find(peer, &headers))
    }

    fn matches_the_model(&self, lines: &[&[u8]], hops: Option<&[Hop]>) {
        for peer in [PROXY, UNTRUSTED] {
            let expected = model::client(peer, hops, self.case);
            assert_eq!(self.find(peer, lines), expected, "{:?} {peer} {hops:?}", self.case);
        }
        assert_eq!(self.find(MAPPED_PROXY, lines), self.find(PROXY, lines), "{:?}", self.case);
    }

    fn ignores_untrusted_peers(&self, lines: &[&[u8]]) {
        if !self.case.trusts(UNTRUSTED, 0) {
            assert_eq!(self.find(UNTRUSTED, lines), Ok(UNTRUSTED), "{:?}", self.case);
        }
    }

    /// A trusted address is the client only if it is the farthest hop, and a client is never an IPv4-mapped address.
    fn finds_a_canonical_client(&self, lines: &[&[u8]], hops: Option<&[Hop]>) {
        let Ok(client) = self.find(PROXY, lines) else { return };
        assert_eq!(client, client.to_canonical());
        let hops = hops.unwrap_or_default();
        if self.case.trusts(PROXY, 0) && !model::is_settled(PROXY, hops, self.case) {
            let farthest = hops.first().copied().unwrap_or(Hop::Address(PROXY));
            assert_eq!(Hop::Address(client), farthest, "{:?}", self.case);
        }
    }

    /// Joined lines give the same result; only a string that spans two of them may become complete.
    fn joins_lines(&self, lines: &[&[u8]]) {
        if lines.is_empty() {
            return;
        }
        let separate = self.find(PROXY, lines);
        for comma in [&b","[..], b", ", b"\t,\t"] {
            let joined = self.find(PROXY, &[&lines.join(comma)]);
            assert!(
                joined == separate || separate == Err(Refusal::Grammar),
                "{:?} {separate:?} {joined:?}",
                self.case
            );
        }
    }

    /// What a proxy appends on the right decides, whatever is to the left of it.
    fn trusts_the_right_end(&self, lines: &[&[u8]], well_formed: bool) {
        let own: &[&[u8]] = match self.header.name {
            "forwarded" => {
                &[b"for=192.0.2.1, for=10.0.0.9", b"by=\"[fd00::2]\";for=\"[2001:db8::1]:80\";host=\"a\""]
            }
            _ => &[b"192.0.2.1, 10.0.0.9", b"[2001:db8::1]:80"],
        };
        for own in own {
            let expected = self.find(PROXY, &[own]);
            // If all hops of a chain are trusted, the elements before it decide.
            let settled =
                (self.header.read)(&[own]).is_some_and(|hops| model::is_settled(PROXY, &hops, self.case));
            if !settled && self.case.trusts(PROXY, 0) {
                continue;
            }
            let in_a_line =
                self.find(PROXY, &appended(lines, own).iter().map(Vec::as_slice).collect::<Vec<_>>());
            let on_its_own = self.find(PROXY, &[lines, &[own]].concat());
            for found in [in_a_line, on_its_own] {
                let refused = found == Err(Refusal::Grammar) && !well_formed;
                assert!(found == expected || refused, "{:?} {found:?}, not {expected:?}", self.case);
            }
        }
    }
}

/// The lines, with `own` appended to the last one.
fn appended(lines: &[&[u8]], own: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = lines.iter().map(|line| line.to_vec()).collect();
    match lines.last_mut() {
        Some(last) => last.extend([b", ", own].concat()),
        None => lines.push(own.to_vec()),
    }
    lines
}

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const MAPPED_PROXY: IpAddr = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xa00, 1));
const UNTRUSTED: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
