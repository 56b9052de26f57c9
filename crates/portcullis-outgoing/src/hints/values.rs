//! The values of a header that may have several.

use http::{HeaderMap, HeaderName};

/// The values in all lines of a header, in their order. Values of one line are separated by commas, because proxies join lines so. A
/// comma after the name of a day belongs to an HTTP date.
pub(super) fn values<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(name).iter().flat_map(|line| {
        let mut rest = Some(line.as_bytes());
        std::iter::from_fn(move || {
            let text = rest?;
            let mut commas = text.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(at, _)| at);
            let Some(end) = commas.find(|at| !is_day(&text[..*at])) else { return rest.take() };
            rest = Some(&text[end + 1..]);
            Some(&text[..end])
        })
    })
}

fn is_day(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    !text.is_empty() && text.iter().all(u8::is_ascii_alphabetic)
}

/// The most values that are read.
pub(super) const MAX_VALUES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_values_but_not_dates() {
        let name = HeaderName::from_static("x-reset");
        let mut headers = HeaderMap::new();
        for line in ["1, 2s", "Tue, 14 Nov 2023 22:13:30 GMT,3", "", "soon"] {
            headers.append(&name, line.parse().unwrap());
        }
        let read: Vec<_> = values(&headers, &name).collect();
        let expected: [&[u8]; 6] = [b"1", b" 2s", b"Tue, 14 Nov 2023 22:13:30 GMT", b"3", b"", b"soon"];
        assert_eq!(read, expected);
    }
}
