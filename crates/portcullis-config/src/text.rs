//! How messages show texts.

/// The most characters of a value that a message shows.
pub(crate) const SHOWN: usize = 60;

/// A text in quotes, shortened if it is long.
pub(crate) fn quoted(text: &str) -> String {
    let Some((cut, _)) = text.char_indices().nth(SHOWN) else { return format!("{text:?}") };
    format!("{:?}...", &text[..cut])
}

/// The most characters of a message.
const LONGEST: usize = 500;

/// A message on one line, without control characters, shortened if it is long.
pub(crate) fn one_line(text: String) -> String {
    if text.len() <= LONGEST && !text.contains(char::is_control) {
        return text;
    }
    let mut line = String::new();
    for (index, next) in text.chars().enumerate() {
        if index == LONGEST {
            line.push_str("...");
            break;
        }
        if next.is_control() { line.extend(next.escape_default()) } else { line.push(next) }
    }
    line
}
