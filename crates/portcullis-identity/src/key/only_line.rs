//! Finds the only line of a header.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The lines of a header, of which an identity may have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnlyLine<'a> {
    None,
    One(&'a HeaderValue),
    /// The inner service may use another line than the layer.
    Several,
}

/// Finds the line of a header.
#[inline]
pub(super) fn only_line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> OnlyLine<'a> {
    if headers.len() > FEW {
        return only(headers.get_all(name).iter());
    }
    let mut found = OnlyLine::None;
    // A loop, so that the code that compares names is there once.
    for (other, value) in headers {
        if other == name {
            if let OnlyLine::One(_) = found {
                return OnlyLine::Several;
            }
            found = OnlyLine::One(value);
        }
    }
    found
}

fn only<'a>(mut lines: impl Iterator<Item = &'a HeaderValue>) -> OnlyLine<'a> {
    match (lines.next(), lines.next()) {
        (None, _) => OnlyLine::None,
        (Some(line), None) => OnlyLine::One(line),
        (Some(_), Some(_)) => OnlyLine::Several,
    }
}

/// To hash a name, byte by byte, takes longer than to compare it with this number of names.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_line_is_found_among_few_and_many() {
        let name = HeaderName::from_static("x-user");
        for others in [0, 1, FEW - 1, FEW, 20] {
            let mut headers = HeaderMap::new();
            for other in 0..others {
                let other: HeaderName = format!("x-user-{other}").parse().unwrap();
                headers.insert(other, HeaderValue::from_static("other"));
            }
            assert_eq!(only_line(&headers, &name), OnlyLine::None);
            let ada = HeaderValue::from_static("ada");
            headers.append(&name, ada.clone());
            assert_eq!(only_line(&headers, &name), OnlyLine::One(&ada), "{others}");
            headers.append(&name, HeaderValue::from_static("bob"));
            assert_eq!(only_line(&headers, &name), OnlyLine::Several, "{others}");
        }
    }
}
