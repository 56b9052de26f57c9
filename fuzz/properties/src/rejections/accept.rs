//! The format that `Accept` selects.

use std::cmp::Reverse;

use http::{HeaderValue, Method, header};

use super::{rejection, values};

pub(super) fn check(input: &[u8]) {
    let lines = values(input);
    let response = rejection(Method::GET, &header::ACCEPT, &lines);
    assert_eq!(response.status(), 400);
    let content_type = response.headers()[header::CONTENT_TYPE].to_str().expect("a literal");
    assert_eq!(content_type, selected(&lines), "{lines:?}");
    let is_json = response.body().starts_with(b"{") && response.body().ends_with(b"}\n");
    assert_eq!(is_json, content_type.contains("json"));
}

fn selected(lines: &[HeaderValue]) -> &'static str {
    let elements = lines.iter().flat_map(|line| split(line.as_bytes(), b','));
    let ranges: Vec<_> = elements.take(64).map(|element| Range::read(&element)).collect();
    let rated = FORMATS.into_iter().enumerate().filter_map(|(preference, (media_type, content_type))| {
        // The most specific range applies, and the first of equally specific ones.
        let applies = |(position, range): (usize, &Option<Range>)| {
            let range = range.as_ref()?;
            let specificity = range.specificity(media_type)?;
            Some((specificity, Reverse(position), range.thousandths))
        };
        let (specificity, position, weight) = ranges.iter().enumerate().filter_map(applies).max()?;
        (weight > 0).then_some((weight, specificity, position, Reverse(preference), content_type))
    });
    rated.max().map_or("text/plain; charset=utf-8", |(.., content_type)| content_type)
}

struct Range {
    /// In lower case.
    media_type: String,
    thousandths: u32,
}

impl Range {
    fn read(element: &[u8]) -> Option<Self> {
        let parts: Vec<_> = split(element, b';').iter().map(|part| text(part.trim_ascii())).collect();
        let media_type = parts.first()?.to_ascii_lowercase();
        let weight = parts.iter().skip(1).find(|part| part.starts_with("q=") || part.starts_with("Q="));
        let thousandths = weight.map_or(Some(1_000), |weight| thousandths(&weight[2..]))?;
        media_type.contains('/').then_some(Self { media_type, thousandths })
    }

    fn specificity(&self, media_type: &str) -> Option<u8> {
        let (kind, _) = media_type.split_once('/')?;
        let matching = ["*/*".to_owned(), format!("{kind}/*"), media_type.to_owned()];
        (0..).zip(matching).find_map(|(specificity, range)| (range == self.media_type).then_some(specificity))
    }
}

/// `( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`
fn thousandths(weight: &str) -> Option<u32> {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let is_number = decimals.len() <= 3 && decimals.bytes().all(|byte| byte.is_ascii_digit());
    let sum = match whole {
        "0" | "1" if is_number => format!("{whole}{decimals:0<3}").parse().ok()?,
        _ => return None,
    };
    (sum <= 1_000).then_some(sum)
}

/// The parts between separators that are not in a quoted string, without an empty last one.
fn split(text: &[u8], separator: u8) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut rest = text.iter();
    let mut is_quoted = false;
    while let Some(byte) = rest.next() {
        if *byte == separator && !is_quoted {
            parts.push(Vec::new());
            continue;
        }
        let part = parts.last_mut().expect("there is always a part");
        part.push(*byte);
        is_quoted ^= *byte == b'"';
        if *byte == b'\\' && is_quoted {
            part.extend(rest.next());
        }
    }
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    parts
}

/// One character per byte.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Media types in the order of preference, with their content types.
const FORMATS: [(&str, &str); 3] = [
    ("text/plain", "text/plain; charset=utf-8"),
    ("application/json", "application/json"),
    ("application/problem+json", "application/problem+json"),
];
