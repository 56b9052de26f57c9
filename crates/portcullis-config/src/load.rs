//! Where rules come from: a file with its includes, or a text.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::findings::Findings;
use crate::hooks::Hooks;
#[cfg(feature = "signed")]
use crate::overlay::Overlay;
use crate::overlay::{self, RemoteSettings};
use crate::source::{Format, Sources};
use crate::tree::Node;

mod documents;
mod environment;
mod include;
pub(crate) mod open;
pub(crate) mod parse;
mod registered;
#[cfg(test)]
mod tests;
mod walk;

#[cfg(test)]
pub(crate) use tests::Folder;

use environment::Environment;

/// The most bytes of one file: 1 MiB.
pub(crate) const MAX_FILE: usize = 1 << 20;
/// The most files of a load: the file and all that it includes.
pub(crate) const MAX_FILES: usize = 64;
/// The most paths of includes that a load tries to open, whether they are files or not.
pub(crate) const MAX_INCLUDES: usize = 1_000;
/// The most entries of folders that the patterns of `include` look at in a load.
pub(crate) const MAX_ENTRIES: usize = 5_000;
/// The most lists and tables inside each other.
pub(crate) const MAX_DEPTH: usize = 32;

/// Where rules come from.
///
/// A file may include others, and refer to environment variables: `${NAME}` in a text is replaced by the value of the variable,
/// `${NAME:-default}` by the default if the variable is unset or empty, and `$${` is a literal `${`. A value that is one reference
/// and nothing else, such as `limit = "${LIMIT}"`, may also be a number or a truth value.
///
/// Each file has at most 1 MiB, there are at most 64 files, the folders of patterns have at most 5 000 entries, and at most 32 lists and tables are inside each other.
///
/// # Examples
///
/// ```
/// use portcullis::rules::{Format, Loader};
///
/// let file = Loader::file("limits.toml");
/// let text = Loader::text("limits", Format::Toml, "[policy.search]")
///     .environment(|name| (name == "SEARCH_LIMIT").then(|| "10/s".to_owned()));
/// # let _ = (file, text);
/// ```
#[derive(Clone)]
pub struct Loader {
    origin: Origin,
    environment: Environment,
    #[cfg(feature = "signed")]
    overlay: Option<Overlay>,
    pub(crate) hooks: Hooks,
}

#[derive(Clone)]
enum Origin {
    File(PathBuf),
    Text { name: PathBuf, format: Format, text: Arc<str> },
}

/// What a load has read.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) sources: Arc<Sources>,
    /// The file, then its includes in their order. Those with mistakes of syntax are not among them.
    pub(crate) documents: Vec<Node>,
    pub(crate) findings: Vec<Diagnostic>,
    /// The files that were opened, and those that could not be.
    pub(crate) files: Vec<PathBuf>,
    /// The folders in which patterns of `include` looked for files.
    pub(crate) folders: Vec<PathBuf>,
    /// What the files say about a document that may change them.
    #[cfg_attr(not(feature = "signed"), allow(dead_code, reason = "without it there are no documents"))]
    pub(crate) remote: Option<RemoteSettings>,
}

impl Loader {
    /// A file, with the files that it includes. The end of its name gives the format: `.toml`, `.yaml`, `.yml` or `.json`.
    ///
    /// Includes are relative to the file that names them.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(Origin::File(path.into()))
    }

    /// A text, which cannot include files. Findings refer to it by `name`.
    pub fn text(name: &str, format: Format, text: impl Into<String>) -> Self {
        Self::of(Origin::Text { name: name.into(), format, text: text.into().into() })
    }

    /// The path of the file, or the name of the text.
    pub(crate) fn name(&self) -> &Path {
        match &self.origin {
            Origin::File(path) | Origin::Text { name: path, .. } => path,
        }
    }

    fn of(origin: Origin) -> Self {
        Self {
            origin,
            environment: Environment::Process,
            #[cfg(feature = "signed")]
            overlay: None,
            hooks: Hooks::default(),
        }
    }

    /// Looks up environment variables with a function instead of in the environment of the process.
    #[must_use]
    pub fn environment(self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { environment: Environment::Lookup(Arc::new(lookup)), ..self }
    }

    /// Takes `${` literally, for documents in which all references are replaced already.
    #[must_use]
    pub fn without_environment(self) -> Self {
        Self { environment: Environment::None, ..self }
    }

    /// Replaces the document that changes the policies of the files while they accept it.
    #[cfg(feature = "signed")]
    pub(crate) fn with_overlay(self, overlay: Overlay) -> Self {
        Self { overlay: Some(overlay), ..self }
    }

    #[cfg(feature = "signed")]
    pub(crate) fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_ref()
    }

    /// Reads all files. Never fails: what is wrong is among the findings.
    pub(crate) fn read(&self) -> Loaded {
        let findings = Findings::default();
        let mut documents = documents::Documents::new(&self.environment, &findings);
        match &self.origin {
            Origin::File(path) => documents.read_file(path, None),
            Origin::Text { name, format, text } => documents.read_text(name, *format, text),
        }
        let documents::Documents { sources, mut nodes, files, folders, .. } = documents;
        let remote = overlay::take(&mut nodes, &self.hooks.doors, &findings);
        Loaded {
            sources: Arc::new(sources),
            documents: nodes,
            findings: findings.into_list(),
            files,
            folders,
            remote,
        }
    }

    /// What was read, changed by the document; `None` without one, or if the files do not accept it. The references of a document are
    /// resolved already, and it includes nothing.
    #[cfg(feature = "signed")]
    pub(crate) fn overlaid(&self, files: &Loaded) -> Option<Loaded> {
        let overlay = self.overlay.as_ref()?;
        let remote = files.remote.as_ref().filter(|remote| remote.accept(overlay))?;
        let mut loaded = files.clone();
        let findings = Findings::new(std::mem::take(&mut loaded.findings));
        let file = Arc::make_mut(&mut loaded.sources).add(&overlay.name, overlay.text.to_string());
        if let Some(node) = parse::parse(Format::Json, &overlay.text, file, &findings) {
            overlay::apply(&mut loaded.documents, &node, &remote.allow, &findings);
        }
        Some(Loaded { findings: findings.into_list(), ..loaded })
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Loader");
        match &self.origin {
            Origin::File(path) => shown.field("file", path),
            Origin::Text { name, format, .. } => shown.field("text", name).field("format", format),
        };
        shown.finish_non_exhaustive()
    }
}
