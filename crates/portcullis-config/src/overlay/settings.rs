//! The table `[remote]` of the local file: which document it accepts, and what the document may change.

#[cfg(all(test, not(feature = "signed")))]
mod tests;

use std::time::Duration;

use super::Overlay;
use crate::diagnostic::Diagnostic;
use crate::door::Door;
use crate::fields::{Fields, decode, did_you_mean, quoted};
use crate::findings::Findings;
use crate::tables::{POLICY, REMOTE};
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

/// Removes `[remote]` from the documents, and reads it. `None` if there is none, or it has mistakes. A command has its document in one kind
/// of store.
pub(crate) fn take(documents: &mut [Node], doors: &[Door], findings: &Findings) -> Option<RemoteSettings> {
    let mut taken = documents.iter_mut().filter_map(|document| document.take("remote"));
    let first = taken.next()?;
    for other in taken {
        findings.error("remote", other.name_span, "`remote` is in two files").help("keep one of them");
    }
    if cfg!(not(feature = "signed")) {
        let message = "this program follows no remote rules: it is built without the feature `signed`";
        let help =
            "enable `signed` of portcullis-config, or `signed-rules` of portcullis, or remove the table";
        findings.error("remote", first.name_span, message).help(help);
    }
    let before = findings.errors();
    let fields = Fields::of(&first.node, "remote", &REMOTE, findings)?;
    let verify_key = verify_key(&fields);
    let key = fields.read("key").unwrap_or_else(|| "portcullis-rules".to_owned());
    if key.is_empty() || key.len() > MAX_KEY {
        let message = format!("the name of a document has 1 to {MAX_KEY} bytes, not {}", key.len());
        let help = "leave it out for \"portcullis-rules\"";
        fields.error("key", message).help(help);
    }
    let allow = fields.node("allow").map(|node| allowed(node, &fields.path("allow"), findings));
    let allow = allow.unwrap_or_else(|| super::ALLOWED.map(str::to_owned).into());
    let minimum_number = fields.read("minimum_number").unwrap_or_default();
    let poll = fields.duration("poll").unwrap_or(DEFAULT_POLL);
    if !(SHORTEST_POLL..=LONGEST_POLL).contains(&poll) {
        let message = format!("{poll:?} is not between {SHORTEST_POLL:?} and 1h");
        let help = "leave it out for 5s: each instance asks its store once in this time";
        fields.error("poll", message).help(help);
    }
    let verify_key = verify_key.filter(|_| findings.errors() == before && cfg!(feature = "signed"))?;
    // A program may follow the document by a store of its own.
    if doors.iter().any(|door| *door != Door::Code) {
        findings.add(Diagnostic::note("remote", first.name_span, IN_REDIS));
    }
    Some(RemoteSettings { key, verify_key, allow, minimum_number, poll })
}

/// The public key. No message has its text: what is there may be a secret key.
fn verify_key(fields: &Fields<'_>) -> Option<String> {
    let text: String = fields.read("verify_key")?;
    let help = "write the public key that `portcullis rules keygen` printed";
    public_key(&text).map_err(|message| fields.error("verify_key", message).help(help)).ok()
}

#[cfg(feature = "signed")]
fn public_key(text: &str) -> Result<String, String> {
    let key = text.parse::<crate::signed::VerifyingKey>();
    key.map(|key| key.to_string()).map_err(|error| error.to_string())
}

/// A file with `[remote]` is an error without the feature.
#[cfg(not(feature = "signed"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
fn public_key(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// The names of fields that a document may change.
fn allowed(node: &Node, path: &str, findings: &Findings) -> Vec<String> {
    let Some(names) = decode::<Vec<String>>(node, path, findings) else { return Vec::new() };
    let Value::List(items) = &node.value else { return names };
    for (index, (name, item)) in names.iter().zip(items).enumerate() {
        if POLICY.field(name).is_some() {
            continue;
        }
        let message = format!("policies have no field {}", quoted(name));
        let help = did_you_mean(name, POLICY.names()).unwrap_or_else(|| NAMES.to_owned());
        findings.error(format!("{path}[{index}]"), item.span, message).help(help);
    }
    names
}

const NAMES: &str = "write names of fields of policies, such as \"limit\", \"burst\" and \"mode\"";
const IN_REDIS: &str = "the signed document is in Redis: without `--store redis://..` the table is refused";
const MAX_KEY: usize = 255;
const DEFAULT_POLL: Duration = Duration::from_secs(5);
/// Shorter ones are calls without a use; this one is for tests.
const SHORTEST_POLL: Duration = Duration::from_millis(10);
const LONGEST_POLL: Duration = Duration::from_secs(3_600);
