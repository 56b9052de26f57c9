use super::*;

fn preferred_of(lines: &[&str]) -> RejectionFormat {
    let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_bytes(line.as_bytes()).unwrap()).collect();
    preferred(&lines, RejectionFormat::Text)
}

#[test]
fn the_format_follows_the_weights_of_accept() {
    use RejectionFormat::{Json, Problem, Text};
    let chrome = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
    for (line, expected) in [
        ("", Text),
        ("*/*", Text),
        ("text/html", Text),
        ("text/*", Text),
        (chrome, Text),
        ("application/json", Json),
        ("Application/JSON ; charset=utf-8", Json),
        ("application/*", Json),
        ("application/problem+json", Problem),
        // The default of axios.
        ("application/json, text/plain, */*", Json),
        ("application/problem+json, application/json", Problem),
        ("application/json, application/problem+json", Json),
        ("application/json;q=0.5, application/problem+json", Problem),
        ("application/json;q=0.5, */*", Text),
        ("application/json;q=0.5, */*;q=0.4", Json),
        ("text/plain;q=0, */*", Json),
        ("text/plain;q=0, application/json;q=0.0, */*;q=0.001", Problem),
        ("*/*;q=0", Text),
        ("application/*;q=0.9, application/json;q=0.1", Problem),
        ("application/json;profile=\"a,b;q=0\";q=1, text/plain;q=0.9", Json),
        ("text/plain;q=0.9;application/json, application/json;q=0.95", Json),
        ("application/json;Q=0.3, text/plain;q=0.2", Json),
    ] {
        assert_eq!(preferred_of(&[line]), expected, "{line}");
    }
    assert_eq!(preferred_of(&["text/plain;q=0.1", "application/json"]), Json, "lines are one list");
}

#[test]
fn default_format_is_for_clients_without_preference() {
    use RejectionFormat::{Json, Problem, Text};
    for (line, of_json, of_problem) in [
        // What `fetch` sends.
        (Some("*/*"), Json, Problem),
        (None, Json, Problem),
        (Some("image/png"), Json, Problem),
        (Some("text/html, */*;q=0.8"), Json, Problem),
        (Some("application/*"), Json, Problem),
        (Some("application/json, text/plain, */*"), Json, Json),
        (Some("text/plain"), Text, Text),
        (Some("text/plain;q=0.5, */*;q=0.1"), Text, Text),
        (Some("application/json;q=0, application/problem+json;q=0, */*"), Text, Text),
    ] {
        for (default, expected) in [(Json, of_json), (Problem, of_problem)] {
            let line = line.map(|line| HeaderValue::from_str(line).unwrap());
            assert_eq!(preferred(&line, default), expected, "{line:?}");
        }
    }
}

#[test]
fn a_malformed_range_is_ignored() {
    for line in [
        "application/json;q=2",
        "application/json;q=1.001",
        "application/json;q=0.5555",
        "application/json;q=",
        "application/json;q=-1",
        "application/json;q=0.x",
        "application",
        "/",
        "*/json",
        ",,;,=",
        "application/json\"",
        "\"application/json",
        "\\",
    ] {
        assert_eq!(preferred_of(&[line]), RejectionFormat::Text, "{line}");
    }
    assert_eq!(preferred_of(&["nonsense, application/problem+json"]), RejectionFormat::Problem);
    let bytes = HeaderValue::from_bytes(b"\xff/\xfe;q=\x80, application/json").unwrap();
    assert_eq!(preferred([&bytes], RejectionFormat::Text), RejectionFormat::Json);
}

#[test]
fn ranges_beyond_the_limit_are_not_read() {
    let mut line = "a/b,".repeat(MAX_RANGES - 1) + "application/json";
    assert_eq!(preferred_of(&[&line]), RejectionFormat::Json);
    line.insert_str(0, "a/b,");
    assert_eq!(preferred_of(&[&line]), RejectionFormat::Text);
}
