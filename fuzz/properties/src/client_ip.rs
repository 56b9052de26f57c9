//! The client's address in the headers of proxies.

mod address;
mod belief;
mod elements;
mod laws;
mod model;

use portcullis_tower::{Behind, ClientIp};

use model::Hop;

/// What holds of any lines of `Forwarded`: those of the input.
pub fn forwarded(input: &[u8]) {
    laws::hold(&Header { name: "forwarded", clients: Behind::forwarded, read: elements::forwarded }, input);
}

/// What holds of any lines of `X-Forwarded-For`: those of the input.
pub fn x_forwarded_for(input: &[u8]) {
    let read = |lines: &[&[u8]]| Some(elements::x_forwarded_for(lines));
    laws::hold(&Header { name: "x-forwarded-for", clients: Behind::x_forwarded_for, read }, input);
}

/// One of the headers that are lists.
struct Header {
    name: &'static str,
    clients: fn(Behind) -> ClientIp,
    /// The elements from left to right, or `None` if a line breaks the grammar, as the model reads them.
    read: fn(&[&[u8]]) -> Option<Vec<Hop>>,
}
