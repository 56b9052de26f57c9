//! Rules of files that a signed document changes.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Rules;
use crate::diagnostic::Diagnostics;
use crate::load::{Loaded, Loader};
use crate::overlay::{Overlay, RemoteSettings};

/// What the document of a load has changed.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// There is none, or the files do not accept it.
    None,
    Applied,
    /// Nothing, because it does not fit the files.
    Discarded {
        reason: String,
    },
}

/// The policies that a document changes, by the names of their tables.
pub(crate) struct Documented {
    name: Arc<str>,
    policies: Map<String, Value>,
}

impl Documented {
    /// The name of the document, if it changes the table.
    pub(crate) fn owner_of(&self, table: &str) -> Option<Arc<str>> {
        self.policies.contains_key(table).then(|| Arc::clone(&self.name))
    }
}

impl Rules {
    /// What `[remote]` says about the document that may change the rules. `None` without it: no document changes them.
    pub fn remote(&self) -> Option<&RemoteSettings> {
        self.0.remote.as_ref()
    }

    /// The document that has changed the rules.
    pub(crate) fn document(&self) -> Option<&Overlay> {
        self.0.loader.overlay().filter(|_| matches!(self.0.document, State::Applied))
    }

    /// The document that has not changed the rules because it does not fit them, and why.
    pub(crate) fn discarded(&self) -> Option<(&Overlay, &str)> {
        match &self.0.document {
            State::Discarded { reason } => Some((self.0.loader.overlay()?, reason)),
            State::None | State::Applied => None,
        }
    }

    /// The policies that the document changes.
    pub(crate) fn documented(&self) -> Documented {
        let document = self.document();
        let value = document.and_then(|document| serde_json::from_str::<Value>(&document.text).ok());
        let policies = value.and_then(|value| value.get("policy")?.as_object().cloned()).unwrap_or_default();
        let name = document.map_or_else(|| Arc::from(""), |document| Arc::from(document.key.as_str()));
        Documented { name, policies }
    }

    /// Reads the files without the document, which is discarded.
    pub(crate) fn without_document(&self, reason: String) -> Result<Self, Diagnostics> {
        let loader = self.loader();
        Ok(Self::build(loader, loader.read())?.with(State::Discarded { reason }))
    }

    /// The files are the authority: a document that they do not fit is discarded.
    pub(super) fn load_overlaid(loader: &Loader, files: Loaded, whole: Loaded) -> Result<Self, Diagnostics> {
        match Self::build(loader, whole) {
            Ok(rules) => Ok(rules.with(State::Applied)),
            Err(findings) => Self::build(loader, files)
                .map(|rules| rules.with(State::Discarded { reason: findings.to_string() })),
        }
    }

    fn with(mut self, document: State) -> Self {
        Arc::get_mut(&mut self.0).expect("rules that were just built have no clones").document = document;
        self
    }
}
