//! Positions of errors in a file.

use super::ScenarioError;

/// A file that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceFile<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl SourceFile<'_> {
    /// The line of a byte, counted from 1.
    pub(super) fn line(self, offset: usize) -> usize {
        1 + self.before(offset).matches('\n').count()
    }

    pub(super) fn error(self, offset: usize, message: impl Into<String>) -> ScenarioError {
        let before = self.before(offset);
        let in_line = before.rsplit('\n').next().unwrap_or_default();
        ScenarioError::Malformed {
            file: self.file.to_owned(),
            line: self.line(offset),
            column: 1 + in_line.chars().count(),
            case: self.case(offset),
            message: message.into(),
        }
    }

    /// The name of the case around a byte. It is read from the text because the text may not be valid TOML.
    fn case(self, offset: usize) -> Option<String> {
        let start = self.before(self.line_end(offset)).rfind(HEADER)? + HEADER.len();
        let rest = self.text.get(start..)?;
        let case = rest.split(HEADER).next()?;
        let name = case.lines().find_map(|line| {
            let value = line.trim_start().strip_prefix("name")?.trim_start().strip_prefix('=')?;
            Some(value.trim().trim_matches(['"', '\'']))
        })?;
        Some(name.to_owned())
    }

    fn before(&self, offset: usize) -> &str {
        let end = self.text.len().min(offset);
        self.text.get(..end).unwrap_or(self.text)
    }

    fn line_end(self, offset: usize) -> usize {
        let rest = self.text.get(offset..).unwrap_or_default();
        offset + rest.find('\n').unwrap_or(rest.len())
    }
}

const HEADER: &str = "[[case]]";
