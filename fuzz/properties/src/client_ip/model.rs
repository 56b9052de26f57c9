//! A model of the rule that finds the client.

use std::net::IpAddr;

use portcullis_tower::ClientIpError;

use super::trust::TrustCase;

/// What an element of the header identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    Address(IpAddr),
    /// Nothing: it hides its address.
    Hidden,
    /// Nothing: it is not an address.
    NotAnAddress,
}

/// Why no client is found, and at which element, counted from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Hidden(usize),
    NotAnAddress(usize),
    Grammar,
}

/// The first hop that is not trusted, from the server outwards, or else the last hop.
pub(super) fn client(peer: IpAddr, hops: Option<&[Hop]>, case: TrustCase) -> Result<IpAddr, Refusal> {
    if !case.trusts(peer, 0) {
        return Ok(peer);
    }
    let chain = chain(peer, hops.ok_or(Refusal::Grammar)?);
    let position = first_untrusted(&chain, case).unwrap_or(chain.len() - 1);
    match chain[position] {
        Hop::Address(address) => Ok(address),
        Hop::Hidden => Err(Refusal::Hidden(position)),
        Hop::NotAnAddress => Err(Refusal::NotAnAddress(position)),
    }
}

/// Whether there is an untrusted hop, so that the elements to the left of it do not matter.
pub(super) fn is_settled(peer: IpAddr, hops: &[Hop], case: TrustCase) -> bool {
    first_untrusted(&chain(peer, hops), case).is_some()
}

/// Converts the layer's result into that of the model.
pub(super) fn simplified(found: Result<IpAddr, ClientIpError>) -> Result<IpAddr, Refusal> {
    found.map_err(|error| match error {
        ClientIpError::Hidden { position, .. } => Refusal::Hidden(position),
        ClientIpError::NotAnAddress { position, .. } => Refusal::NotAnAddress(position),
        ClientIpError::Grammar { .. } => Refusal::Grammar,
        other => panic!("{other}: not an error of a list"),
    })
}

/// The hops from the server outwards.
fn chain(peer: IpAddr, hops: &[Hop]) -> Vec<Hop> {
    std::iter::once(Hop::Address(peer)).chain(hops.iter().rev().copied()).collect()
}

fn first_untrusted(chain: &[Hop], case: TrustCase) -> Option<usize> {
    let is_trusted =
        |index: usize, hop: &Hop| matches!(hop, Hop::Address(address) if case.trusts(*address, index));
    (0..chain.len()).find(|index| !is_trusted(*index, &chain[*index]))
}
