//! A parser for the full grammar of the `Forwarded` header.
//!
//! Source: RFC 7239, sections 4 and 6; RFC 9110, section 5.6. The crates that parse this header split it at commas before they
//! handle quotes, so that a comma in a quoted string yields elements that no proxy wrote.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::address::{is_port, parse_with_port};

/// The value of `for` in one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Address(IpAddr),
    /// `unknown`, an obfuscated identifier, or no `for` at all.
    Hidden,
    /// A value outside of the grammar, or the unspecified address.
    Malformed,
}

/// Returns the elements of the header from left to right, or `None` if a line does not consist of elements.
///
/// A line has to be well-formed as a whole before any part is used: only then is it certain that the right end was written by
/// the proxy, and is not part of a quoted string that the client opened.
pub(super) fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<SmallVec<[Node; 8]>> {
    let mut nodes = SmallVec::new();
    for line in lines {
        let mut rest = Scanner { rest: line };
        loop {
            rest.skip_whitespace();
            nodes.push(rest.element()?);
            rest.skip_whitespace();
            if rest.rest.is_empty() {
                break;
            }
            rest.expect(b',')?;
        }
    }
    Some(nodes)
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    /// `[ forwarded-pair ] *( ";" [ forwarded-pair ] )`
    fn element(&mut self) -> Option<Node> {
        let mut names: SmallVec<[&[u8]; MAX_PAIRS]> = SmallVec::new();
        let mut node = Node::Hidden;
        loop {
            if self.rest.first().copied().is_some_and(is_token) {
                let (name, value) = self.pair()?;
                // Four names are registered. The limit bounds the comparisons, since each name is compared with all before it.
                if names.len() == MAX_PAIRS || names.iter().any(|before| before.eq_ignore_ascii_case(name)) {
                    return None;
                }
                names.push(name);
                if name.eq_ignore_ascii_case(b"for") {
                    node = parse_node(&value);
                }
            }
            if self.expect(b';').is_none() {
                return Some(node);
            }
        }
    }

    /// `token "=" ( token / quoted-string )`
    fn pair(&mut self) -> Option<(&'a [u8], Cow<'a, [u8]>)> {
        let name = self.token()?;
        self.expect(b'=')?;
        let value = if self.expect(b'"').is_some() { self.quoted()? } else { Cow::Borrowed(self.token()?) };
        Some((name, value))
    }

    fn token(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| !is_token(*byte)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    /// Reads the rest of a quoted string, without its quotes and its backslashes.
    fn quoted(&mut self) -> Option<Cow<'a, [u8]>> {
        let end = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let (plain, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        if !plain.iter().all(|byte| is_quotable(*byte)) {
            return None;
        }
        if self.expect(b'"').is_some() {
            return Some(Cow::Borrowed(plain));
        }
        let mut value = plain.to_vec();
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let byte = match byte {
                b'"' => return Some(Cow::Owned(value)),
                b'\\' => {
                    let (escaped, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    escaped
                }
                byte => byte,
            };
            if !is_quotable(*byte) {
                return None;
            }
            value.push(*byte);
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    fn skip_whitespace(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }
}

/// `nodename [ ":" node-port ]`
fn parse_node(value: &[u8]) -> Node {
    let Ok(text) = str::from_utf8(value) else { return Node::Malformed };
    if let Some(address) = parse_with_port(text, is_node_port) {
        return Node::Address(address);
    }
    let (name, port_is_fine) = match text.split_once(':') {
        Some((name, port)) => (name, is_node_port(port)),
        None => (text, true),
    };
    if port_is_fine && (name.eq_ignore_ascii_case("unknown") || is_obfuscated(name)) {
        Node::Hidden
    } else {
        Node::Malformed
    }
}

fn is_node_port(text: &str) -> bool {
    is_port(text) || is_obfuscated(text)
}

/// `"_" 1*( ALPHA / DIGIT / "." / "_" / "-" )`
fn is_obfuscated(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(allowed))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a byte may be in a quoted string, after a backslash or not.
fn is_quotable(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// The maximum number of pairs in an element.
const MAX_PAIRS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(line: &str) -> Option<Vec<Node>> {
        parse(std::iter::once(line.as_bytes())).map(|nodes| nodes.to_vec())
    }

    fn node(text: &str) -> Node {
        Node::Address(text.parse().unwrap())
    }

    #[test]
    fn the_examples_of_the_rfc_are_parsed() {
        for (line, expected) in [
            ("for=\"_gazonk\"", vec![Node::Hidden]),
            ("For=\"[2001:db8:cafe::17]:4711\"", vec![node("2001:db8:cafe::17")]),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", vec![node("192.0.2.60")]),
            ("for=192.0.2.43, for=198.51.100.17", vec![node("192.0.2.43"), node("198.51.100.17")]),
            ("for=_hidden, for=_SEVKISEK", vec![Node::Hidden; 2]),
            (
                "for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown",
                vec![node("192.0.2.43"), node("2001:db8:cafe::17"), Node::Hidden],
            ),
        ] {
            assert_eq!(nodes(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn quotes_hide_commas_and_backslashes_hide_quotes() {
        assert_eq!(nodes(r#"host="a, for=1.1.1.1";for=192.0.2.1"#), Some(vec![node("192.0.2.1")]));
        assert_eq!(nodes(r#"host="a\", for=1.1.1.1";for=192.0.2.1"#), Some(vec![node("192.0.2.1")]));
        assert_eq!(nodes(r#"for="\1\9\2.0.2.1\:80""#), Some(vec![node("192.0.2.1")]));
        assert_eq!(nodes("host=\"\u{e9}\t\";for=192.0.2.1"), Some(vec![node("192.0.2.1")]));
    }

    #[test]
    fn elements_without_an_address_are_hidden() {
        for line in
            ["", " \t", ";", "proto=https", "for=unknown", r#"for="UNKNOWN:80""#, r#"for="unknown:_p""#]
        {
            assert_eq!(nodes(line), Some(vec![Node::Hidden]), "{line}");
        }
        assert_eq!(nodes(",,"), Some(vec![Node::Hidden; 3]));
        assert_eq!(nodes(";;for=192.0.2.1;;"), Some(vec![node("192.0.2.1")]));
    }

    #[test]
    fn an_invalid_node_is_malformed_and_the_others_are_kept() {
        for value in [
            "example",
            "_",
            r#""_""#,
            r#""2001:db8::1""#,
            r#""192.0.2.1:""#,
            r#""192.0.2.1:123456""#,
            r#""192.0.2.1:_""#,
            r#""[192.0.2.1]""#,
            r#""[2001:db8::1""#,
            r#""[2001:db8::1]80""#,
            r#""unknown:x""#,
            r#""""#,
            r#"" 192.0.2.1""#,
            "0.0.0.0",
            r#""0.0.0.0:80""#,
            r#""[::]""#,
            r#""[::ffff:0.0.0.0]:80""#,
        ] {
            let line = format!("for={value}, for=192.0.2.1");
            assert_eq!(nodes(&line), Some(vec![Node::Malformed, node("192.0.2.1")]), "{line}");
        }
    }

    #[test]
    fn a_line_outside_of_the_grammar_is_refused_as_a_whole() {
        for line in [
            r#"for="192.0.2.1, for=192.0.2.2"#,
            r#"for="192.0.2.1, for="[2001:db8::1]""#,
            r#"for="192.0.2.1\"#,
            r#"for="192.0.2.1"x"#,
            "for=192.0.2.1:80",
            "for=[2001:db8::1]",
            "for=",
            "for",
            "=192.0.2.1",
            "for =192.0.2.1",
            "for= 192.0.2.1",
            "for=192.0.2.1; proto=http",
            "for=192.0.2.1 ;proto=http",
            "for=192.0.2.1;FOR=192.0.2.2",
            "for=192.0.2.1;proto=a;proto=b",
            "for=192.0.2.1 for=192.0.2.2",
            "for=\"\x7f\"",
            "for=\"\\\x7f\"",
            "for=\u{e9}",
        ] {
            assert_eq!(nodes(line), None, "{line}");
        }
    }

    #[test]
    fn lines_are_concatenated_and_no_string_spans_two() {
        let parse =
            |lines: &[&str]| parse(lines.iter().map(|line| line.as_bytes())).map(|nodes| nodes.to_vec());
        assert_eq!(parse(&["for=192.0.2.1", "for=192.0.2.2"]), nodes("for=192.0.2.1, for=192.0.2.2"));
        assert_eq!(parse(&[r#"for=192.0.2.1;host="a"#, r#"b";for=192.0.2.2"#]), None);
        assert_eq!(parse(&[r#"for="192.0.2.1"#, "for=192.0.2.2"]), None);
        assert_eq!(parse(&[]), Some(Vec::new()));
    }
}
