//! Tables for a terminal.

use std::fmt::Write as _;

/// A table whose columns are aligned: the first to the left, the others to the right.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().copied().map(ToOwned::to_owned).collect()])
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    /// The head and the rows, as they were added.
    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() < 2
    }

    /// Writes the rows. What a log contains is shown without control characters, which a terminal would obey.
    pub(crate) fn write(&self, out: &mut String) {
        let shown = |row: &Vec<String>| row.iter().map(|cell| printable(cell, MAX_CELL)).collect::<Vec<_>>();
        let rows: Vec<_> = self.0.iter().map(shown).collect();
        let mut widths = vec![0; self.0.first().map_or(0, Vec::len)];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = if column == 0 {
                    write!(line, "{cell:width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

/// The [`escaped`] text, of which at most this number of characters is shown.
pub(crate) fn printable(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => escaped(&text[..end]) + "…",
        None => escaped(text),
    }
}

/// The text without control characters, which a terminal would obey, and without those that change the direction of the text.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        match character {
            '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(character.escape_unicode());
            }
            _ if character.is_control() => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

const MAX_CELL: usize = 80;
