//! Both grammars, implemented independently of the layer: a tokenizer, then a parser.

use super::address::{bare, is_numeric_port, with_port};
use super::model::Hop;

/// Parses a comma-separated list of elements of any kind.
pub(super) fn x_forwarded_for(lines: &[&[u8]]) -> Vec<Hop> {
    let joined = lines.join(&b","[..]);
    let hop = |element: &[u8]| {
        let text = String::from_utf8(element.to_vec()).ok()?;
        let text = text.trim_matches([' ', '\t']);
        bare(text).or_else(|| with_port(text, is_numeric_port)).map(Hop::Address)
    };
    let elements = joined.split(|byte| *byte == b',').filter(|_| !lines.is_empty());
    elements.map(|element| hop(element).unwrap_or(Hop::NotAnAddress)).collect()
}

/// RFC 7239, section 4.
pub(super) fn forwarded(lines: &[&[u8]]) -> Option<Vec<Hop>> {
    let mut hops = Vec::new();
    for line in lines {
        for element in words(line)?.split(|word| *word == Word::Mark(b',')) {
            hops.push(hop(element)?);
        }
    }
    Some(hops)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Token(Vec<u8>),
    Quoted(Vec<u8>),
    Mark(u8),
    Blank,
}

/// Splits a line into words. `None` if it contains anything else.
fn words(line: &[u8]) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let word = match (byte, words.pop()) {
            (b' ' | b'\t', Some(Word::Blank) | None) => Word::Blank,
            (_, None) if is_token(byte) => Word::Token(vec![byte]),
            (_, Some(Word::Token(mut token))) if is_token(byte) => {
                token.push(byte);
                Word::Token(token)
            }
            (_, before) => {
                words.extend(before);
                match byte {
                    b' ' | b'\t' => Word::Blank,
                    b',' | b';' | b'=' => Word::Mark(byte),
                    b'"' => Word::Quoted(quoted(&mut bytes)?),
                    _ if is_token(byte) => Word::Token(vec![byte]),
                    _ => return None,
                }
            }
        };
        words.push(word);
    }
    Some(words)
}

/// Reads a quoted string after its first quote, including its second quote.
fn quoted(bytes: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let byte = match bytes.next()? {
            b'"' => return Some(text),
            b'\\' => bytes.next()?,
            byte => byte,
        };
        if byte != b'\t' && byte.is_ascii_control() {
            return None;
        }
        text.push(byte);
    }
}

/// Parses pairs between semicolons, with blanks only at the ends.
fn hop(words: &[Word]) -> Option<Hop> {
    let blanks = |word: &&Word| **word == Word::Blank;
    let front = words.iter().take_while(blanks).count();
    let back = words[front..].iter().rev().take_while(blanks).count();
    let mut names = Vec::new();
    let mut hop = Hop::Hidden;
    for pair in words[front..words.len() - back].split(|word| *word == Word::Mark(b';')) {
        let (name, value) = match pair {
            [] => continue,
            [Word::Token(name), Word::Mark(b'='), Word::Token(value) | Word::Quoted(value)] => (name, value),
            _ => return None,
        };
        names.push(name.to_ascii_lowercase());
        if name.eq_ignore_ascii_case(b"for") {
            hop = node(value);
        }
    }
    let pairs = names.len();
    names.sort();
    names.dedup();
    (names.len() == pairs && pairs <= 16).then_some(hop)
}

/// RFC 7239, section 6.
fn node(value: &[u8]) -> Hop {
    let Ok(text) = String::from_utf8(value.to_vec()) else { return Hop::NotAnAddress };
    if let Some(address) = with_port(&text, is_node_port) {
        return Hop::Address(address);
    }
    match text.split(':').collect::<Vec<_>>()[..] {
        [name] if is_unidentified(name) => Hop::Hidden,
        [name, port] if is_unidentified(name) && is_node_port(port) => Hop::Hidden,
        _ => Hop::NotAnAddress,
    }
}

fn is_unidentified(name: &str) -> bool {
    name.eq_ignore_ascii_case("unknown") || is_obfuscated(name)
}

fn is_node_port(text: &str) -> bool {
    is_numeric_port(text) || is_obfuscated(text)
}

fn is_obfuscated(name: &str) -> bool {
    name.len() > 1
        && name.starts_with('_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
}

/// RFC 9110, section 5.6.2: visible characters without delimiters.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte)
}
