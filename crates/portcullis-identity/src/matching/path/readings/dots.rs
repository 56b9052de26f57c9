//! Segments that are resolved.

/// `.` and `..`.
#[derive(Clone, Copy)]
pub(super) enum Dots {
    Here,
    Above,
}

impl Dots {
    pub(super) fn of(segment: &[u8]) -> Option<Self> {
        match segment {
            b"." => Some(Self::Here),
            b".." => Some(Self::Above),
            _ => None,
        }
    }

    /// As browsers read them in a URL: also escaped, in either case.
    pub(super) fn of_url(segment: &[u8]) -> Option<Self> {
        let dot = |segment: &[u8]| match segment {
            [b'.', ..] => Some(1),
            [b'%', b'2', b'e' | b'E', ..] => Some(3),
            _ => None,
        };
        let rest = segment.get(dot(segment)?..)?;
        if rest.is_empty() {
            return Some(Self::Here);
        }
        (dot(rest)? == rest.len()).then_some(Self::Above)
    }
}
