//! Reads files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::findings::{Findings, without_place};
use super::table::Builder;
use super::{Descriptors, Files, MAX_FILE_BYTES, MAX_FILES, document, yaml};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::open;
use crate::source::{FileId, Sources, Span};

/// Reads Envoy's descriptor files, with settings.
///
/// ```
/// use portcullis::rules::envoy::Loader;
///
/// let users = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 9}}]}";
/// let paths = "{domain: shop, descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 5}}]}";
/// let files = [("users.yaml", users), ("paths.yaml", paths)];
/// assert!(Loader::new().parse(&files).is_err());
/// let descriptors = Loader::new().merge_domains(true).parse(&files)?;
/// assert_eq!(descriptors.limits().len(), 2);
/// # Ok::<(), portcullis::rules::Diagnostics>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loader {
    merge_domains: bool,
}

impl Loader {
    /// The settings of Envoy's service by default.
    pub const fn new() -> Self {
        Self { merge_domains: false }
    }

    /// Whether several files may have the same domain, whose descriptors are then merged, in the order of the files. It is a mistake by
    /// default. In Envoy's service this is `MERGE_DOMAIN_CONFIG`.
    #[must_use]
    pub const fn merge_domains(self, merge_domains: bool) -> Self {
        Self { merge_domains }
    }

    /// Like [`Descriptors::parse`], with these settings.
    ///
    /// # Errors
    ///
    /// If a file is not valid or exceeds a [bound](super#bounds), with all mistakes of all files, and the warnings.
    pub fn parse(self, files: &[(&str, &str)]) -> Result<Descriptors, Diagnostics> {
        let files = files.iter().map(|(name, text)| (PathBuf::from(name), Ok((*text).to_owned())));
        self.load(files, &[])
    }

    /// Like [`Descriptors::from_files`], with these settings.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is not valid or exceeds a [bound](super#bounds), with all mistakes of all files, and the warnings.
    pub fn load_files<P: AsRef<Path>>(self, paths: &[P]) -> Result<Descriptors, Diagnostics> {
        self.load(paths.iter().map(|path| (path.as_ref().to_owned(), read(path.as_ref()))), &[])
    }

    /// Like [`load_files`](Self::load_files), for the [files at a path](Files). A folder without files has no limits.
    ///
    /// # Errors
    ///
    /// Like [`load_files`](Self::load_files), or if a folder cannot be read.
    pub fn load_path(self, files: &Files) -> Result<Descriptors, Diagnostics> {
        let read = files.paths().iter().map(|path| (path.clone(), read(path)));
        self.load(read, &files.findings)
    }

    fn load(
        self,
        files: impl ExactSizeIterator<Item = (PathBuf, Result<String, String>)>,
        found_before: &[Diagnostic],
    ) -> Result<Descriptors, Diagnostics> {
        let mut findings = Findings::default();
        for finding in found_before {
            findings.add(finding.clone());
        }
        let mut sources = Sources::default();
        if files.len() > MAX_FILES {
            let message = format!("there are more than {MAX_FILES} files");
            findings.add(without_place(message, "use fewer files: one for each domain"));
        }
        let count = files.len();
        let mut builder = Builder::new(&mut findings);
        for (name, text) in files.take(MAX_FILES) {
            let text = match text {
                Ok(text) => text,
                Err(error) => {
                    let message = format!("{} cannot be read: {error}", name.display());
                    builder.findings.add(without_place(message, "check the path and its permissions"));
                    continue;
                }
            };
            let text = match text.strip_prefix('\u{feff}') {
                Some(text) => text.to_owned(),
                None => text,
            };
            let file = sources.add(name, text);
            let text = sources.get(file).map_or("", |source| &source.text);
            if text.len() > MAX_FILE_BYTES {
                let start = Span { file, start: 0, end: 0 };
                let message = format!("the file has more than {MAX_FILE_BYTES} bytes");
                builder
                    .findings
                    .error("", start, message)
                    .help("divide it into several files, one for each domain");
                continue;
            }
            self.read(file, text, &mut builder);
        }
        let table = builder.finish();
        let found = Diagnostics::new(Arc::new(sources), findings.into_list());
        if found.has_errors() { Err(found) } else { Ok(Descriptors { table, files: count, warnings: found }) }
    }

    fn read(self, file: FileId, text: &str, builder: &mut Builder<'_>) {
        match yaml::load(file, text) {
            Err(mistake) => builder.findings.add(mistake),
            Ok((root, second)) => {
                if let Some(second) = second {
                    let message = "only the first document of a file is read: this one limits nothing";
                    builder.findings.warning("", second, message).help("put it into a file of its own");
                }
                let document = document::read(&root, builder.findings);
                builder.add(document, self.merge_domains);
            }
        }
    }
}

/// The text of a file, or why it cannot be read.
fn read(path: &Path) -> Result<String, String> {
    let bytes = open::read(path).map_err(|error| error.reason())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}
