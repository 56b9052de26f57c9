//! The rule by which a client is found, written down again.

use std::net::IpAddr;

use portcullis_tower::ClientIpError;

use super::belief::Belief;

/// What an element says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    Address(IpAddr),
    /// It keeps its address to itself.
    Hidden,
    /// It is no address.
    Odd,
}

/// Why nobody is found, and at which element from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Hidden(usize),
    Odd(usize),
    Grammar,
}

/// The first that is not believed, from the server outwards, or the last of all.
pub(super) fn client(peer: IpAddr, hops: Option<&[Hop]>, belief: Belief) -> Result<IpAddr, Refusal> {
    if !belief.holds(peer, 0) {
        return Ok(peer);
    }
    let chain = chain(peer, hops.ok_or(Refusal::Grammar)?);
    let position = end(&chain, belief).unwrap_or(chain.len() - 1);
    match chain[position] {
        Hop::Address(address) => Ok(address),
        Hop::Hidden => Err(Refusal::Hidden(position)),
        Hop::Odd => Err(Refusal::Odd(position)),
    }
}

/// Whether there is a hop that is not believed, so that what stands left of it does not matter.
pub(super) fn is_settled(peer: IpAddr, hops: &[Hop], belief: Belief) -> bool {
    end(&chain(peer, hops), belief).is_some()
}

/// What the layer says, in the words of the model.
pub(super) fn in_short(found: Result<IpAddr, ClientIpError>) -> Result<IpAddr, Refusal> {
    found.map_err(|error| match error {
        ClientIpError::Hidden { position, .. } => Refusal::Hidden(position),
        ClientIpError::NotAnAddress { position, .. } => Refusal::Odd(position),
        ClientIpError::Grammar { .. } => Refusal::Grammar,
        other => panic!("{other}: not of a list"),
    })
}

/// From the server outwards.
fn chain(peer: IpAddr, hops: &[Hop]) -> Vec<Hop> {
    std::iter::once(Hop::Address(peer)).chain(hops.iter().rev().copied()).collect()
}

fn end(chain: &[Hop], belief: Belief) -> Option<usize> {
    let believed =
        |index: usize, hop: &Hop| matches!(hop, Hop::Address(address) if belief.holds(*address, index));
    (0..chain.len()).find(|index| !believed(*index, &chain[*index]))
}
