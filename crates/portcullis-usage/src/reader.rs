//! Where a response states its usage.

use std::fmt;
use std::sync::Arc;

/// Where responses state how many tokens they have used.
///
/// All of them read responses of JSON and streams of server-sent events, and the last number counts. A number is a whole one from 0 to
/// `u64::MAX`: a fraction, a negative number, an exponent, a text and `null` are none.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header};
/// use portcullis::usage::{Count, UsageReader};
///
/// let json = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
/// let mut scan = UsageReader::OPENAI.scan(&json);
/// assert_eq!(scan.push(br#"{"choices": [{"text": "4 tokens"}], "usage": {"total_"#), None);
/// assert_eq!(scan.push(br#"tokens": 42}}"#), Some(Count::Total(42)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct UsageReader(Places);

#[derive(Clone, PartialEq, Eq)]
enum Places {
    OpenAi,
    Anthropic,
    Gemini,
    /// The names on the way to the number.
    Pointer(Arc<[Box<str>]>),
}

/// Why a text is no pointer to a usage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// It does not begin with a slash. The empty pointer is the whole response, which is no number.
    #[error("a JSON pointer begins with a slash, such as /usage/tokens")]
    NoSlash,
    /// A tilde stands for nothing.
    #[error("in a JSON pointer ~0 is a tilde and ~1 a slash, and no other character follows a tilde")]
    Tilde,
    /// It has too many names.
    #[error("a JSON pointer to a usage has at most {MOST_NAMES} names, and this one has {0}")]
    TooDeep(usize),
}

impl UsageReader {
    /// `usage.total_tokens` of a completion, and of the last event of its stream that has it: the request has to say
    /// `"stream_options": {"include_usage": true}`, or there is none. Also `response.usage.total_tokens` of the events of the Responses
    /// API.
    pub const OPENAI: Self = Self(Places::OpenAi);

    /// The sum of `input_tokens`, `cache_creation_input_tokens`, `cache_read_input_tokens` and `output_tokens`: in `usage` of a message,
    /// or of the events `message_start` and `message_delta`. Until the latter the sum is the [least](crate::Count::AtLeast) that is used.
    pub const ANTHROPIC: Self = Self(Places::Anthropic);

    /// `usageMetadata.totalTokenCount`, also of each response in a list, and the last one of a stream.
    pub const GEMINI: Self = Self(Places::Gemini);

    /// The number that a JSON pointer names, such as `/meta/tokens`, in each document or event. In a list a name is an index.
    ///
    /// Source: RFC 6901.
    ///
    /// # Errors
    ///
    /// If it is no pointer, or has more than 32 names.
    ///
    /// ```
    /// use portcullis::usage::{PointerError, UsageReader};
    ///
    /// assert_eq!(UsageReader::pointer("/meta/tokens")?.to_string(), "/meta/tokens");
    /// assert_eq!(UsageReader::pointer("meta.tokens"), Err(PointerError::NoSlash));
    /// # Ok::<(), PointerError>(())
    /// ```
    pub fn pointer(pointer: &str) -> Result<Self, PointerError> {
        let names = pointer.strip_prefix('/').ok_or(PointerError::NoSlash)?.split('/');
        let names: Arc<[_]> = names.map(unescaped).collect::<Option<_>>().ok_or(PointerError::Tilde)?;
        if names.len() > MOST_NAMES {
            return Err(PointerError::TooDeep(names.len()));
        }
        Ok(Self(Places::Pointer(names)))
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        match self.0 {
            Places::OpenAi => OPENAI.len(),
            Places::Anthropic => ANTHROPIC.len(),
            Places::Gemini | Places::Pointer(_) => 1,
        }
    }

    /// The name at a depth on the way to a place. `None` behind the last one.
    pub(crate) fn name(&self, place: usize, depth: usize) -> Option<&str> {
        let names = match &self.0 {
            Places::OpenAi => OPENAI[place],
            Places::Anthropic => ANTHROPIC[place],
            Places::Gemini => GEMINI,
            Places::Pointer(names) => return names.get(depth).map(Box::as_ref),
        };
        names.get(depth).copied()
    }

    /// Whether a list is a sequence of documents.
    pub(crate) fn reads_lists(&self) -> bool {
        self.0 == Places::Gemini
    }

    /// Whether the numbers at all places are added up, the first half of them those of a whole response.
    pub(crate) fn adds(&self) -> bool {
        self.0 == Places::Anthropic
    }
}

impl fmt::Display for UsageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Places::OpenAi => f.write_str("openai"),
            Places::Anthropic => f.write_str("anthropic"),
            Places::Gemini => f.write_str("gemini"),
            Places::Pointer(names) => {
                names.iter().try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")))
            }
        }
    }
}

impl fmt::Debug for UsageReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UsageReader({self})")
    }
}

fn unescaped(name: &str) -> Option<Box<str>> {
    let mut parts = name.split('~');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let tilde = part.strip_prefix('0').map(|rest| ('~', rest));
        let (escaped, rest) = tilde.or_else(|| part.strip_prefix('1').map(|rest| ('/', rest)))?;
        plain.push(escaped);
        plain.push_str(rest);
    }
    Some(plain.into())
}

const MOST_NAMES: usize = 32;

const OPENAI: [&[&str]; 2] = [&["usage", "total_tokens"], &["response", "usage", "total_tokens"]];
const GEMINI: &[&str] = &["usageMetadata", "totalTokenCount"];
/// Those of a message and of `message_delta`, then those of `message_start`, in the same order.
const ANTHROPIC: [&[&str]; 8] = [
    &["usage", "input_tokens"],
    &["usage", "cache_creation_input_tokens"],
    &["usage", "cache_read_input_tokens"],
    &["usage", "output_tokens"],
    &["message", "usage", "input_tokens"],
    &["message", "usage", "cache_creation_input_tokens"],
    &["message", "usage", "cache_read_input_tokens"],
    &["message", "usage", "output_tokens"],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_those_of_the_standard() {
        for pointer in ["/", "/a/b", "/a~1b/~0/~01", "//", "/0"] {
            assert_eq!(UsageReader::pointer(pointer).unwrap().to_string(), pointer);
        }
        let names = UsageReader::pointer("/a~1b/~01").unwrap();
        assert_eq!((names.name(0, 0), names.name(0, 1), names.name(0, 2)), (Some("a/b"), Some("~1"), None));
        for (pointer, error) in [
            ("", PointerError::NoSlash),
            ("usage", PointerError::NoSlash),
            ("#/usage", PointerError::NoSlash),
            ("/a~", PointerError::Tilde),
            ("/a~2", PointerError::Tilde),
            (&"/a".repeat(33), PointerError::TooDeep(33)),
        ] {
            assert_eq!(UsageReader::pointer(pointer), Err(error), "{pointer}");
        }
    }
}
