//! The texts that rules are read from.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::text::hidden;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `.toml`
    Toml,
    /// `.yaml`, `.yml`
    Yaml,
    /// `.json`
    Json,
}

impl Format {
    /// The format of a file by the end of its name.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// One of the files of a load, in the order in which they were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u32);

/// A part of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: usize,
    /// The end, which is behind the last byte.
    pub end: usize,
}

impl Span {
    fn overlaps(self, other: Self) -> bool {
        self.file == other.file && self.start < other.end && other.start < self.end
    }
}

/// A place in a file, for readers: lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path as it was opened, or the name that was given to a text.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Location {
    /// `limits.toml:3:9`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// A file and its text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as it was opened, or the name that was given to a text.
    pub name: PathBuf,
    /// The content.
    pub text: String,
}

/// All files of a load.
#[derive(Clone, Default)]
pub struct Sources {
    files: Vec<Source>,
    /// What references in the files were replaced by.
    pub(crate) variables: Vec<Variable>,
}

/// The value of an environment variable in a file, which no message shows.
#[derive(Clone)]
pub(crate) struct Variable {
    /// The place of the text that refers to it.
    pub(crate) span: Span,
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Sources {
    /// Adds a file.
    pub fn add(&mut self, name: impl Into<PathBuf>, text: String) -> FileId {
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(Source { name: name.into(), text });
        id
    }

    /// The files, in the order in which they were opened.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Source> {
        self.files.iter()
    }

    /// A message about a place, without the values of variables.
    pub(crate) fn without_values(&self, message: String, place: Option<Span>) -> String {
        self.variables.iter().fold(message, |message, variable| {
            let is_about = place.is_some_and(|place| place.overlaps(variable.span));
            hidden(message, &variable.name, &variable.value, is_about)
        })
    }

    /// One of the files.
    pub fn get(&self, file: FileId) -> Option<&Source> {
        self.files.get(usize::try_from(file.0).ok()?)
    }

    /// The place of a span.
    pub fn location(&self, span: Span) -> Location {
        let Some(Source { name, text }) = self.get(span.file) else {
            return Location { file: PathBuf::new(), line: 1, column: 1 };
        };
        let before = text.get(..span.start).unwrap_or(text);
        let (line, last) = before.split('\n').fold((0, ""), |(line, _), next| (line + 1, next));
        Location { file: name.clone(), line, column: last.chars().count() + 1 }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("files", &self.files).finish_non_exhaustive()
    }
}
