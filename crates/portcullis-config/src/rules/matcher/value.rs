//! Conditions on the value of a header or of a parameter in the query.

use std::fmt;
use std::hash::{Hash, Hasher};

use http::request::Parts;
use portcullis_tower::ClientIp;
use portcullis_tower::matching::{RequestMatcher as _, RequestValue};

/// A condition as it is written, and what compares it.
#[derive(Clone, Debug)]
pub(crate) struct ValueCondition {
    pub(crate) written: WrittenValue,
    matcher: RequestValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WrittenValue {
    /// `headers` or `query`.
    pub(crate) field: &'static str,
    pub(crate) name: String,
    pub(crate) test: ValueTest,
    pub(crate) is_trusted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueTest {
    Present,
    Absent,
    Equals(Vec<String>),
    Prefix(Vec<String>),
}

impl ValueCondition {
    /// A trusted header is one of the proxies that `clients` names.
    pub(crate) fn new(written: WrittenValue, clients: &ClientIp) -> Self {
        let name = written.name.as_str();
        let value =
            if written.field == "query" { RequestValue::query(name) } else { RequestValue::header(name) };
        let value = match &written.test {
            ValueTest::Present => value,
            ValueTest::Absent => value.absent(),
            ValueTest::Equals(texts) => value.equals(texts),
            ValueTest::Prefix(texts) => value.begins_with(texts),
        };
        let matcher = if written.is_trusted { value.trusted(clients) } else { value };
        Self { written, matcher }
    }

    pub(crate) fn matcher(&self) -> &RequestValue {
        &self.matcher
    }

    /// Whether a request meets it, or may to a server: where that restricts.
    pub(super) fn is_met(&self, parts: &Parts) -> bool {
        self.matcher.matches(parts) != Ok(false)
    }

    /// Whether a client can leave what it restricts by writing something, in place of leaving something out.
    pub(crate) fn is_left_by_writing(&self) -> bool {
        !self.written.is_trusted && self.written.test == ValueTest::Absent
    }
}

impl PartialEq for ValueCondition {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for ValueCondition {}

impl Hash for ValueCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.written.hash(state);
    }
}

impl fmt::Display for ValueCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrittenValue { field, name, test, is_trusted } = &self.written;
        write!(f, "{field}.{name} = ")?;
        let trusted = if *is_trusted { ", trusted = true" } else { "" };
        let texts = |texts: &[String]| super::quoted_list(texts);
        match test {
            ValueTest::Present if *is_trusted => write!(f, "{{ present = true{trusted} }}"),
            ValueTest::Absent if *is_trusted => write!(f, "{{ present = false{trusted} }}"),
            ValueTest::Present => f.write_str("\"present\""),
            ValueTest::Absent => f.write_str("\"absent\""),
            ValueTest::Equals(all) => write!(f, "{{ equals = [{}]{trusted} }}", texts(all)),
            ValueTest::Prefix(all) => write!(f, "{{ prefix = [{}]{trusted} }}", texts(all)),
        }
    }
}
