//! Which form of a body a client prefers.
//!
//! Source: RFC 9110, section 12.5.1.

use http::HeaderValue;

/// A form that a refusal's body can have. The order is that of our own preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
    Problem,
}

impl Form {
    const ALL: [Self; 3] = [Self::Text, Self::Json, Self::Problem];

    const fn media_type(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("text", "plain"),
            Self::Json => ("application", "json"),
            Self::Problem => ("application", "problem+json"),
        }
    }
}

/// The form with the highest weight. Of equals the one that is named more exactly, then the one that is named earlier.
/// A client that accepts none of ours, or does not say, gets text.
pub(super) fn preferred<'a>(lines: impl IntoIterator<Item = &'a HeaderValue>) -> Form {
    let mut asked = [None::<Asked>; Form::ALL.len()];
    let elements = lines.into_iter().flat_map(|line| Separated { rest: line.as_bytes(), by: b',' });
    // A bound on the work that a stranger can cause; browsers send fewer than ten.
    for (position, element) in elements.take(MOST_RANGES).enumerate() {
        let Some(range) = Range::parse(element) else { continue };
        for (form, asked) in Form::ALL.iter().zip(&mut asked) {
            let Some(exactness) = range.exactness(*form) else { continue };
            // For each form the range that names it most exactly has the say.
            if asked.is_none_or(|before| before.exactness < exactness) {
                *asked = Some(Asked { weight: range.weight, exactness, position });
            }
        }
    }
    let rank = |asked: &Asked| (asked.weight, asked.exactness, std::cmp::Reverse(asked.position));
    let mut best = (Form::Text, None::<Asked>);
    for (form, asked) in Form::ALL.into_iter().zip(asked) {
        if let Some(asked) = asked
            && asked.weight > 0
            && best.1.as_ref().is_none_or(|before| rank(before) < rank(&asked))
        {
            best = (form, Some(asked));
        }
    }
    best.0
}

#[derive(Clone, Copy)]
struct Asked {
    weight: u16,
    exactness: u8,
    position: usize,
}

struct Range<'a> {
    kind: &'a [u8],
    subtype: &'a [u8],
    /// Thousandths.
    weight: u16,
}

impl<'a> Range<'a> {
    /// Parameters of the media type are passed over: the forms differ in none.
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

    fn exactness(&self, form: Form) -> Option<u8> {
        let (kind, subtype) = form.media_type();
        match (self.kind, self.subtype) {
            (b"*", b"*") => Some(1),
            (asked, b"*") if asked.eq_ignore_ascii_case(kind.as_bytes()) => Some(2),
            (asked, exact)
                if asked.eq_ignore_ascii_case(kind.as_bytes())
                    && exact.eq_ignore_ascii_case(subtype.as_bytes()) =>
            {
                Some(3)
            }
            _ => None,
        }
    }
}

/// The weight if this is the parameter that has it, and `None` in it if it is none: `q=0.5`, at most three decimals.
#[expect(clippy::option_option, reason = "no weight and a broken weight are two things")]
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

/// What stands between separators that are not in quotes.
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

const MOST_RANGES: usize = 64;

#[cfg(test)]
mod tests;
