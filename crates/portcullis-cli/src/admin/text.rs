//! What a server sends, for a terminal.

use serde_json::Value;

use crate::table::escaped;

/// The text in one line, without characters that a terminal would obey. One of more than 2 048 characters is cut at the end of a word.
pub(super) fn printable(text: &str) -> String {
    match text.char_indices().nth(MAX) {
        Some((end, next)) => {
            let words = text[..end + next.len_utf8()].rfind(char::is_whitespace);
            escaped(text[..words.unwrap_or(end)].trim_end()) + " …"
        }
        None => escaped(text),
    }
}

/// What an error says: the detail of problem details, or the beginning of another text.
pub(super) fn detail(body: &[u8]) -> String {
    let Ok(Value::Object(problem)) = serde_json::from_slice(body) else {
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * TWO_LINES)]);
        return crate::table::printable(text.trim(), TWO_LINES);
    };
    let mut detail = ["detail", "error", "message", "title"]
        .into_iter()
        .find_map(|name| problem.get(name)?.as_str())
        .map(printable)
        .unwrap_or_default();
    if let Some(field) = problem.get("field").and_then(Value::as_str) {
        detail = format!("{}: {detail}", printable(field));
    }
    let policies = problem.get("policies").and_then(Value::as_array).into_iter().flatten();
    let policies: Vec<_> = policies.filter_map(Value::as_str).collect();
    if !policies.is_empty() {
        detail = format!("{detail}; the policies are {}", printable(&policies.join(", ")));
    }
    detail
}

/// No message of a service is longer.
const MAX: usize = 2_048;

/// As much of a page of another server as tells what it is.
const TWO_LINES: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_details_are_one_line() {
        let problem = br#"{"status":422,"title":"Unprocessable","detail":"no\npolicy","field":"policy","policies":["a","b"]}"#;
        assert_eq!(detail(problem), r"policy: no\u{a}policy; the policies are a, b");
        assert_eq!(detail(br#"{"error":"no"}"#), "no");
        assert_eq!(detail(b"{}"), "");
        assert_eq!(detail(b"<h1>\x1b[31mGone</h1>\n"), r"<h1>\u{1b}[31mGone</h1>");
    }

    #[test]
    fn long_messages_end_with_word() {
        let problem = |text: &str| detail(serde_json::json!({ "detail": text }).to_string().as_bytes());
        let whole = "é word".repeat(MAX / 6);
        assert_eq!(problem(&whole), whole);
        let words = "word ".repeat(MAX);
        assert_eq!(problem(&words), "word ".repeat(MAX / 5) + "…");
        let exact = format!("{} {}", "b".repeat(MAX - 5), "word word");
        assert_eq!(problem(&exact), format!("{} word …", "b".repeat(MAX - 5)));
        assert_eq!(problem(&"é".repeat(MAX + 1)), "é".repeat(MAX) + " …");
        assert_eq!(detail(&[b'a'; 1_000]).chars().count(), TWO_LINES + 1, "no message of the admin API");
    }
}
