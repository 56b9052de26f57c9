//! The table `[remote]` of the local file: which document it accepts, and what the document may change.

use std::time::Duration;

use super::Overlay;
use crate::fields::Fields;
use crate::findings::Findings;
use crate::tree::{Node, Value};

/// What the local file says about the document of remote rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    pub(crate) key: String,
    pub(crate) verify_key: String,
    pub(crate) allow: Vec<String>,
    pub(crate) minimum_number: u64,
    pub(crate) poll: Duration,
}

impl RemoteSettings {
    /// The name of the document in its store, `portcullis-rules` by default.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The public key that documents have to be signed for, in 64 hexadecimal digits.
    pub fn verify_key(&self) -> &str {
        &self.verify_key
    }

    /// The fields of policies that a document may change.
    pub fn allow(&self) -> &[String] {
        &self.allow
    }

    /// The lowest number of a document that is accepted, 0 by default.
    pub fn minimum_number(&self) -> u64 {
        self.minimum_number
    }

    /// The time between two looks at the document, 5 s by default.
    pub fn poll(&self) -> Duration {
        self.poll
    }

    /// Whether the document is one that these settings name and trust. One that was accepted under former settings may not be.
    pub(crate) fn accept(&self, document: &Overlay) -> bool {
        self.is_of_same_signer(&document.key, &document.verify_key) && document.number >= self.minimum_number
    }

    /// Whether documents of this name, signed for this key, have one sequence of numbers with those of these settings.
    pub(crate) fn is_of_same_signer(&self, key: &str, verify_key: &str) -> bool {
        self.key == key && self.verify_key.eq_ignore_ascii_case(verify_key)
    }
}

/// Removes `[remote]` from the documents, and reads it. `None` if there is none, or it has mistakes.
pub(crate) fn take(documents: &mut [Node], findings: &Findings) -> Option<RemoteSettings> {
    let mut taken = documents.iter_mut().filter_map(|document| match &mut document.value {
        Value::Map(entries) => {
            let index = entries.iter().position(|entry| entry.name == "remote")?;
            Some(entries.remove(index))
        }
        _ => None,
    });
    let first = taken.next()?;
    for other in taken {
        findings.error("remote", other.name_span, "`remote` is in two files").help("keep one of them");
    }
    let before = findings.len();
    let mut fields = Fields::of(&first.node, "remote", findings)?;
    let verify_key = fields.read::<String>("verify_key");
    let verify_key = fields.required("verify_key", verify_key).unwrap_or_default();
    let is_key = verify_key.len() == 64 && verify_key.bytes().all(|byte| byte.is_ascii_hexdigit());
    if findings.len() == before && !is_key {
        let span = fields.span_of("verify_key");
        findings.error(fields.path("verify_key"), span, "a public key has 64 hexadecimal digits");
    }
    let key = fields.read("key").unwrap_or_else(|| "portcullis-rules".to_owned());
    if key.is_empty() || key.len() > MAX_KEY {
        let message = format!("the name of a document has 1 to {MAX_KEY} bytes");
        findings.error(fields.path("key"), fields.span_of("key"), message);
    }
    let allow = fields.read("allow").unwrap_or_else(|| super::ALLOWED.map(str::to_owned).into());
    let minimum_number = fields.read("minimum_number").unwrap_or_default();
    let poll = fields.duration("poll").unwrap_or(DEFAULT_POLL);
    if !(SHORTEST_POLL..=LONGEST_POLL).contains(&poll) {
        let message = format!("{poll:?} is not between {SHORTEST_POLL:?} and {LONGEST_POLL:?}");
        findings.error(fields.path("poll"), fields.span_of("poll"), message);
    }
    fields.finish();
    (findings.len() == before).then_some(RemoteSettings { key, verify_key, allow, minimum_number, poll })
}

const MAX_KEY: usize = 255;
const DEFAULT_POLL: Duration = Duration::from_secs(5);
/// Shorter ones are calls without a use; this one is for tests.
const SHORTEST_POLL: Duration = Duration::from_millis(10);
const LONGEST_POLL: Duration = Duration::from_secs(3_600);
