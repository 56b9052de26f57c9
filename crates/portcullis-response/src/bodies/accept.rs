//! Chooses the body format that a client prefers.
//!
//! Source: RFC 9110, section 12.5.1.

use http::HeaderValue;

use crate::RejectionFormat;

impl RejectionFormat {
    /// In order of preference among those that a client takes alike.
    const fn preferred(self) -> [Self; 3] {
        match self {
            Self::Text => [Self::Text, Self::Json, Self::Problem],
            Self::Json => [Self::Json, Self::Problem, Self::Text],
            Self::Problem => [Self::Problem, Self::Json, Self::Text],
        }
    }

    const fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("text", "plain"),
            Self::Json => ("application", "json"),
            Self::Problem => ("application", "problem+json"),
        }
    }
}

/// Returns the format with the highest weight. Equal weights are ordered by specificity, then by position. A client that accepts
/// no format, or sends no `Accept`, gets `default`, and so does one that takes all alike.
pub(super) fn preferred<'a>(
    lines: impl IntoIterator<Item = &'a HeaderValue>,
    default: RejectionFormat,
) -> RejectionFormat {
    let mut lines = lines.into_iter();
    let Some(first) = lines.next() else { return default };
    let second = lines.next();
    if second.is_none()
        && let Some(format) = of_usual(first.as_bytes(), default)
    {
        return format;
    }
    let lines = [Some(first), second].into_iter().flatten().chain(lines);
    let formats = default.preferred();
    let mut preferences = [None::<Preference>; 3];
    let elements = lines.flat_map(|line| Separated { rest: line.as_bytes(), by: b',' });
    // Bounds the work that a client can cause; browsers send fewer than ten ranges.
    for (position, element) in elements.take(MAX_RANGES).enumerate() {
        let Some(range) = Range::parse(element) else { continue };
        for (format, preference) in formats.iter().zip(&mut preferences) {
            let Some(specificity) = range.specificity(*format) else { continue };
            // For each format, the most specific range wins.
            if preference.is_none_or(|before| before.specificity < specificity) {
                *preference = Some(Preference { weight: range.weight, specificity, position });
            }
        }
    }
    let rank = |one: &Preference| (one.weight, one.specificity, std::cmp::Reverse(one.position));
    let mut best = (default, None::<Preference>);
    for (format, preference) in formats.into_iter().zip(preferences) {
        if let Some(preference) = preference
            && preference.weight > 0
            && best.1.as_ref().is_none_or(|before| rank(before) < rank(&preference))
        {
            best = (format, Some(preference));
        }
    }
    best.0
}

/// The format for what most programs send, without a parser.
fn of_usual(line: &[u8], default: RejectionFormat) -> Option<RejectionFormat> {
    match line {
        b"*/*" => Some(default),
        b"application/json" => Some(RejectionFormat::Json),
        b"application/problem+json" => Some(RejectionFormat::Problem),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Preference {
    weight: u16,
    specificity: u8,
    position: usize,
}

struct Range<'a> {
    kind: &'a [u8],
    subtype: &'a [u8],
    /// Thousandths.
    weight: u16,
}

impl<'a> Range<'a> {
    /// Ignores parameters of the media type, because the formats have none.
    fn parse(element: &'a [u8]) -> Option<Self> {
        let mut parameters = Separated { rest: element, by: b';' }.map(<[u8]>::trim_ascii);
        let media_type = parameters.next()?;
        let slash = media_type.iter().position(|byte| *byte == b'/')?;
        let weight = match parameters.find_map(weight_of) {
            Some(weight) => weight?,
            None => 1_000,
        };
        Some(Self { kind: &media_type[..slash], subtype: &media_type[slash + 1..], weight })
    }

    fn specificity(&self, format: RejectionFormat) -> Option<u8> {
        let (kind, subtype) = format.media_type();
        match (self.kind, self.subtype) {
            (b"*", b"*") => Some(1),
            (given, b"*") if given.eq_ignore_ascii_case(kind.as_bytes()) => Some(2),
            (given, exact)
                if given.eq_ignore_ascii_case(kind.as_bytes())
                    && exact.eq_ignore_ascii_case(subtype.as_bytes()) =>
            {
                Some(3)
            }
            _ => None,
        }
    }
}

/// Returns the weight of a `q` parameter, such as `q=0.5` with at most three decimals, or `Some(None)` if it is malformed.
#[expect(clippy::option_option, reason = "no weight and a malformed weight are different")]
fn weight_of(parameter: &[u8]) -> Option<Option<u16>> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return Some(None),
    };
    let mut weight = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = decimals.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return Some(None);
        }
        weight = weight * 10 + u16::from(digit - b'0');
    }
    Some((weight <= 1_000).then_some(weight))
}

/// The elements between separators that are not in quotes.
struct Separated<'a> {
    rest: &'a [u8],
    by: u8,
}

impl<'a> Iterator for Separated<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut quoted, mut escaped) = (false, false);
        let end = self.rest.iter().position(|byte| {
            let ends = *byte == self.by && !quoted;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ => {}
            }
            ends
        });
        let (element, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.get(1..).unwrap_or_default();
        Some(element)
    }
}

const MAX_RANGES: usize = 64;

#[cfg(test)]
mod tests;
