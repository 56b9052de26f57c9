mod compression;
mod formats;

use super::*;

const COMMON: &str = r#"192.0.2.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 404 2326"#;

fn lines(log: &str, fields: Fields) -> (Vec<Line>, Notes) {
    let mut reader = LogReader::new(log.as_bytes()).fields(fields);
    let mut lines = Vec::new();
    while let Some(line) = reader.next().unwrap() {
        lines.push(line.clone());
    }
    (lines, reader.notes().clone())
}

fn one(log: &str) -> Line {
    let (mut lines, notes) = lines(log, Fields::default());
    assert_eq!((lines.len(), notes.bad), (1, 0), "{notes:?}");
    lines.remove(0)
}

#[test]
fn common_and_combined_lines_are_read() {
    let line = one(COMMON);
    assert_eq!((line.micros, line.status), (971_211_336_000_000, 404));
    assert_eq!((line.method(), line.target()), (&b"GET"[..], &b"/a?b=c"[..]));
    assert_eq!(line.peer.to_string(), "192.0.2.1");
    assert_eq!(line.headers().count(), 0);

    let combined = one(&format!(r#"{COMMON} "-" "a \"quoted\" agent" rest of it"#));
    let headers: Vec<_> = combined.headers().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(headers, [("user-agent", &br#"a \"quoted\" agent"#[..])]);
}

#[test]
fn json_lines_are_read_by_their_usual_names() {
    let line = one(r#"{"ts":971211336.5,"request":{"remote_ip":"2001:db8::1","method":"PUT","uri":"/x","host":"a.example",
        "headers":{"X-Api-Key":["k"]}},"status":201,"other":[{"time":1}]}"#.replace('\n', "").as_str());
    assert_eq!((line.micros, line.status), (971_211_336_500_000, 201));
    assert_eq!((line.method(), line.target()), (&b"PUT"[..], &b"/x"[..]));
    assert_eq!(line.headers().next().map(|(_, value)| value), Some(&b"a.example"[..]));
    let line = one(
        r#"{"time_iso8601":"2000-10-10T13:55:36-07:00","remote_addr":"192.0.2.1:80","request":"GET /\u0061 HTTP/1.1"}"#,
    );
    assert_eq!((line.micros, line.target()), (971_211_336_000_000, &b"/a"[..]));
}

#[test]
fn ignored_fields_may_have_any_bytes() {
    let log = b"{\"ts\":7,\"ip\":\"192.0.2.1\",\"path\":\"/\",\"referer\":\"caf\xe9\"}";
    let mut reader = LogReader::new(&log[..]);
    assert_eq!(reader.next().unwrap().map(Line::target), Some(&b"/"[..]));
}

#[test]
fn named_fields_replace_the_usual_ones() {
    let fields: Fields =
        "time=at,client=who,path=what,header:x-api-key=request.headers.X-Api-Key".parse().unwrap();
    let log = r#"{"time":"nonsense","at":7,"who":"192.0.2.9","what":"/","request":{"headers":{"X-Api-Key":["k","l"]}}}"#;
    let (lines, notes) = lines(log, fields);
    assert_eq!(notes.bad, 0, "{notes:?}");
    assert_eq!(lines[0].micros, 7_000_000);
    let headers: Vec<_> = lines[0].headers().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(headers, [("x-api-key", &b"k"[..])]);
}

#[test]
fn absent_headers_are_left_out() {
    for absent in [r#""""#, r#""-""#, r#"" - ""#, r#""(null)""#, "null"] {
        let log = format!(
            r#"{{"time":"2026-01-01T00:00:00Z","remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","x_api_key":{absent}}}"#
        );
        let (lines, notes) = lines(&log, "header:x-api-key=x_api_key".parse().unwrap());
        assert_eq!((lines.len(), notes.bad, lines[0].headers().count()), (1, 0, 0), "{log}: {notes:?}");
    }
}

#[test]
fn bad_lines_are_counted_with_their_numbers() {
    let too_long = "x".repeat(64 * 1_024 + 1);
    let log = format!(
        "{COMMON}\n\n{too_long}\nlocalhost {rest}\n{handshake}\n{status}\n\u{0}\n{COMMON}",
        rest = &COMMON[10..],
        handshake = COMMON.replace("GET /a?b=c HTTP/1.0", "\\x16\\x03"),
        status = COMMON.replace("404", "99"),
    );
    let (lines, notes) = lines(&log, Fields::default());
    assert_eq!((lines.len(), notes.lines, notes.bad), (2, 7, 5));
    let bad = [BadLine::TooLong, BadLine::Client, BadLine::Request, BadLine::Status, BadLine::Shape];
    let read: Vec<_> = notes.examples.iter().map(|one| (one.line, one.reason, one.column)).collect();
    let columns = [1, 1, 49, 70, 2];
    let expected: Vec<_> =
        (3..).zip(bad).zip(columns).map(|((line, reason), column)| (line, reason, column)).collect();
    assert_eq!(read, expected);
    assert_eq!(notes.bytes, log.len() as u64);
}

#[test]
fn lines_are_sorted_within_a_window_and_late_ones_moved() {
    let at = |seconds: u64| format!(r#"{{"ts":{seconds},"ip":"192.0.2.1","path":"/{seconds}"}}"#);
    let log: Vec<_> = [100, 95, 111, 99, 130, 105, 129].into_iter().map(at).collect();
    let (lines, notes) = lines(&log.join("\n"), Fields::default());
    let order: Vec<_> = lines.iter().map(|line| line.micros / 1_000_000).collect();
    assert_eq!(order, [95, 100, 100, 111, 111, 129, 130]);
    assert_eq!(notes.late, 2);
}

#[test]
fn a_truncated_line_of_any_length_never_panics() {
    let json = r#"{"ts":971211336.5,"request":{"remote_ip":"2001:db8::1","uri":"/x"},"status":201}"#;
    let combined = format!(r#"{COMMON} "-" "agent\\" "#);
    for text in [json, &combined] {
        for end in 0..text.len() {
            let _ = lines(&text[..end], Fields::default());
            let _ = lines(&text[end..], Fields::default());
        }
    }
}
