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

/// A message that names a variable in place of its value. If it `is_about` the value, it does not show parts of it either, such as a unit
/// that is not known.
pub(crate) fn hidden(message: String, name: &str, value: &str, is_about: bool) -> String {
    if !is_about && value.len() < TELLING {
        return message;
    }
    let reference = format!("${{{name}}}");
    let debug = format!("{value:?}");
    let forms = [value, debug.trim_matches('"'), &one_line(value.to_owned())];
    let whole = forms.into_iter().find(|form| message.contains(*form));
    let mut shown = whole.map_or_else(|| message.clone(), |whole| message.replace(whole, &reference));
    if is_about {
        let rest: Vec<_> = shown.split(&*reference).map(|rest| without_words(rest, value)).collect();
        shown = rest.join(&reference);
    }
    if shown != message && !shown.contains(&*reference) {
        shown = format!("{shown}, in the value of {reference}");
    }
    shown
}

/// A text without the words of a value.
fn without_words(text: &str, value: &str) -> String {
    let is_letter = |next: char| next.is_alphanumeric();
    let value = value.to_lowercase();
    let is_of_value = |word: &str| {
        let word = word.to_lowercase();
        let is_whole = || value.split(|next| !is_letter(next)).any(|known| known == word);
        (word.len() >= TELLING && value.contains(&*word)) || (word.len() > 1 && is_whole())
    };
    let pieces = text.split_inclusive(|next| !is_letter(next)).flat_map(|piece| {
        let end = piece.trim_end_matches(|next| !is_letter(next)).len();
        let (word, mark) = piece.split_at(end);
        [if is_of_value(word) { "***" } else { word }, mark]
    });
    pieces.collect()
}

/// The bytes of a value that are hardly in a message by chance.
const TELLING: usize = 6;
