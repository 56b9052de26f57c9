//! Bounds how deep a YAML document can be nested, before it is parsed: the parser calls itself for each level.

/// The highest number of characters that indent a line: spaces, and the indicators `-`, `?` and `:` in front of a value.
pub(super) const MAX_INDENT: usize = 128;

/// How deep aliases may nest a document at most, by the estimate of [`excess`].
const MAX_ALIASED_DEPTH: usize = 640;

/// Where and why a document may be nested too deeply.
///
/// A collection in block style begins at a greater column than the one that contains it; only a list can begin at the column of its map, and
/// its elements begin two columns later. Columns are at most the indent of a line, so the largest indent bounds the number of
/// levels. The parser itself bounds brackets, each of which can be two levels. An alias puts what an anchor marks at another depth, so
/// that each anchor that an alias may be inside of can add as much again; `&` and `*` are counted wherever they may begin a name.
pub(super) fn excess(text: &str) -> Option<(usize, String, &'static str)> {
    let mut start = 0;
    let mut deepest = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        let content = line.trim_start_matches([' ', '\t', '-', '?', ':']);
        let indent = line.len() - content.len();
        if !line.trim().is_empty() {
            if indent > MAX_INDENT {
                let message = format!("a line is indented by {indent} characters, more than {MAX_INDENT}");
                return Some((start, message, "indent by two spaces for each level"));
            }
            deepest = deepest.max(indent);
        }
        start += line.len();
    }
    let names = |sign: char| {
        let next =
            text.split(sign).skip(1).filter(|rest| rest.starts_with(|next: char| !next.is_whitespace()));
        next.count()
    };
    let chained = names('&').min(names('*'));
    let brackets = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count().min(usize::from(u8::MAX));
    let depth = deepest + 3 + 2 * brackets;
    if chained > 0 && depth * (chained + 1) > MAX_ALIASED_DEPTH {
        let message = "the aliases of this file may nest it too deeply".to_owned();
        return Some((0, message, "write the values out, or use fewer anchors"));
    }
    None
}
