//! What a server sends, for a terminal.

use serde_json::Value;

/// The text in one line, without characters that a terminal would obey, and not longer than two lines of it.
pub(super) fn printable(text: &str) -> String {
    crate::table::printable(text, MAX)
}

/// What an error says: the detail of problem details, or the beginning of another text.
pub(super) fn detail(body: &[u8]) -> String {
    let Ok(Value::Object(problem)) = serde_json::from_slice(body) else {
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * MAX)]);
        return printable(text.trim());
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

/// Two lines of a terminal.
const MAX: usize = 160;

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
    fn long_texts_are_cut() {
        assert_eq!(detail(&[b'a'; 1_000]).chars().count(), MAX + 1);
        assert_eq!(printable(&"é".repeat(161)).chars().last(), Some('…'));
        assert_eq!(printable(&"é".repeat(160)).chars().last(), Some('é'));
    }
}
