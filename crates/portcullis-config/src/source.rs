//! The texts that rules are read from.

use std::fmt;
use std::path::{Path, PathBuf};

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
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    /// Adds a file.
    pub fn add(&mut self, name: impl Into<PathBuf>, text: String) -> FileId {
        let id = FileId(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        self.0.push(Source { name: name.into(), text });
        id
    }

    /// The files, in the order in which they were opened.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Source> {
        self.0.iter()
    }

    /// One of the files.
    pub fn get(&self, file: FileId) -> Option<&Source> {
        self.0.get(usize::try_from(file.0).ok()?)
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
