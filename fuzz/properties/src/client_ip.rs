//! The client's address in the headers of proxies.

mod address;
mod elements;
mod model;
mod properties;
mod trust;

use portcullis_tower::{ClientIp, ProxiesWithoutHeader};

use model::Hop;

/// Checks the properties of `Forwarded`, whose lines are those of the input.
pub fn forwarded(input: &[u8]) {
    properties::check(
        &Header { name: "forwarded", clients: ProxiesWithoutHeader::forwarded, read: elements::forwarded },
        input,
    );
}

/// Checks the properties of `X-Forwarded-For`, whose lines are those of the input.
pub fn x_forwarded_for(input: &[u8]) {
    let read = |lines: &[&[u8]]| Some(elements::x_forwarded_for(lines));
    properties::check(
        &Header { name: "x-forwarded-for", clients: ProxiesWithoutHeader::x_forwarded_for, read },
        input,
    );
}

/// A header that is a list.
struct Header {
    name: &'static str,
    clients: fn(ProxiesWithoutHeader) -> ClientIp,
    /// The elements from left to right, as the model parses them, or `None` if a line violates the grammar.
    read: fn(&[&[u8]]) -> Option<Vec<Hop>>,
}
