//! Rules of files that a signed document changes.

use std::sync::Arc;

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
