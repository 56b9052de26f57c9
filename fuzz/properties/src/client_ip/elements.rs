//! Both grammars, written down in another way than in the layer: words first, sentences afterwards.

use super::address::{bare, is_number_of_port, with_port};
use super::model::Hop;

/// Elements of any kind between commas.
pub(super) fn x_forwarded_for(lines: &[&[u8]]) -> Vec<Hop> {
    let joined = lines.join(&b","[..]);
    let hop = |element: &[u8]| {
        let text = String::from_utf8(element.to_vec()).ok()?;
        let text = text.trim_matches([' ', '\t']);
        bare(text).or_else(|| with_port(text, is_number_of_port)).map(Hop::Address)
    };
    let elements = joined.split(|byte| *byte == b',').filter(|_| !lines.is_empty());
    elements.map(|element| hop(element).unwrap_or(Hop::Odd)).collect()
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

/// What a line is made of, if it is made of words.
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

/// What stands between quotes, the second of which is taken as well.
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

/// Pairs between semicolons, without a blank except at the ends.
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
    let Ok(text) = String::from_utf8(value.to_vec()) else { return Hop::Odd };
    if let Some(address) = with_port(&text, is_port_of_node) {
        return Hop::Address(address);
    }
    match text.split(':').collect::<Vec<_>>()[..] {
        [name] if is_nobody(name) => Hop::Hidden,
        [name, port] if is_nobody(name) && is_port_of_node(port) => Hop::Hidden,
        _ => Hop::Odd,
    }
}

fn is_nobody(name: &str) -> bool {
    name.eq_ignore_ascii_case("unknown") || is_made_up(name)
}

fn is_port_of_node(text: &str) -> bool {
    is_number_of_port(text) || is_made_up(text)
}

fn is_made_up(name: &str) -> bool {
    name.len() > 1
        && name.starts_with('_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
}

/// RFC 9110, section 5.6.2: what is visible, without delimiters.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte)
}
