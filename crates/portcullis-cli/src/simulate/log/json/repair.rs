//! Values that are missing in lines which a template has made, such as nginx's `log_format`.

/// The object with `null` in place of values outside of texts that are empty or a dash: `{"upstream":,"time":-}`. `None` if there are
/// none.
pub(super) fn repaired(text: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = Vec::with_capacity(text.len() + 16);
    let (mut is_text, mut is_escaped, mut is_changed) = (false, false, false);
    for (at, byte) in text.iter().enumerate() {
        repaired.push(*byte);
        if is_text {
            is_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
        } else if *byte == b'"' {
            is_text = true;
        } else if *byte == b':' {
            let value = text[at + 1..].trim_ascii_start();
            let rest = value.strip_prefix(b"-").unwrap_or(value).trim_ascii_start();
            if matches!(rest.first(), Some(b',' | b'}')) {
                is_changed = true;
                repaired.extend_from_slice(b"null");
            }
        } else if *byte == b'-' && repaired[..repaired.len() - 1].trim_ascii_end().ends_with(b"null") {
            repaired.pop();
        }
    }
    is_changed.then_some(repaired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_null() {
        for (text, repaired_text) in [
            (r#"{"a":,"b":1}"#, Some(r#"{"a":null,"b":1}"#)),
            (r#"{"a":-,"b": }"#, Some(r#"{"a":null,"b":null }"#)),
            (r#"{"a": - , "b":{"c":}}"#, Some(r#"{"a":null  , "b":{"c":null}}"#)),
            (r#"{"a":-1,"b":":,\":,"}"#, None),
            (r#"{"a""#, None),
        ] {
            let read = repaired(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(read.as_deref(), repaired_text, "{text}");
        }
    }
}
